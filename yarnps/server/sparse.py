"""A sparse table: int64 key → row of `dim` weights and their optimizer state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.shards import Int64s, Sections, frozen, shard_bits
from yarnps.protocol.tables import TableSpec, Zeros
from yarnps.server import kernels
from yarnps.server.admission import Admission, Candidates, Expiry, only
from yarnps.server.gradients import screened
from yarnps.server.initial import initial_of, seed_of
from yarnps.server.optimizers import When, kernels_for
from yarnps.server.segments import Block, Bools, Losses, Segments, TableFull, keys_in


class ShardRows(NamedTuple):
    """Copies of all that a table has in a shard.

    Attributes
    ----------
    keys, states
        (n) and (n, width).
    steps
        Pushes that the shard has applied.
    stamps
        Clocks of the rows' last pushes, where the table keeps them.
    candidates
        Where the table admits keys late.
    """

    keys: Int64s
    states: NDArray[Any]
    steps: int = 0
    stamps: NDArray[np.uint32] | None = None
    candidates: Candidates | None = None


class SparseTable:
    """The rows of one table that belong to this server's shards.

    Parameters
    ----------
    spec
        What the table is.
    places
        For each shard its place among this server's shards, -1 for those of others.

    Attributes
    ----------
    nonfinite
        Rows of gradients that had NaN or infinity in them.
    steps
        Pushes that each shard has applied, by place.
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
        self._segments = Segments(
            places, self._bits, self._width * self.dtype.itemsize, stamped=spec.stamped
        )
        self._admission = Admission(spec, places, self._bits) if spec.admit > 1 else None
        self._expiry = self._new_expiry()
        self._starts_at_zero = isinstance(spec.init, Zeros) and not self._zeros_need_state()
        self.nonfinite = 0
        self.steps = np.zeros(self._segments.places, np.int64)

    def _new_expiry(self) -> Expiry | None:
        if self.spec.expire is None:
            return None
        counting = [] if self._admission is None else [self._admission.segments]
        return Expiry(self.spec.expire, [self._segments, *counting], self._places)

    def clear(self) -> None:
        """Forget all rows."""
        self._segments.clear()
        if self._admission is not None:
            self._admission.segments.clear()
        self.steps[:] = 0

    @property
    def rows(self) -> int:
        return self._segments.rows

    @property
    def nbytes(self) -> int:
        waiting = 0 if self._admission is None else self._admission.segments.nbytes
        return self._segments.nbytes + waiting

    @property
    def losses(self) -> Losses:
        """What the policies have cost so far."""
        return self._segments.losses

    @property
    def waiting(self) -> int:
        """Keys that have been seen, but not often enough for a row."""
        return 0 if self._admission is None else self._admission.segments.rows

    def warm(self) -> None:
        """Compile (or load from the cache) every kernel that a request may need."""
        twin = SparseTable(self.spec, self._places)
        shard = int(np.flatnonzero(self._places == 0)[0])
        keys = frozen(np.array([_key_of_shard(shard, self._bits)], np.int64))
        sections = frozen(np.array([[shard, 1]], np.uint32))
        for _ in range(min(self.spec.admit, 2)):
            twin.push(keys, sections, frozen(np.ones((1, self.dim), self.dtype)))
        rows = twin.copy_shard(shard)
        twin.load(keys, sections, twin.states_of(np.ones((1, self.dim), self.dtype)))
        twin.weights_of(rows.states)
        twin.pull(keys, sections)
        twin.keep(shard, np.zeros(1, bool))

    # ------------------------------------------------------------------ requests

    def pull(self, keys: Int64s, sections: Sections, *, clock: int = 0) -> NDArray[Any]:
        """Weights of keys; of those without a row the initial values. No row is made.

        Parameters
        ----------
        clock
            Of the pull: a row that has expired by then is none.
        """
        rows, missing = self._find(keys, sections, clock)
        self._segments.remember(keys, sections, rows)
        out = np.empty((len(keys), self.dim), self.dtype)
        self._kernels.pull_rows(rows, out)
        if missing and self._initial[0] != kernels.ZEROS:
            absent = np.flatnonzero(rows == self._segments.none)
            out[absent] = self._initial_rows(keys[absent])
        return out

    def push(
        self,
        keys: Int64s,
        sections: Sections,
        grads: NDArray[Any],
        *,
        clock: int = 0,
        room: int | None = None,
    ) -> None:
        """Apply gradients, once; keys without a row get one. No key twice.

        Parameters
        ----------
        clock
            Of the push: for schedules, and for how old a row is.

        Raises
        ------
        TableFull
            The new rows would take more than `room` bytes. Nothing is changed then.
        WireError
            NaN or infinity, where the table refuses them. Nothing is changed then.
        """
        found = screened(self.spec, grads)
        grads = found.grads
        self.nonfinite += found.nonfinite
        if found.skipped is not None:
            keys, sections, grads = only(~found.skipped, keys, sections, grads)
        if self._expiry is not None:
            self._expiry.named(keys, sections, clock)
        if self._admission is not None:
            admitted = self._admitted(self._admission, keys, sections, clock, room)
            if admitted is not None:
                keys, sections, grads = only(admitted, keys, sections, grads)
        rows, new = self._find_or_insert(keys, sections, clock, room)
        there = None if new is None else rows != self._segments.none
        if there is not None and not there.all():  # the table is full
            keys, sections, grads = only(there, keys, sections, grads)
            rows = rows[there]
        self._apply(rows, sections, grads, clock)
        if self._expiry is not None:
            self._expiry.look(clock)

    def assign(
        self,
        keys: Int64s,
        sections: Sections,
        weights: NDArray[Any],
        *,
        clock: int = 0,
        room: int | None = None,
    ) -> None:
        """Set weights; the optimizer's state starts anew for these rows."""
        rows, _ = self._find_or_insert(keys, sections, clock, room)
        there = rows != self._segments.none
        self._segments.write(rows[there], self.states_of(weights[there]))

    def contains(self, keys: Int64s, sections: Sections, *, clock: int = 0) -> NDArray[np.uint8]:
        """1 for every key that has a row."""
        rows, _ = self._find(keys, sections, clock)
        found: NDArray[np.uint8] = (rows != self._segments.none).astype(np.uint8)
        return found

    # ------------------------------------------------------------------ whole shards

    def copy_shard(self, shard: int) -> ShardRows:
        """All rows of a shard."""
        block = self._segments.block(shard)
        stamped = self.spec.stamped
        return ShardRows(
            keys_in(block, shard, self._bits),
            self._states(block),
            int(self.steps[self._places[shard]]),
            self._segments.stamps(block)[block.taken] if stamped else None,
            None if self._admission is None else self._admission.copy(shard),
        )

    def weights_of(self, states: NDArray[Any]) -> NDArray[Any]:
        """The weights that rows of states stand for."""
        states = np.ascontiguousarray(states)
        out = np.empty((len(states), self.dim), self.dtype)
        rows = states.ctypes.data + np.arange(len(states), dtype=np.int64) * states.strides[0]
        self._kernels.pull_rows(rows, out)
        return out

    def states_of(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Rows of states whose weights are these."""
        n = len(weights)
        out = np.zeros((self._kernels.states, n, self.dim), self.dtype)
        self._kernels.states_of(weights, out)
        rows: NDArray[Any] = out.transpose(1, 0, 2).reshape(n, self._width)
        return rows

    def load(
        self,
        keys: Int64s,
        sections: Sections,
        states: NDArray[Any],
        stamps: NDArray[np.uint32] | None = None,
    ) -> None:
        """Set whole rows, optimizer state included."""
        rows, _ = self._segments.find_or_insert(keys, sections, 0)
        self._segments.write(rows, states)
        if stamps is not None and self.spec.stamped:
            self._segments.restamp(rows, stamps)

    def set_steps(self, shards: list[int], steps: Any) -> None:
        """Go on counting pushes where another copy of the shards has been."""
        self.steps[self._places[shards]] = steps

    def load_candidates(self, sections: Sections, candidates: Candidates) -> None:
        """Go on counting where another copy of the shards has been."""
        if self._admission is not None:
            self._admission.load(sections, candidates)

    def keep(self, shard: int, which: Bools) -> int:
        """Forget the rows of a shard that are not named, in the order of `copy_shard`."""

        def kept(block: Block) -> Bools:
            found = np.zeros(len(block.tags), bool)
            found[block.taken] = which
            return found

        return self._segments.keep(int(self._places[shard]), kept)

    def change_weights(self, shard: int, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Put ``change(weights)`` in the place of a shard's weights; other state stays."""
        block = self._segments.block(shard)
        states = self._states(block)
        if not len(states):
            return
        by_state = states.reshape(len(states), self._kernels.states, self.dim).transpose(1, 0, 2)
        self._kernels.set_weights(by_state, change(self.weights_of(states)))
        words = states.view(np.uint32).reshape(len(states), -1)
        block.words[block.taken, : words.shape[1]] = words

    # ------------------------------------------------------------------ inside

    def _states(self, block: Block) -> NDArray[Any]:
        words = self._width * self.dtype.itemsize // 4
        taken = np.ascontiguousarray(block.words[block.taken, :words])
        states: NDArray[Any] = taken.view(self.dtype).reshape(len(taken), self._width)
        return states

    def _apply(self, rows: Int64s, sections: Sections, grads: NDArray[Any], clock: int) -> None:
        """Count the push for every shard that is named, and run the optimizer."""
        kernels.count(sections, self._places, self.steps)
        if not self._kernels.counts_steps:
            self._kernels.push_rows(rows, grads, When(clock))
            return
        steps = self.steps[self._places[sections[:, 0]]]
        ends = np.cumsum(sections[:, 1], dtype=np.int64)
        for run in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(steps)) + 1):
            if len(run):
                first, end = int(ends[run[0]] - sections[run[0], 1]), int(ends[run[-1]])
                when = When(clock, int(steps[run[0]]))
                self._kernels.push_rows(rows[first:end], frozen(grads[first:end]), when)

    def _find_or_insert(
        self, keys: Int64s, sections: Sections, clock: int, room: int | None
    ) -> tuple[Int64s, Bools | None]:
        """Rows of the keys, the new ones with their first values, and which those are."""
        try:
            rows, new = self._segments.find_or_insert(
                keys, sections, clock, room, self.spec.when_full
            )
        except TableFull as full:
            raise TableFull(f"table {self.spec.name}: {full}") from None
        if new is not None and not self._starts_at_zero:  # new memory is zero
            self._segments.write(rows[new], self.states_of(self._initial_rows(keys[new])))
        return rows, new

    def _admitted(
        self,
        admission: Admission,
        keys: Int64s,
        sections: Sections,
        clock: int,
        room: int | None,
    ) -> Bools | None:
        """Which keys have a row or may have one now; None: all of them."""
        rows, missing = self._segments.find(keys, sections)
        if not missing:
            return None
        absent = rows == self._segments.none
        try:
            return admission.admitted(absent, keys, sections, clock, room)
        except TableFull as full:
            raise TableFull(f"table {self.spec.name}: {full}") from None

    def _find(self, keys: Int64s, sections: Sections, clock: int) -> tuple[Int64s, int]:
        """Rows of keys, without those that have expired, and how many have none."""
        rows, missing = self._segments.find(keys, sections)
        if self._expiry is not None:
            old = self._segments.older(rows, clock - self._expiry.after)
            rows[old] = self._segments.none
            missing += int(old.sum())
        return rows, missing

    def _zeros_need_state(self) -> bool:
        """Whether the state of a new row of zeros is something else than zeros."""
        return bool(self.states_of(np.zeros((1, self.dim), self.dtype)).any())

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
