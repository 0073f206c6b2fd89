"""A sparse table: int64 key → row of `dim` weights and their optimizer state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import wire
from yarnps.protocol.shards import Int64s, Sections, frozen, mix, shard_bits
from yarnps.protocol.tables import Normal, TableSpec, Uniform, Zeros
from yarnps.server import kernels
from yarnps.server.optimizers import kernels_for

# Fullest segment before the index grows: longer probes cost more than memory beyond this.
_FULLEST = 0.8
_GROWTH = 1.5
_LEAST_CAPACITY = 16

# Rows grow by a quarter, but never by more than this: the system moves pages, and copies nothing,
# only the new part is cleared.
_GROWTH_BYTES = 32 << 20
_LEAST_ROWS = 256


class TableFull(Exception):
    """New rows would take more memory than the server may use for tables."""


class ShardRows(NamedTuple):
    """Copies of all rows of a shard: keys (n), states (n, width)."""

    keys: Int64s
    states: NDArray[Any]


def seed_of(spec: TableSpec) -> np.uint64:
    """The seed of a table's initial values: the job's, mixed with the table's name."""
    key = np.uint64((spec.seed << 32 ^ wire.table_id(spec.name)) & (2**64 - 1))
    with np.errstate(over="ignore"):
        mixed: np.uint64 = mix.py_func(key)
    return mixed


def initial_of(spec: TableSpec) -> tuple[int, float, float]:
    """Kind of distribution and its two parameters, as the kernel `initial` takes them."""
    if isinstance(spec.init, Uniform):
        return kernels.UNIFORM, spec.init.low, spec.init.high
    if isinstance(spec.init, Normal):
        return kernels.NORMAL, spec.init.std, 0.0
    return kernels.ZEROS, 0.0, 0.0


class SparseTable:
    """The rows of one table that belong to this server's shards.

    Parameters
    ----------
    spec
        What the table is.
    places
        For each shard its place among this server's shards, -1 for those of others.
    """

    def __init__(self, spec: TableSpec, places: NDArray[np.int64]) -> None:
        self.spec = spec
        self.dtype = np.dtype(spec.dtype)
        self.dim = spec.dim
        self._places = places
        self._bits = shard_bits(len(places))
        self._kernels = kernels_for(spec.optimizer, spec.dtype)
        self._width = self.dim * self._kernels.states
        self._seed = seed_of(spec)
        self._initial = initial_of(spec)
        self._segments = int(places.max()) + 1
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._capacity = _LEAST_CAPACITY
        self._tags = np.zeros(self._segments * self._capacity, np.uint64)
        self._rows = np.zeros(self._segments * self._capacity, np.uint32)
        self._used = np.zeros(self._segments, np.int64)
        self._next = 1  # row 0 is nobody's: zeros
        self._values = np.zeros((_LEAST_ROWS, self._width), self.dtype)

    @property
    def rows(self) -> int:
        return self._next - 1

    @property
    def nbytes(self) -> int:
        return self._tags.nbytes + self._rows.nbytes + self._values.nbytes

    def warm(self) -> None:
        """Compile (or load from the cache) every kernel that a request may need."""
        twin = SparseTable(self.spec, self._places)
        shard = int(np.flatnonzero(self._places == 0)[0])
        keys = frozen(np.array([_key_of_shard(shard, self._bits)], np.int64))
        sections = frozen(np.array([[shard, 1]], np.uint32))
        twin.push(keys, sections, frozen(np.ones((1, self.dim), self.dtype)))
        twin.pull(keys, sections)
        twin._grow_index(np.full(self._segments, 2 * _LEAST_CAPACITY, np.int64))

    # ------------------------------------------------------------------ requests

    def pull(self, keys: Int64s, sections: Sections) -> NDArray[Any]:
        """Weights of keys; of those without a row the initial values. No row is made."""
        rows, missing = self._find(keys, sections)
        out = np.empty((len(keys), self.dim), self.dtype)
        self._kernels.pull_rows(self._values, rows, out)
        if missing and self._initial[0] != kernels.ZEROS:
            absent = np.flatnonzero(rows == 0)
            out[absent] = self._initial_rows(keys[absent])
        return out

    def push(
        self, keys: Int64s, sections: Sections, grads: NDArray[Any], *, room: int | None = None
    ) -> None:
        """Apply gradients; keys without a row get one. No key twice.

        Raises
        ------
        TableFull
            The new rows would take more than `room` bytes. Nothing is changed then.
        """
        rows = self._find_or_insert(keys, sections, room)
        self._kernels.push_rows(self._values, rows, grads)

    def assign(
        self, keys: Int64s, sections: Sections, weights: NDArray[Any], *, room: int | None = None
    ) -> None:
        """Set weights; the optimizer's state starts anew for these rows."""
        rows = self._find_or_insert(keys, sections, room)
        self._values[rows] = self.states_of(weights)

    def contains(self, keys: Int64s, sections: Sections) -> NDArray[np.uint8]:
        """1 for every key that has a row."""
        rows, _ = self._find(keys, sections)
        found: NDArray[np.uint8] = (rows != 0).astype(np.uint8)
        return found

    # ------------------------------------------------------------------ whole shards

    def copy_shard(self, shard: int) -> ShardRows:
        """All rows of a shard."""
        place = int(self._places[shard])
        count = int(self._used[place])
        keys, rows = np.empty(count, np.int64), np.empty(count, np.int64)
        start = place * self._capacity
        kernels.read_segment(
            self._tags,
            self._rows,
            start,
            start + self._capacity,
            shard,
            self._bits,
            keys,
            rows,
        )
        return ShardRows(keys, self._values[rows])

    def weights_of(self, states: NDArray[Any]) -> NDArray[Any]:
        """The weights that rows of states stand for."""
        out = np.empty((len(states), self.dim), self.dtype)
        self._kernels.pull_rows(
            np.ascontiguousarray(states), np.arange(len(states), dtype=np.int64), out
        )
        return out

    def states_of(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Rows of states whose weights are these."""
        n = len(weights)
        out = np.zeros((self._kernels.states, n, self.dim), self.dtype)
        self._kernels.states_of(weights, out)
        rows: NDArray[Any] = out.transpose(1, 0, 2).reshape(n, self._width)
        return rows

    def load(self, keys: Int64s, sections: Sections, states: NDArray[Any]) -> None:
        """Set whole rows, optimizer state included."""
        rows = self._find_or_insert(keys, sections, None)
        self._values[rows] = states

    # ------------------------------------------------------------------ inside

    def _find(self, keys: Int64s, sections: Sections) -> tuple[Int64s, int]:
        rows = np.empty(len(keys), np.int64)
        missing, wrong = kernels.find(
            keys,
            sections,
            self._places,
            self._tags,
            self._rows,
            self._capacity,
            self._bits,
            rows,
        )
        if wrong:
            raise wire.WireError(
                wire.Code.BAD_MESSAGE, f"{wrong} keys are not of the shard they were sent for"
            )
        return rows, missing

    def _find_or_insert(self, keys: Int64s, sections: Sections, room: int | None) -> Int64s:
        rows, missing = self._find(keys, sections)
        if missing:
            self._make_room(rows, sections, missing, room)
            first = self._next
            self._next = kernels.insert(
                keys,
                sections,
                self._places,
                self._tags,
                self._rows,
                self._capacity,
                self._bits,
                rows,
                self._used,
                first,
            )
            self._initialise(keys, rows, first)
        return rows

    def _make_room(self, rows: Int64s, sections: Sections, missing: int, room: int | None) -> None:
        counts = np.zeros(len(sections), np.int64)
        kernels.missing_of(rows, sections, counts)
        wanted = self._used.copy()
        np.add.at(wanted, self._places[sections[:, 0]], counts)
        need = self._next + missing
        short = max(0, need - len(self._values)) * self._width * self.dtype.itemsize
        if int(wanted.max()) > self._capacity * _FULLEST:
            short += (self._tags.nbytes + self._rows.nbytes) // 2
        if room is not None and short > room:
            raise TableFull(
                f"{missing} new rows of table {self.spec.name} need {short:,} bytes, "
                f"{max(room, 0):,} are left for tables"
            )
        self._grow_index(wanted)
        self._grow_rows(need)

    def _grow_index(self, wanted: Int64s) -> None:
        fullest = int(wanted.max())
        if fullest <= self._capacity * _FULLEST:
            return
        capacity = max(int(self._capacity * _GROWTH), int(fullest / _FULLEST) + 1)
        tags = np.zeros(self._segments * capacity, np.uint64)
        rows = np.zeros(self._segments * capacity, np.uint32)
        kernels.rebuild(
            self._tags, self._rows, self._capacity, tags, rows, capacity, self._segments
        )
        self._tags, self._rows, self._capacity = tags, rows, capacity

    def _grow_rows(self, need: int) -> None:
        have = len(self._values)
        if need <= have:
            return
        step = min(have // 4, max(1, _GROWTH_BYTES // (self._width * self.dtype.itemsize)))
        # realloc moves the pages of a large array; no view of the old memory is alive here.
        self._values.resize((max(need, have + step), self._width), refcheck=False)

    def _initialise(self, keys: Int64s, rows: Int64s, first: int) -> None:
        """Give the rows from `first` on, which some of the keys have, their first values."""
        if isinstance(self.spec.init, Zeros) and self._zero_states():
            return  # new memory is zero
        new = np.flatnonzero(rows >= first)
        self._values[rows[new]] = self.states_of(self._initial_rows(keys[new]))

    def _zero_states(self) -> bool:
        return not self.states_of(np.zeros((1, self.dim), self.dtype)).any()

    def _initial_rows(self, keys: Int64s) -> NDArray[Any]:
        out = np.zeros((len(keys), self.dim), self.dtype)
        kind, a, b = self._initial
        if kind != kernels.ZEROS:
            kernels.initial(keys, self._seed, kind, a, b, out)
        return out


def _key_of_shard(shard: int, bits: int) -> int:
    """Some key of a shard."""
    from yarnps.protocol.shards import shard_numbers

    candidates = np.arange(64 << bits, dtype=np.int64)
    return int(np.flatnonzero(shard_numbers(candidates, bits) == shard)[0])
