"""The barriers of a ps-lite job: sets of seats, over any group. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from yarnps.pslite import wire
from yarnps.pslite.wire import Seat


class Passed(NamedTuple):
    """A barrier is over; the `nth` of its group. `since`: when the first came to it."""

    group: int
    nth: int
    since: float


class Over(NamedTuple):
    """A barrier is over, and who has waited at it."""

    passed: Passed
    present: tuple[Seat, ...]


class Waiting(NamedTuple):
    """A barrier that is not over."""

    group: int
    since: float
    present: tuple[Seat, ...]
    missing: tuple[Seat, ...]


class Barriers:
    """Who waits where. One that has ended well counts as present everywhere.

    Parameters
    ----------
    seats
        All of the job. The scheduler itself, which is in some groups, is always present.
    """

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._groups = {group: _members(seats, group) for group in range(wire.EVERYONE + 1)}
        self._present: dict[int, dict[Seat, float]] = {}  # group -> who waits, since when
        self._passed: dict[int, int] = {}
        self._gone: set[Seat] = set()  # who has ended well

    def members(self, group: int) -> tuple[Seat, ...]:
        """The seats that are in a group."""
        return self._groups.get(group, ())

    def come(self, seat: Seat, group: int, now: float) -> list[Over]:
        """A seat that is in the group waits there; what is over then."""
        present = self._present.setdefault(group, {})
        present[seat] = now
        # The usual case is decided by counting: barriers are what a scheduler does all day.
        if len(present) < len(self._groups[group]) and not self._gone:
            return []
        return self._settle()

    def ended_well(self, seat: Seat) -> list[Over]:
        """Nobody needs to wait for a seat any more; what is over then."""
        self._gone.add(seat)
        return self._settle()

    def leave(self, seat: Seat) -> None:
        """Whoever sat there waits nowhere, and does not count as present."""
        self._gone.discard(seat)
        for present in self._present.values():
            present.pop(seat, None)

    def waiting(self) -> list[Waiting]:
        """The barriers that are not over."""
        return [
            Waiting(group, min(present.values()), tuple(present), tuple(self._missing(group)))
            for group, present in self._present.items()
            if present
        ]

    def _settle(self) -> list[Over]:
        """End the barriers that nobody is missing from."""
        out: list[Over] = []
        for group in list(self._present):
            present = self._present[group]
            if not present or self._missing(group):
                continue
            del self._present[group]
            self._passed[group] = self._passed.get(group, 0) + 1
            passed = Passed(group, self._passed[group], min(present.values()))
            out.append(Over(passed, tuple(present)))
        return out

    def _missing(self, group: int) -> list[Seat]:
        present = self._present.get(group, {})
        return [
            seat for seat in self._groups[group] if seat not in present and seat not in self._gone
        ]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data, without who has ended well."""
        return {
            "present": [
                [group, [[*seat, since] for seat, since in present.items()]]
                for group, present in self._present.items()
            ],
            "passed": list(self._passed.items()),
        }

    def restore(self, data: Mapping[str, Any], ended_well: Iterable[Seat]) -> None:
        """Take over the state of a snapshot."""
        self._present = {
            group: {Seat(role, rank): since for role, rank, since in present}
            for group, present in data["present"]
        }
        self._passed = dict(data["passed"])
        self._gone = set(ended_well)


def _members(seats: Sequence[Seat], group: int) -> tuple[Seat, ...]:
    in_it = {"server": group & wire.SERVER_GROUP, "worker": group & wire.WORKER_GROUP}
    return tuple(seat for seat in seats if in_it[seat.role])
