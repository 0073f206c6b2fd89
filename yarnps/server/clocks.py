"""The gate of stale synchronous parallel training (Ho et al. 2013), as a server keeps it.

A worker at clock c may read when every member has reached c - staleness. A worker joins with its
first lease and leaves when it has none; a worker that the ApplicationMaster no longer names is
forgotten at once.
"""

from __future__ import annotations

from collections.abc import Iterable


class Clocks:
    """The clocks of the workers that this server has heard of.

    Parameters
    ----------
    staleness
        How far a worker may be ahead of the slowest; None: no gate.
    """

    def __init__(self, staleness: int | None) -> None:
        self._staleness = staleness
        self._clocks: dict[int, int] = {}
        self._outside: set[int] = set()
        self._gone: set[int] = set()
        self._named: set[int] = set()
        self._unheard: set[int] = set()
        self._highest = 0

    @property
    def highest(self) -> int:
        """The highest clock seen."""
        return self._highest

    def lowest(self) -> int:
        """The lowest live clock; without members the highest one seen."""
        return min(self._live(), default=self._highest)

    def slowest(self) -> list[int]:
        """The incarnations at the lowest clock."""
        low = self.lowest()
        return [
            who for who in self._clocks if who not in self._outside and self._clocks[who] == low
        ]

    def _live(self) -> list[int]:
        if not self._outside:
            return list(self._clocks.values())
        return [clock for who, clock in self._clocks.items() if who not in self._outside]

    def begin_at(self, clock: int) -> None:
        """A checkpoint was loaded whose pushes had come so far: the first to join goes on there."""
        self._highest = max(self._highest, clock)

    def wait_for(self, incarnations: Iterable[int]) -> None:
        """After a restart: the gate stays shut until these have said where they are."""
        self._unheard = set(incarnations) - set(self._clocks)

    def stop_waiting(self) -> set[int]:
        """Give up on those who have not said where they are; returns them."""
        unheard, self._unheard = self._unheard, set()
        return unheard

    def heard(self, incarnation: int) -> None:
        """Its clock is known, or it has none."""
        self._unheard.discard(incarnation)

    def join(self, incarnation: int, clock: int | None) -> int:
        """Enter the clock, at the lowest live clock when `clock` is None. Returns its clock."""
        if incarnation in self._gone:
            return self.lowest()
        self.heard(incarnation)
        if clock is None:
            clock = self._clocks.get(incarnation, self.lowest())
        self._clocks[incarnation] = max(clock, self._clocks.get(incarnation, 0))
        self._highest = max(self._highest, clock)
        return self._clocks[incarnation]

    def advance(self, incarnation: int, clock: int) -> bool:
        """A member says where it is; True when that moved it on."""
        before = self._clocks.get(incarnation)
        if before is None or clock <= before:
            return False
        self._clocks[incarnation] = clock
        self._highest = max(self._highest, clock)
        return True

    def leave(self, incarnation: int) -> None:
        self.heard(incarnation)
        self._clocks.pop(incarnation, None)

    def set_members(self, inside: Iterable[int], outside: Iterable[int]) -> list[int]:
        """The ApplicationMaster's word on who is alive. Returns those that are gone now."""
        self._outside = set(outside)
        alive = set(inside) | self._outside
        gone = self._named - alive
        self._gone |= gone
        self._named = alive
        self._unheard &= alive
        for incarnation in gone:
            self._clocks.pop(incarnation, None)
        return sorted(gone)

    def is_open(self, clock: int) -> bool:
        """Whether a worker at this clock may read."""
        if self._staleness is None:
            return True
        if self._unheard:
            return False
        live = self._live()
        return not live or min(live) >= clock - self._staleness

    def who_is_missing(self) -> str:
        """For the message of a wait that has reached its limit."""
        if self._unheard:
            names = ", ".join(f"{who:016x}" for who in sorted(self._unheard))
            return f"workers that have not reported since this server's start: {names}"
        names = ", ".join(f"{who:016x}" for who in self.slowest())
        return f"the slowest worker is at clock {self.lowest()}: incarnation {names}"
