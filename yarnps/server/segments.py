"""Rows by key, in one piece of memory for each shard: see `kernels` for the layout.

Segments grow one at a time, each along its own series of sizes: so while a table grows, a request
moves a few segments at most, and the table as a whole is always about as full as the average.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import wire
from yarnps.protocol.shards import Int64s, Sections
from yarnps.protocol.tables import WhenFull
from yarnps.server import kernels, updates
from yarnps.server.lookups import Lookups

# Fullest segment before it grows: an absent key is found to be absent after 1 / (1 - x)² probes.
_FULLEST = 0.87
_GROWTH = 1.2
# Below this a segment doubles: it is too small for the memory to matter.
_SMALL = 64
# Larger blocks are pages of their own, given back to the system when a segment has moved on.
_PAGED_BYTES = 4 << 10
# An eviction makes room for so large a share of the segment, so that the next one is not due soon.
_EVICTED_SHARE = 1 / 16

# Private, or the memory would count as shared; filled in at once, or each page would cost a trap.
_PAGES = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE

_TAG = np.zeros(1, np.uint64)
_CLOCK = np.zeros(1, np.uint32)
_TAG_BYTES = 8
# Up to here rows lie beside their tags: four such slots, or not quite three, are a cache line.
_BESIDE_BYTES = 16

Words = NDArray[np.uint32]
Bools = NDArray[np.bool_]


class TableFull(Exception):
    """New rows would take more memory than the server may use for tables."""


@dataclass
class Losses:
    """Rows that are not there, although a push named them, and why. All are counted."""

    ignored: int = 0  # no memory for a new row
    evicted: int = 0
    expired: int = 0

    def add(self, other: Losses) -> None:
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


class Block(NamedTuple):
    """A segment's memory: tags (capacity), rows as words of 4 bytes (capacity, width).

    Narrow rows lie beside their tags, so that a key costs one line of the cache, not two; with
    wide ones the tags lie together, so that looking past other keys' costs none.
    """

    tags: NDArray[np.uint64]
    words: Words

    @property
    def taken(self) -> Bools:
        found: Bools = self.tags != 0
        return found

    @property
    def nbytes(self) -> int:
        return self.tags.nbytes + self.words.nbytes


def keys_in(block: Block, shard: int, bits: int) -> Int64s:
    """The keys in a shard's segment, in the order of its slots."""
    keys = np.empty(int(block.taken.sum()), np.int64)
    kernels.keys_of(np.ascontiguousarray(block.tags), shard, bits, keys)
    return keys


def _beside(row_bytes: int) -> bool:
    """Whether rows lie beside their tags; both have to be at multiples of 8 bytes then."""
    return row_bytes % _TAG_BYTES == 0 and row_bytes <= _BESIDE_BYTES


def _block(capacity: int, width: int) -> Block:
    size = capacity * (_TAG_BYTES + 4 * width)
    memory: NDArray[np.uint8]
    if size >= _PAGED_BYTES:
        memory = np.frombuffer(mmap.mmap(-1, size, flags=_PAGES), np.uint8)
    else:
        memory = np.zeros(size, np.uint8)
    if _beside(4 * width):
        slots = memory.view(np.uint64).reshape(capacity, -1)
        return Block(slots[:, 0], slots.view(np.uint32)[:, _TAG_BYTES // 4 :])
    end = capacity * _TAG_BYTES
    return Block(
        memory[:end].view(np.uint64), memory[end:].view(np.uint32).reshape(capacity, width)
    )


class Segments:
    """Rows of `row_bytes` each.

    Parameters
    ----------
    places
        For each shard its place among this server's shards, -1 for those of others.
    stamped
        Each row keeps the clock of its last use.
    drop_zero
        A row of zeros stands for nothing, and is left out when its segment is moved.
    """

    def __init__(
        self,
        places: Int64s,
        bits: int,
        row_bytes: int,
        *,
        stamped: bool = False,
        drop_zero: bool = False,
    ) -> None:
        self._places = places
        self._bits = bits
        self._count = int(places.max(initial=-1)) + 1
        self._stamped = stamped
        self._drop_zero = drop_zero
        # The stamp is followed by padding where rows are multiples of 8 bytes.
        self._row_bytes = row_bytes + (8 if row_bytes % 8 == 0 else 4) * stamped
        self._stamp_offset = row_bytes
        slot = _TAG_BYTES + self._row_bytes
        beside = _beside(self._row_bytes)
        self._steps = (slot, slot) if beside else (_TAG_BYTES, self._row_bytes)
        self._nowhere = np.zeros(self._row_bytes // 4, np.uint32)
        self.none = self._nowhere.ctypes.data  # the row of a key that has none: zeros
        self.losses = Losses()
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        # One slot that nobody takes: a segment without memory of its own.
        empty = _block(1, self._row_bytes // 4)
        self._blocks: list[Block] = [empty] * self._count
        self._sizes = np.ones(self._count, np.int64)
        self._limits = np.zeros(self._count, np.int64)
        self._tags_at = np.full(self._count, empty.tags.ctypes.data, np.int64)
        self._rows_at = np.full(self._count, empty.words.ctypes.data, np.int64)
        self._used = np.zeros(self._count, np.int64)
        self._moves = np.zeros(self._count, np.int64)  # how often each segment has moved
        self._lookups = Lookups()
        self.nbytes = 0

    @property
    def rows(self) -> int:
        return int(self._used.sum())

    @property
    def places(self) -> int:
        """How many segments there are."""
        return self._count

    def block(self, shard: int) -> Block:
        """The memory of a shard's rows."""
        return self._blocks[int(self._places[shard])]

    def stamps(self, block: Block) -> NDArray[np.uint32]:
        """The clocks at which the rows of a block were used last."""
        return block.words[:, self._stamp_offset // 4]

    # ------------------------------------------------------------------ keys

    @property
    def _layout(self) -> tuple[Any, ...]:
        """Where rows are, as the kernels take it."""
        return (
            self._places,
            self._tags_at,
            self._rows_at,
            self._sizes,
            self._steps,
            _TAG,
            self._bits,
            self.none,
        )

    def find(self, keys: Int64s, sections: Sections) -> tuple[Int64s, int]:
        """Addresses of the keys' rows (`none` where there is no row), and how many have none.

        Raises
        ------
        WireError
            A key is not of the shard that it was sent for.
        """
        rows = np.empty(len(keys), np.int64)
        missing, wrong = kernels.find(
            keys,
            sections,
            *self._layout,
            rows,
        )
        if wrong:
            raise wire.WireError(
                wire.Code.BAD_MESSAGE, f"{wrong} keys are not of the shard they were sent for"
            )
        return rows, missing

    def find_or_insert(
        self,
        keys: Int64s,
        sections: Sections,
        clock: int,
        room: int | None = None,
        when_full: WhenFull = "fail",
    ) -> tuple[Int64s, Bools | None]:
        """Addresses of the keys' rows, and which of them are new (None: none is). No key twice.

        Parameters
        ----------
        clock
            The rows are used now.
        room
            Bytes that may be taken; None: any.
        when_full
            What happens when that is too little. With ``ignore`` and ``evict`` some keys may be
            left without a row.

        Raises
        ------
        TableFull
            With ``fail``. Nothing is changed then.
        """
        rows, missing = self._recalled(keys, sections) or self.find(keys, sections)
        new: Bools | None = None
        if missing:
            moved = self._make_room(rows, sections, missing, room, when_full)
            if moved.any():
                kernels.find_again(keys, sections, *self._layout, moved, False, rows)
            absent = rows == self.none
            kernels.insert(
                keys,
                sections,
                *self._layout,
                rows,
                self._used,
                self._limits,
            )
            without = rows == self.none
            self.losses.ignored += int(without.sum())
            new = absent & ~without
        if self._stamped:
            kernels.stamp_rows(rows, self._stamp_offset, self.none, _CLOCK, np.uint32(clock))
        return rows, new

    def remember(self, keys: Int64s, sections: Sections, rows: Int64s) -> None:
        """Keep what `find` has found: who pulls rows is likely to push the same ones next."""
        self._lookups.keep(keys, sections, rows, self._moves)

    def _recalled(self, keys: Int64s, sections: Sections) -> tuple[Int64s, int] | None:
        """What `find` would find now, if the keys' rows are remembered."""
        known = self._lookups.take(keys, sections)
        if known is None:
            return None
        moved = self._moves != known.moves
        missing = kernels.find_again(keys, sections, *self._layout, moved, True, known.rows)
        return known.rows, missing

    # ------------------------------------------------------------------ memory

    def _make_room(
        self,
        rows: Int64s,
        sections: Sections,
        missing: int,
        room: int | None,
        when_full: WhenFull,
    ) -> Bools:
        """Grow the segments that new keys do not fit in. Which segments have moved, by place."""
        counts = np.zeros(len(sections), np.int64)
        kernels.missing_of(rows, self.none, sections, counts)
        wanted = self._used.copy()
        np.add.at(wanted, self._places[sections[:, 0]], counts)
        moved = np.zeros(self._count, bool)
        short = np.flatnonzero(wanted > self._limits)
        sizes = [self._capacity_for(int(place), int(wanted[place])) for place in short]
        slot = _TAG_BYTES + self._row_bytes
        costs = [
            (size - (self._sizes[place] if self._limits[place] else 0)) * slot
            for place, size in zip(short, sizes, strict=True)
        ]
        if when_full == "fail" and room is not None and sum(costs) > room:
            raise TableFull(
                f"{missing} new rows need {sum(costs):,} bytes, {max(room, 0):,} are left for "
                'tables: give the servers more memory, or open the table with when_full="ignore" '
                'or "evict"'
            )
        for place, size, cost in zip(short.tolist(), sizes, costs, strict=True):
            if room is None or cost <= room:
                self._rebuild(place, self._blocks[place].taken, size)
                room = None if room is None else room - int(cost)
                moved[place] = True
            elif when_full == "evict" and self._limits[place]:
                self._evict(place, int(wanted[place]), rows)
                moved[place] = True
        return moved

    def _capacity_for(self, place: int, rows: int) -> int:
        """The least size of the segment's series that has room for so many rows."""
        if int(_SMALL * _FULLEST) >= rows:
            size = 4
            while int(size * _FULLEST) < rows:
                size *= 2
            return size
        # Each segment's series begins elsewhere (at multiples of the golden ratio), so that
        # segments of about the same number of rows do not all grow at the same time.
        phase = place * 0.6180339887498949 % 1
        power = math.ceil(math.log(rows / _FULLEST / _SMALL, _GROWTH) - phase)
        size = int(_SMALL * _GROWTH ** (power + phase))
        while int(size * _FULLEST) < rows:  # rounded down
            power += 1
            size = int(_SMALL * _GROWTH ** (power + phase))
        slot = _TAG_BYTES + self._row_bytes
        if size * slot < _PAGED_BYTES:
            return size
        return -(-size * slot // mmap.PAGESIZE) * mmap.PAGESIZE // slot  # whole pages

    def _rebuild(self, place: int, kept: Bools, size: int) -> None:
        """Move the kept rows of a segment to new memory."""
        old = self._blocks[place]
        block = _block(size, self._row_bytes // 4)
        if self._drop_zero:
            kept = kept & (old.words[:, : self._stamp_offset // 4] != 0).any(axis=1)
        if self._used[place]:
            self._used[place] = kernels.rebuild(old.tags, old.words, kept, block.tags, block.words)
        self._blocks[place] = block
        self.nbytes += block.nbytes - (old.nbytes if self._limits[place] else 0)
        self._moves[place] += 1
        self._sizes[place] = size
        self._limits[place] = int(size * _FULLEST)
        self._tags_at[place] = block.tags.ctypes.data
        self._rows_at[place] = block.words.ctypes.data

    def _evict(self, place: int, wanted: int, rows: Int64s) -> None:
        """Forget the oldest rows of a segment, except those at the addresses `rows`."""
        block = self._blocks[place]
        free = block.taken
        slots = (rows - self._rows_at[place]) // self._steps[1]
        inside = (rows != self.none) & (slots >= 0) & (slots < len(free))
        free[slots[inside]] = False
        candidates = np.flatnonzero(free)
        used = int(self._used[place])
        count = max(wanted - int(self._limits[place]), int(used * _EVICTED_SHARE))
        count = min(count, len(candidates))
        if count == 0:
            return
        ages = self.stamps(block)[candidates]
        oldest = candidates[np.argpartition(ages, count - 1)[:count]]
        kept = block.taken
        kept[oldest] = False
        self._rebuild(place, kept, len(kept))
        self.losses.evicted += count

    def keep(self, place: int, which: Callable[[Block], Bools]) -> int:
        """Forget the rows of a segment that `which` does not name; returns how many."""
        block = self._blocks[place]
        taken = block.taken
        kept = taken & which(block)
        count = int(kept.sum())
        lost = int(self._used[place]) - count
        if lost:
            size = min(self._capacity_for(place, count), len(taken))
            self._rebuild(place, kept, size)
        return lost

    def expire(self, place: int, before: int) -> None:
        """Forget the rows of a segment that were last used before a clock."""
        self.losses.expired += self.keep(
            place, lambda block: np.asarray(self.stamps(block) >= before)
        )

    def older(self, rows: Int64s, before: int) -> Bools:
        """Which rows were last used before a clock."""
        stamps = np.empty((len(rows), 1), np.uint32)
        updates.gather(rows + self._stamp_offset, stamps)
        old: Bools = (stamps[:, 0] < max(before, 0)) & (rows != self.none)
        return old

    def write(self, rows: Int64s, values: NDArray[Any]) -> None:
        """Set rows; stamps stay."""
        if len(rows):
            words = np.ascontiguousarray(values).view(np.uint32).reshape(len(rows), -1)
            kernels.write_rows(rows, words)

    def restamp(self, rows: Int64s, stamps: NDArray[np.uint32]) -> None:
        """Set the clocks at which rows were used last."""
        if len(rows):
            kernels.write_rows(rows + self._stamp_offset, stamps.reshape(-1, 1))
