"""How the job ends: a stated rule over its roles.

1. The plan has reached its end and the model is in place: SUCCEEDED, whatever happens afterwards
   to containers that are no longer needed. Splits that were skipped are counted in the outcome.
2. Somebody killed it: KILLED.
3. The first of these, in the order in which they happened: FAILED.
   - something that concerns the whole job (input, model, the ApplicationMaster itself, …);
   - a rank gave up and its role does not allow failures;
   - a rank gave up, its role allows failures, and nobody is left in that role;
   - another service has failed more often than its `max_restarts`, and does not allow failures.
4. Otherwise the job goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from yarnps.causes import RETRY_HELPS, Cause
from yarnps.status import Outcome

# The resource manager keeps diagnostics of some kilobytes; a traceback's end says most.
TRACEBACK_CHARS = 2_000


@dataclass(frozen=True)
class RoleRule:
    """What counts for one role."""

    instances: int
    allow_failures: bool = False


@dataclass(frozen=True)
class Failure:
    """Something that may end the job. Without a role it concerns the whole job."""

    cause: Cause
    text: str
    role: str = ""
    rank: int | None = None
    traceback: str = ""
    exit_code: int | None = None  # of the process that failed, where one did


@dataclass(frozen=True)
class Killed:
    """Somebody ordered the end."""

    text: str
    cause: Cause = Cause.KILLED_BY_USER


@dataclass(frozen=True)
class Facts:
    """What has happened so far. `failures` in their order in time."""

    roles: Mapping[str, RoleRule]
    plan_ended: bool = False
    model_in_place: bool = False
    skipped_splits: int = 0
    killed: Killed | None = None
    failures: Sequence[Failure] = field(default_factory=tuple)


def decide(facts: Facts) -> Outcome | None:
    """The outcome, or None: the job goes on."""
    if facts.plan_ended and facts.model_in_place:
        return Outcome("SUCCEEDED", skipped_splits=facts.skipped_splits)
    if facts.killed is not None:
        return _outcome("KILLED", facts, Failure(facts.killed.cause, facts.killed.text))
    failure = first_decisive(facts.failures, facts.roles)
    if failure is None:
        return None
    return _outcome("FAILED", facts, failure)


def first_decisive(failures: Sequence[Failure], roles: Mapping[str, RoleRule]) -> Failure | None:
    """The first failure that ends the job under rule 3."""
    gone: dict[str, list[Failure]] = {}
    for failure in failures:
        rule = roles.get(failure.role)
        if rule is None or not rule.allow_failures:
            return failure
        mine = gone.setdefault(failure.role, [])
        if failure.rank not in {f.rank for f in mine}:
            mine.append(failure)
        if len(mine) >= rule.instances:
            return _nobody_left(mine)
    return None


def _nobody_left(failures: list[Failure]) -> Failure:
    """One failure out of those of all ranks of a role; the first with a traceback tells most."""
    best = next((f for f in failures if f.traceback), failures[0])
    if len(failures) == 1:
        return best
    text = f"no {best.role} is left, all {len(failures)} gave up. {best.text}"
    return replace(best, text=text)


def _outcome(state: str, facts: Facts, why: Failure) -> Outcome:
    return Outcome(
        state=state,
        cause=why.text,
        cause_code=why.cause.value,
        retry_helps=RETRY_HELPS.get(why.cause),
        skipped_splits=facts.skipped_splits,
        traceback=why.traceback[-TRACEBACK_CHARS:],
        exit_code=why.exit_code,
    )


def diagnostics(outcome: Outcome) -> str:
    """What the resource manager is told: the sentence, then the end of the traceback."""
    if outcome.state == "SUCCEEDED":
        skips = outcome.skipped_splits
        return f"succeeded; {skips} splits were skipped" if skips else "succeeded"
    head = f"{outcome.state.lower()} [{outcome.cause_code}]: {outcome.cause}"
    return f"{head}\n{outcome.traceback}" if outcome.traceback else head
