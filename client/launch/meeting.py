"""How the processes of a launch find one another: by ps-lite's scheduler, or by Rabit's tracker.

Either lives in, or beside, the launcher. `Verdict` is how it, and whoever hears of the processes,
end the launch.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from yarnps.client.launch.options import Limits, Options
from yarnps.client.launch.plan import Task
from yarnps.pslite.wire import Seat


class Verdict:
    """How a launch ends: the first word counts."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.text = ""
        self._given = asyncio.Event()

    def give(self, code: int, text: str) -> None:
        """End the launch with this status."""
        if self.code is None:
            self.code, self.text = code, text
            self._given.set()

    async def wait(self, limit_s: float) -> bool:
        """Whether it is there, after at most so long."""
        try:
            await asyncio.wait_for(self._given.wait(), limit_s)
        except asyncio.TimeoutError:
            return False
        return True


class Meeting(ABC):
    """What the processes are told to come to.

    Parameters
    ----------
    say
        Called with lines about the launch; with `debug=True`: only for those who look for faults.
    """

    def __init__(
        self,
        options: Options,
        environ: Mapping[str, str],
        verdict: Verdict,
        say: Callable[..., None],
        limits: Limits,
    ) -> None:
        self.options = options
        self.environ = environ
        self.verdict = verdict
        self.say = say
        self.limits = limits

    @abstractmethod
    async def open(self, host: str) -> None:
        """Be there, at an address of this machine."""

    @abstractmethod
    def task(self, seat: Seat) -> Task:
        """What starts a process that knows where to come."""

    @abstractmethod
    def ended_well(self, seat: Seat, left: Sequence[Seat]) -> None:
        """A process has ended with success; `left`: those who have not ended."""

    @abstractmethod
    def look(self, now: float) -> None:
        """Time has passed."""

    @abstractmethod
    async def close(self) -> None:
        """Nobody comes any more."""


def names(seats: Sequence[Seat]) -> str:
    """`worker 0, worker 1 and server 0`."""
    words = [str(seat) for seat in seats]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
