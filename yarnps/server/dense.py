"""A dense table: an array, of which a server holds the elements of its shards."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import wire
from yarnps.protocol.shards import Int64s, Sections, dense_bounds, frozen
from yarnps.protocol.tables import TableSpec
from yarnps.server import kernels
from yarnps.server.gradients import screened
from yarnps.server.initial import initial_of, seed_of
from yarnps.server.optimizers import When, kernels_for
from yarnps.server.segments import Losses

_INIT_STEP = 1 << 20  # elements initialised at a time
_STRETCHES_KEPT = 1024  # sets of shards whose stretches are known


class Stretch(NamedTuple):
    """Elements [start, end) of this server's arrays, and where they are in a message."""

    start: int
    end: int
    at: int


class DenseTable:
    """The elements of one table that belong to this server's shards, in the order of shards.

    Attributes
    ----------
    nonfinite
        Elements of gradients that were NaN or infinity.
    steps
        Pushes that each shard has applied, by place.
    """

    def __init__(self, spec: TableSpec, places: NDArray[np.int64]) -> None:
        self.spec = spec
        self.dtype = np.dtype(spec.dtype)
        self._kernels = kernels_for(spec.optimizer, spec.dtype)
        self._bounds = dense_bounds(spec.elements, len(places))
        owned = np.flatnonzero(places >= 0)
        sizes = np.diff(self._bounds)
        self._local = np.full(len(places), -1, np.int64)
        self._local[owned] = np.cumsum(sizes[owned]) - sizes[owned]
        self._owned = owned
        self._elements = int(sizes[owned].sum())
        self._places = places
        # Where each owned shard's elements begin here, in the order of places.
        self._starts = self._local[owned]
        self.nonfinite = 0
        self.losses = Losses()  # a dense table loses nothing
        self.waiting = 0
        # Workers name the same shards again and again.
        self._whole: dict[bytes, list[Stretch]] = {}
        self.clear()

    def clear(self) -> None:
        """Every element gets its initial value, and the optimizer's state starts anew."""
        self._states = np.zeros((self._kernels.states, self._elements), self.dtype)
        self.steps = np.zeros(len(self._owned), np.int64)
        kind, a, b = initial_of(self.spec)
        for shard in self._owned:
            low, high = int(self._bounds[shard]), int(self._bounds[shard + 1])
            for first in range(low, high, _INIT_STEP):
                last = min(first + _INIT_STEP, high)
                weights = np.zeros((last - first, 1), self.dtype)
                if kind != kernels.ZEROS:
                    keys = np.arange(first, last, dtype=np.int64)
                    kernels.initial(keys, seed_of(self.spec), kind, a, b, weights)
                start = int(self._local[shard]) + first - low
                self._kernels.states_of(
                    weights[:, 0], self._states[:, start : start + last - first]
                )

    @property
    def rows(self) -> int:
        """Elements held here."""
        return self._elements

    @property
    def nbytes(self) -> int:
        return int(self._states.nbytes)

    def warm(self) -> None:
        """Compile (or load from the cache) every kernel that a request may need."""
        states = np.ones((self._kernels.states, 1), self.dtype)
        grads = np.ones(1, self.dtype)
        grads.flags.writeable = False
        self._kernels.push_range(states, grads, When())
        self._kernels.pull_range(states, np.empty(1, self.dtype))
        kernels.count(frozen(np.empty((0, 2), np.uint32)), self._places, self.steps)

    # ------------------------------------------------------------------ requests

    def whole(self, sections: Sections) -> list[Stretch]:
        """All elements of the shards named; neighbours are joined."""
        named = sections[:, 0].tobytes()
        found = self._whole.get(named)
        if found is None:
            found = self._joined(
                (int(shard), int(self._bounds[shard]), int(self._bounds[shard + 1]))
                for shard in sections[:, 0]
            )
            if len(self._whole) >= _STRETCHES_KEPT:
                self._whole.clear()
            self._whole[named] = found
        return found

    def ranges(self, sections: Sections, keys: Int64s) -> list[Stretch]:
        """The ranges of elements that a message names.

        Raises
        ------
        WireError
            A range that is not inside its shard.
        """
        shards = np.repeat(sections[:, 0].astype(np.int64), sections[:, 1].astype(np.int64))
        first, end = keys[0::2], keys[1::2]
        inside = (
            (first >= self._bounds[shards]) & (first <= end) & (end <= self._bounds[shards + 1])
        )
        if not inside.all():
            raise wire.WireError(
                wire.Code.RANGE,
                f"table {self.spec.name}: {int((~inside).sum())} ranges are not inside the shards "
                f"they were sent for; the table has {self.spec.elements} elements",
            )
        return self._joined(zip(shards.tolist(), first.tolist(), end.tolist(), strict=True))

    def pull(self, stretches: list[Stretch]) -> NDArray[Any]:
        """Weights of the elements."""
        out = np.empty(_length(stretches), self.dtype)
        for start, end, at in stretches:
            self._kernels.pull_range(self._states[:, start:end], out[at : at + end - start])
        return out

    def lent(self, stretches: list[Stretch]) -> NDArray[Any] | None:
        """Weights where they are, to be read before anything is changed; None: they are in no one
        place."""
        if len(stretches) != 1 or not self._kernels.has_weights:
            return None
        return frozen(self._states[0, stretches[0].start : stretches[0].end])

    def push(
        self,
        sections: Sections,
        stretches: list[Stretch],
        grads: NDArray[Any],
        *,
        clock: int = 0,
    ) -> None:
        """Apply gradients, one for each element, once.

        Parameters
        ----------
        sections
            The shards that the push names: for each of them it is one more step.
        clock
            Of the push: for schedules.

        Raises
        ------
        WireError
            NaN or infinity, where the table refuses them. Nothing is changed then.
        """
        found = screened(self.spec, grads)
        self.nonfinite += found.nonfinite
        kernels.count(sections, self._places, self.steps)
        if self._kernels.counts_steps:
            places = self._places[sections[:, 0]]
            if len(np.unique(self.steps[places])) > 1:
                stretches = [part for stretch in stretches for part in self._by_step(stretch)]
        step = int(self.steps[self._places[sections[0, 0]]]) if len(sections) else 0
        for start, end, at in stretches:
            if self._kernels.counts_steps:
                place = int(np.searchsorted(self._starts, start, side="right")) - 1
                step = int(self.steps[place])
            part = slice(at, at + end - start)
            states = self._states[:, start:end]
            before = None
            if found.skipped is not None:
                before = states[:, found.skipped[part]].copy()
            self._kernels.push_range(states, found.grads[part], When(clock, step))
            if before is not None and found.skipped is not None:
                states[:, found.skipped[part]] = before

    def assign(self, stretches: list[Stretch], weights: NDArray[Any]) -> None:
        """Set weights; the optimizer's state starts anew for these elements."""
        for start, end, at in stretches:
            self._kernels.states_of(weights[at : at + end - start], self._states[:, start:end])

    # ------------------------------------------------------------------ whole shards

    def range_of(self, shard: int) -> tuple[int, int]:
        """The shard's elements: first and end."""
        return int(self._bounds[shard]), int(self._bounds[shard + 1])

    def steps_of(self, shard: int) -> int:
        """Pushes that the shard has applied."""
        return int(self.steps[self._places[shard]])

    def set_steps(self, shards: list[int], steps: Any) -> None:
        """Go on counting pushes where another copy of the shards has been."""
        self.steps[self._places[shards]] = steps

    def copy_shard(self, shard: int) -> NDArray[Any]:
        """The states (states, n) of a shard's elements."""
        low, high = self.range_of(shard)
        start = int(self._local[shard])
        copy: NDArray[Any] = self._states[:, start : start + high - low].copy()
        return copy

    def weights_of(self, states: NDArray[Any]) -> NDArray[Any]:
        """The weights that (states, n) stand for."""
        out = np.empty(states.shape[1], self.dtype)
        self._kernels.pull_range(states, out)
        return out

    def change_weights(self, shard: int, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Put ``change(weights)`` in the place of a shard's weights; other state stays."""
        low, high = self.range_of(shard)
        start = int(self._local[shard])
        states = self._states[:, start : start + high - low]
        self._kernels.set_weights(states, change(self.weights_of(states)))

    @staticmethod
    def bounds_of(spec: TableSpec, shards: int) -> Int64s:
        """Where each shard's elements begin, and the end."""
        return dense_bounds(spec.elements, shards)

    def states_of(self, weights: NDArray[Any]) -> NDArray[Any]:
        """States (states, n) whose weights are these."""
        out = np.zeros((self._kernels.states, len(weights)), self.dtype)
        self._kernels.states_of(weights, out)
        return out

    def load(self, shard: int, first: int, states: NDArray[Any]) -> None:
        """Set the states of elements `first` … of a shard."""
        start = int(self._local[shard]) + first - int(self._bounds[shard])
        self._states[:, start : start + states.shape[1]] = states

    # ------------------------------------------------------------------ inside

    def _by_step(self, stretch: Stretch) -> list[Stretch]:
        """Cut where the shards' numbers of steps differ."""
        start, end, at = stretch
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, end, side="left"))
        changes = np.flatnonzero(np.diff(self.steps[first:last])) + first + 1
        cuts = [start, *self._starts[changes].tolist(), end]
        return [Stretch(low, high, at + low - start) for low, high in pairwise(cuts) if low < high]

    def _joined(self, pieces: Any) -> list[Stretch]:
        found: list[Stretch] = []
        at = 0
        for shard, first, end in pieces:
            start = int(self._local[shard]) + first - int(self._bounds[shard])
            length = end - first
            if found and found[-1].end == start:
                found[-1] = found[-1]._replace(end=start + length)
            elif length:
                found.append(Stretch(start, start + length, at))
            at += length
        return found


def _length(stretches: list[Stretch]) -> int:
    return stretches[-1].at + stretches[-1].end - stretches[-1].start if stretches else 0
