"""`yarnps status`: how a job is doing, or how it ended."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import click

from yarnps._errors import ClusterError, YarnpsError
from yarnps.client import clusters, exits, job
from yarnps.client.cmd_attach import JOB_DIR
from yarnps.client.follow import event_line, report_line
from yarnps.client.output import OUTPUT, clock, count, duration, print_json, size, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yarnps.status import Process, Status

EVENTS_SHOWN = 10
GONE = "The job's ApplicationMaster is gone, and left no word on how it ended."


@click.command("status")
@click.argument("application")
@clusters.CLUSTER
@JOB_DIR
@OUTPUT
@click.option("--events", is_flag=True, help="The whole event log.")
def command(
    application: str, cluster: str | None, job_dir: str | None, output: str, events: bool
) -> int:
    """Say how a job is doing, or how it ended.

    With -o json: the status document, which is what the job's page shows, too.
    """
    view = job.find(clusters.choose_for_job(application, cluster), application, job_dir)
    try:
        sight = _or_recorded(view, view.look())
        log = view.events() if events else []
    finally:
        view.close()
    if output == "json":
        print_json(as_json(application, sight, log if events else None))
        return exits.SUCCEEDED
    if sight.status is not None:
        if sight.trouble and not (sight.live or sight.gone):
            print(f"{sight.trouble}. What was written at {clock(sight.status.now)}:\n")
        print(describe(sight.status, live=sight.live))
        if sight.gone and sight.status.outcome is None:
            print(GONE)
    elif sight.report is not None:
        if sight.report.ended:
            outcome = exits.outcome_of_report(sight.report)
            print(f"{application}: {outcome.state}, says the resource manager. {outcome.cause}")
        else:
            print(f"{application}: {report_line(sight.report, sight.note)}")
    elif sight.gone:
        print(f"{application}: {GONE} Its last output:\n{sight.trouble}")
    else:
        raise ClusterError(
            f"nothing can be seen of {application}: {sight.trouble or 'it has just been started'}",
            "Try again in a moment; `yarnps doctor` looks for what is wrong.",
        )
    for event in log:
        print(event_line(event))
    return exits.SUCCEEDED


def _or_recorded(view: job.JobView, sight: job.Sight) -> job.Sight:
    """Where the AM does not answer: with what it has written last, if that can be read."""
    known = isinstance(view, job.LocalView) or sight.report is not None
    if sight.status is not None or sight.gone or not (known and sight.trouble):
        return sight
    try:
        return dataclasses.replace(sight, status=view.recorded())
    except (YarnpsError, OSError, ValueError):
        return sight  # the trouble that is known already is what there is to say


def as_json(application: str, sight: job.Sight, log: list[Any] | None) -> dict[str, Any]:
    """The status document; where there is none, the resource manager's view in its shape."""
    from yarnps.status import Status, to_dict

    if sight.status is not None:
        answer = to_dict(sight.status)
    else:
        report = sight.report
        state = "STARTING"
        outcome = None
        if report is not None and report.ended:
            outcome = exits.outcome_of_report(report)
            state = outcome.state
        elif sight.gone:
            state = "FAILED"
        answer = to_dict(
            Status(
                application=application,
                name=report.name if report else "",
                user=report.user if report else "",
                queue=report.queue if report else "",
                state=state,
                sentence=report_line(report, sight.note) if report else sight.trouble,
                now=time.time(),
                started=(report.started if report else 0) or 0,
                ended=report.finished if report else None,
                outcome=outcome,
            )
        )
    answer["report"] = None if sight.report is None else dataclasses.asdict(sight.report)
    if log is not None:
        answer["events"] = [dataclasses.asdict(e) for e in log]
    return answer


# Only yarnps' own programs tell how far they are, and only their model is the servers'.
_OF_NATIVE = ("progress", "model")


def describe(status: Status, *, live: bool) -> str:
    """The status document as text."""
    lines = [status.sentence]
    if status.outcome is not None and status.outcome.traceback:
        lines += ["", status.outcome.traceback.rstrip()]
    lines += ["", *(f"{name + ':':<15}{value}" for name, value in _facts(status))]
    if status.processes and live:
        lines += ["", _process_table(status.processes)]
    if status.events:
        lines += ["", *(event_line(e) for e in status.events[-EVENTS_SHOWN:])]
    return "\n".join(lines)


def _facts(status: Status) -> list[tuple[str, str]]:
    """The job in figures, each with its name."""
    p = status.progress
    facts = [
        ("job", f"{status.application} ({status.name}), {status.state.lower()}"),
        ("user", f"{status.user}, queue {status.queue or '-'}"),
        ("times", f"started {clock(status.started)}, ended {clock(status.ended)}"),
        ("progress", f"epoch {p.epoch} of {p.epochs}, {count(p.rows)} rows, "
                     f"{p.splits_done} of {p.splits_total} splits, {count(p.rows_per_s)} rows/s"),
        ("job directory", status.job_dir or "-"),
        ("model", status.model or "-"),
    ]  # fmt: skip
    if status.runtime != "native":
        facts = [fact for fact in facts if fact[0] not in _OF_NATIVE]
    if status.metrics:
        values = sorted((status.best or status.metrics).items())
        facts.append(("metrics", ", ".join(f"{name} {value:.6g}" for name, value in values)))
    if p.bad_records or p.skipped_splits:
        left_out = f"{count(p.bad_records)} records, {p.skipped_splits} splits"
        facts.append(("left out", left_out))
    if status.lost_rows:
        text = f"pushes of {count(status.lost_rows)} rows, in shards of servers that died"
        facts.append(("lost", text))
    for process in status.processes:
        for kept in process.tables:
            if kept.losses:
                facts.append((f"table {kept.name}", f"{kept.losses} on server {process.rank}"))
    if status.restarts or status.am_restarts:
        facts.append(("restarts", f"{status.restarts} of roles, {status.am_restarts} of the AM"))
    return facts


def _process_table(processes: Sequence[Process]) -> str:
    header = ("ROLE", "RANK", "STATE", "NODE", "CONTAINER", "START", "MEMORY", "ROWS/S", "WAITED",
              "NOTE")  # fmt: skip
    rows = [
        (x.role, x.rank, x.state, x.node, x.container, x.incarnation, size(x.memory),
         count(x.rows_per_s or 0), "" if x.idle_s is None else duration(x.idle_s), x.note)
        for x in processes
    ]  # fmt: skip
    return table(header, rows)
