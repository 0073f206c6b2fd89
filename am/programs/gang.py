"""Programs that depend on one another: when one dies, all start again. No I/O, no clock.

A program that knows nothing of yarnps keeps no marks: what its dead process has done, and what the
others wait for, nobody can tell. Starting all of them again, from the checkpoint that the program
itself has written, is right for each of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from yarnps.am.resources.decisions import Decision, Died, Note
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure
from yarnps.causes import Cause

NEVER = "never"


class Gang:
    """Who starts again after a death.

    Parameters
    ----------
    restart
        "gang", or "never": then a death ends the job. Who may start again without the others is
        the runtime's to say.
    attempt
        The AM's, from 1: what an earlier attempt ran counts as a failure of all.
    """

    def __init__(self, members: Members, restart: str, attempt: int) -> None:
        self.restarts = 0
        self._members = members
        self._restart = restart
        self._before = attempt - 1
        self._alone: Counter[tuple[str, int]] = Counter()

    def attempt(self, role: str, rank: int) -> int:
        """How many times a program has failed before (DMLC_NUM_ATTEMPT)."""
        return self._before + self.restarts + self._alone[role, rank]

    def first_failure(self) -> list[Failure]:
        """What ends the job before it has begun: the AM's container died, and nothing may again."""
        if self._before == 0 or self._restart != NEVER:
            return []
        text = "the ApplicationMaster's container was lost, and dmlc.restart is never"
        return [Failure(Cause.NODE_LOST, text)]

    def died(
        self, died: Died, now: float, *, alone: bool
    ) -> tuple[bool, list[Decision], list[Failure]]:
        """A program has died.

        Parameters
        ----------
        alone
            It can start again without the others.

        Returns
        -------
        Whether all start again, what is to be done for that, and what ends the job.
        """
        if self._restart == NEVER:
            text = f"{died.role} {died.rank}: {died.text}; dmlc.restart is never"
            failure = Failure(
                died.cause, text, died.role, died.rank, died.traceback, died.exit_code
            )
            return False, [], [failure]
        if alone:
            self._alone[died.role, died.rank] += 1
            return False, [], []
        self.restarts += 1
        why = f"{died.role} {died.rank} died: {died.text}"
        out: list[Decision] = [Note(f"all start again (restart {self.restarts}): {why}")]
        text = f"all start again, {why}"
        return True, out + self._members.start_over(died.role, died.rank, text, now), []

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""
        alone = [[*who, count] for who, count in self._alone.items()]
        return {"restarts": self.restarts, "alone": alone}

    def restore(self, data: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self.restarts = data["restarts"]
        self._alone = Counter({(role, rank): count for role, rank, count in data["alone"]})
