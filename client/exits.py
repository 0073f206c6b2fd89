"""How a job's end becomes an exit status and one object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yarnps.causes import RETRY_HELPS, Cause

if TYPE_CHECKING:
    from yarnps.client.rm import Report
    from yarnps.status import Outcome, Status

SUCCEEDED, FAILED, WRONG_INPUT, LOST, SKIPS, KILLED, START_TIMEOUT = range(7)

# What the user wrote is wrong, found at submission or by the job: the same status either way.
_INPUT_CAUSES = {Cause.DATA.value, Cause.INPUT.value, Cause.ENVIRONMENT.value}

# The exit status with which our scripts end when a node lacks the interpreter or a package.
NO_ENVIRONMENT = 78

ENVIRONMENT_REMEDY = (
    "The nodes do not have the Python environment of the job. Pack it: set yarnps.environment to "
    "venv:///path, conda://name or an archive."
)


def exit_code(outcome: Outcome) -> int:
    """The exit status for how a job ended."""
    if outcome.state == "SUCCEEDED":
        return SKIPS if outcome.skipped_splits else SUCCEEDED
    if outcome.state == "KILLED":
        return KILLED
    if outcome.cause_code == Cause.START_TIMEOUT.value:
        return START_TIMEOUT
    return WRONG_INPUT if outcome.cause_code in _INPUT_CAUSES else FAILED


def no_environment(diagnostics: str) -> bool:
    """Whether YARN's words mean that our script did not find its Python or its packages."""
    return any(f"{word} {NO_ENVIRONMENT}" in diagnostics for word in ("exit code", "exitCode:"))


def outcome_of_report(report: Report) -> Outcome:
    """How an application ended by the resource manager's word alone.

    Used when the ApplicationMaster left no word of its own: it never came up, or this is a plain
    skein application.
    """
    from yarnps.status import Outcome

    text = report.diagnostics or f"the resource manager says {report.state} and nothing else"
    if report.state == "KILLED" or report.final_status == "KILLED":
        return Outcome("KILLED", text, Cause.KILLED_BY_USER.value)
    if report.state == "FINISHED" and report.final_status == "SUCCEEDED":
        return Outcome("SUCCEEDED")
    if no_environment(text):
        text = f"{text}\n{ENVIRONMENT_REMEDY}"
        return Outcome("FAILED", text, Cause.ENVIRONMENT.value, retry_helps=False)
    cause = Cause.AM
    if "beyond physical memory limits" in text or "beyond the 'PHYSICAL' memory limit" in text:
        cause = Cause.MEMORY
    elif "FileNotFoundException" in text or "changed on src filesystem" in text:
        cause = Cause.LOCALISATION
    return Outcome("FAILED", text, cause.value, retry_helps=RETRY_HELPS.get(cause))


def result(
    application: str | None,
    outcome: Outcome | None,
    *,
    status: Status | None = None,
    job_dir: str = "",
    elapsed_s: float = 0.0,
) -> dict[str, Any]:
    """The one object that `submit -o json` ends with."""
    progress = status.progress if status else None
    return {
        "application": application,
        "state": outcome.state if outcome else (status.state if status else "UNKNOWN"),
        "cause": outcome.cause if outcome else "",
        "cause_code": outcome.cause_code if outcome else "",
        "retry_helps": outcome.retry_helps if outcome else None,
        "metrics": (status.best or status.metrics) if status else {},
        "model": status.model if status else "",
        "job_dir": (status.job_dir if status else "") or job_dir,
        "elapsed_s": round(elapsed_s, 3),
        "rows": progress.rows if progress else 0,
        "rows_per_s": progress.rows_per_s if progress else 0.0,
        "splits": progress.splits_all if progress else 0,
        "lost_rows": status.lost_rows if status else 0,
    }
