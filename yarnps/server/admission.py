"""Keys that get a row late, and rows that are forgotten: what `admit` and `expire` ask for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.shards import Int64s, Sections, frozen
from yarnps.protocol.tables import TableSpec
from yarnps.server import updates
from yarnps.server.segments import Bools, Segments, keys_in

# All segments are looked through for expired rows this often within the time to expire, and at
# most so many with one push: a row is forgotten soon after its time, and no push waits for it.
_LOOKS = 4
_LOOKED_AT_ONCE = 8


class Candidates(NamedTuple):
    """Keys that have not been seen often enough for a row."""

    keys: Int64s
    seen: NDArray[np.uint32]
    stamps: NDArray[np.uint32] | None


class Admission:
    """Counts how often keys were seen that have no row yet.

    Attributes
    ----------
    segments
        The counts, by key.
    """

    def __init__(self, spec: TableSpec, places: Int64s, bits: int) -> None:
        self.segments = Segments(places, bits, 4, stamped=spec.stamped, drop_zero=True)
        self._spec = spec
        self._bits = bits

    def admitted(
        self,
        absent: Bools,
        keys: Int64s,
        sections: Sections,
        clock: int,
        room: int | None,
    ) -> Bools:
        """Count a push's keys without a row (`absent`); which keys have one or may have one now.

        Raises
        ------
        TableFull
            The counts would take more than `room` bytes.
        """
        counting = self.segments
        strangers, named, _ = only(absent, keys, sections, None)
        counts, _ = counting.find_or_insert(strangers, named, clock, room, self._spec.when_full)
        seen = np.empty((len(counts), 1), np.uint32)
        updates.gather(counts, seen)
        seen += 1
        enough: Bools = seen[:, 0] >= self._spec.admit
        there = counts != counting.none
        # A key that is admitted needs no count any more; its slot goes when the segment moves.
        counting.write(counts[there], np.where(enough, np.uint32(0), seen[:, 0])[there])
        found: Bools = ~absent
        found[absent] = enough
        return found

    def copy(self, shard: int) -> Candidates:
        """The keys of a shard that wait."""
        block = self.segments.block(shard)
        seen = block.words[block.taken][:, 0]
        alive = seen > 0
        stamps = self.segments.stamps(block)[block.taken] if self._spec.stamped else None
        return Candidates(
            keys_in(block, shard, self._bits)[alive],
            seen[alive],
            None if stamps is None else stamps[alive],
        )

    def load(self, sections: Sections, candidates: Candidates) -> None:
        """Go on counting where another copy of the shards has been."""
        rows, _ = self.segments.find_or_insert(candidates.keys, sections, 0)
        self.segments.write(rows, candidates.seen)
        if candidates.stamps is not None and self._spec.stamped:
            self.segments.restamp(rows, candidates.stamps)


class Expiry:
    """Forgets what has not been used for `after` clocks.

    Parameters
    ----------
    segments
        Of a table: its rows, and the keys that wait for one.
    places
        For each shard its place among this server's shards.
    """

    def __init__(self, after: int, segments: list[Segments], places: Int64s) -> None:
        self.after = after
        self._segments = segments
        self._places = places
        self._looked = -1

    def named(self, keys: Int64s, sections: Sections, clock: int) -> None:
        """Forget what has expired where a push is about to find it: when exactly the segments
        are looked through makes no difference to anybody then."""
        before = clock - self.after
        for segments in self._segments:
            rows, _ = segments.find(keys, sections)
            old = segments.older(rows, before)
            if old.any():
                numbers = np.repeat(np.arange(len(sections)), sections[:, 1])
                for shard in sections[np.unique(numbers[old]), 0]:
                    segments.expire(int(self._places[shard]), before)

    def look(self, clock: int) -> None:
        """Look through the segments whose turn it is."""
        count = self._segments[0].places
        due = clock * _LOOKS * count // self.after
        if self._looked < 0:
            self._looked = due
        for _ in range(min(due - self._looked, _LOOKED_AT_ONCE)):
            place = self._looked % count
            self._looked += 1
            for segments in self._segments:
                segments.expire(place, clock - self.after)


def only(
    kept: Bools, keys: Int64s, sections: Sections, grads: NDArray[Any] | None
) -> tuple[Int64s, Sections, Any]:
    """Some of the keys of a message; its sections all stay."""
    numbers = np.repeat(np.arange(len(sections)), sections[:, 1])
    fewer = sections.copy()
    fewer[:, 1] = np.bincount(numbers[kept], minlength=len(sections))
    rows = None if grads is None else frozen(grads[kept])
    return frozen(keys[kept]), frozen(fewer), rows
