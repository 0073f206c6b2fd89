"""Whether the job has ended, and how, from what its machines know."""

from __future__ import annotations

from typing import Any

from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.resources import outcome as rule
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure, Killed, RoleRule
from yarnps.am.training.course import Course
from yarnps.causes import Cause
from yarnps.status import Outcome

# Programs may do something of their own after the data has ended; then the job ends without them.
PROGRAM_END_LIMIT_S = 600.0


class Verdict:
    """Puts the facts before the outcome rule.

    Parameters
    ----------
    programs
        Of a runtime that is not ours, which then has no course.
    failures
        What may end the job, in the order in which it happened: the rule takes the first. All
        machines put theirs into this one list.
    """

    def __init__(
        self,
        config: Config,
        members: Members,
        course: Course,
        programs: Programs | None,
        failures: list[Failure],
    ) -> None:
        roles = (config.server, config.worker)
        self._rules = {r.name: RoleRule(r.instances, r.allow_failures) for r in roles}
        self._members = members
        self._course = course
        self._programs = programs
        self._failures = failures
        self._killed: Killed | None = None
        self._over_since: float | None = None

    def kill(self, text: str) -> None:
        """Somebody has ordered the end."""
        self._killed = Killed(text)

    def reached(self, now: float) -> Outcome | None:
        """The outcome, if the job has ended by now."""
        course = self._course
        if course.over and self._over_since is None:
            self._over_since = now
        return rule.decide(
            rule.Facts(
                roles=self._rules,
                plan_ended=self._all_done(now),
                model_in_place=course.model_written or self._programs is not None,
                skipped_splits=len(course.ledger.skipped) if course.ledger else 0,
                killed=self._killed,
                failures=tuple(self._failures),
            )
        )

    def _all_done(self, now: float) -> bool:
        """Whether the plan is at its end, and the programs are."""
        if self._programs is not None:
            return self._programs.over(now)
        return self._course.over and self._workers_done(now)

    def _workers_done(self, now: float) -> bool:
        """Whether every worker's program has ended, or has had its time."""
        if self._over_since is not None and now - self._over_since > PROGRAM_END_LIMIT_S:
            return True
        rows = self._members.processes(now)
        return all(r.state in ("finished", "failed") for r in rows if r.role == "worker")

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "failures": [{**vars(f), "cause": f.cause.value} for f in self._failures],
            "over_since": self._over_since,
            "killed": self._killed.text if self._killed else None,
        }

    def restore(self, data: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self._failures[:] = [
            Failure(**{**item, "cause": Cause(item["cause"])}) for item in data["failures"]
        ]
        self._over_since = data["over_since"]
        self._killed = Killed(data["killed"]) if data["killed"] is not None else None
