"""Pushes made shorter as their table asks for: forms of numbers, fewer rows, and what they lose."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.codecs import Encoded, encode, picked
from yarnps.protocol.shards import Int64s
from yarnps.protocol.tables import Ftrl, TableSpec, Wire
from yarnps.worker.calls import Call
from yarnps.worker.residuals import DenseResiduals, SparseResiduals

log = logging.getLogger(__name__)

Told: TypeAlias = Callable[[str], None]  # hears what residuals have become void
Residuals = TypeVar("Residuals", SparseResiduals, DenseResiduals)

# One in so many numbers is looked at to find out which can be among the largest. A prime, or it
# could be the same column of a matrix again and again.
_SAMPLED = 61


class Pushes(Generic[Residuals]):
    """What pushes of every table have in common.

    Attributes
    ----------
    zeroed
        Residual rows (dense: numbers) that were never sent, and why is told.
    """

    def __init__(
        self, spec: TableSpec, wire: Wire, residuals: Residuals | None, told: Told
    ) -> None:
        self._spec = spec
        self._wire = wire
        self._told = told
        self._residuals: Residuals | None = residuals
        self._generation = 0
        self.zeroed = 0

    def give_up(self) -> None:
        """The program has ended: there is no next push for what waits."""
        self._zero("the program has ended")

    def _follow(self, generation: int) -> None:
        """The tables went back to a cut: what was left out since belongs to no state of theirs."""
        if generation > self._generation:
            if self._generation:
                self._zero("the tables have gone back to a checkpoint")
            self._generation = generation

    def _zero(self, why: str) -> None:
        if self._residuals is not None and (gone := self._residuals.clear()):
            self.zeroed += gone
            self._told(f"table {self._spec.name}: {gone:,} residuals are zeroed: {why}")


class SparsePushes(Pushes[SparseResiduals]):
    """Rows of a sparse table on their way to the servers."""

    def __init__(self, spec: TableSpec, wire: Wire, told: Told = log.warning) -> None:
        super().__init__(spec, wire, SparseResiduals(spec) if wire.loses else None, told)
        self._latest: tuple[Int64s, Call] | None = None

    def pulls(self, keys: Int64s, call: Call) -> None:
        """A pull is made; its answer will show which weights are 0."""
        if self._wire.push == "kkt":
            self._latest = keys, call

    def shortened(
        self, keys: Int64s, rows: NDArray[Any], generation: int
    ) -> tuple[Int64s, Encoded]:
        """Keys and rows to send. Keys are in increasing order, rows are not changed."""
        self._follow(generation)
        residuals = self._residuals
        if residuals is None:
            return keys, encode(rows, self._wire.push)
        if not np.isfinite(rows).all():
            return keys, encode(rows, "exact")  # the servers' policy for them decides
        total = rows + residuals.of(keys)
        sent = self._chosen(keys, total)
        encoded = encode(total[sent], self._wire.push)
        rest = total.copy()
        rest[sent] -= encoded.decoded(rest.dtype)
        residuals.set(keys, rest)
        return keys[sent], encoded

    def _chosen(self, keys: Int64s, total: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the rows go now."""
        chosen = np.ones(len(keys), bool)
        if self._wire.push == "topk":
            left = _left_out(self._wire, len(keys))
            if left:
                sizes = np.square(total, dtype=np.float64).sum(axis=1)
                chosen[np.argpartition(sizes, left)[:left]] = False
        elif self._wire.push == "kkt" and self._latest is not None:
            known, call = self._latest
            optimizer = self._spec.optimizer
            if call.done and call.error is None and np.array_equal(known, keys):
                assert isinstance(optimizer, Ftrl) and call.out is not None
                small = np.abs(total).max(axis=1) <= self._wire.kkt * optimizer.l1
                chosen = call.out.any(axis=1) | ~small
        return chosen


class DensePushes(Pushes[DenseResiduals]):
    """Elements of a dense table on their way to the servers."""

    def __init__(self, spec: TableSpec, wire: Wire, told: Told = log.warning) -> None:
        super().__init__(spec, wire, DenseResiduals(spec) if wire.loses else None, told)

    def shortened(self, first: int, values: NDArray[Any], generation: int) -> Encoded:
        """The elements from `first` on, as they are sent: all, or some with their places."""
        self._follow(generation)
        if self._residuals is None:
            return encode(values, self._wire.push)
        if not np.isfinite(values).all():
            return encode(values, "exact")
        rest = self._residuals.part(first, first + len(values))
        total = values + rest
        if self._wire.push == "topk":
            chosen = self._largest(total)
            rest[:] = total
            rest[chosen] = 0
            return picked(total, chosen)
        encoded = encode(total, self._wire.push)
        rest[:] = total - encoded.decoded(total.dtype)
        return encoded

    def _largest(self, total: NDArray[Any]) -> NDArray[np.int64]:
        """Places of the numbers that go now; a 0 says nothing and never goes."""
        sizes = np.abs(total)
        count = len(total) - _left_out(self._wire, len(total))
        places = _candidates(sizes, count)
        left = len(places) - count
        if left > 0:
            places = np.sort(places[np.argpartition(sizes[places], left)[left:]])
        sent: NDArray[np.int64] = places[sizes[places] > 0]
        return sent


def _candidates(sizes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Places in increasing order, the `count` largest among them, and as a rule few others."""
    sample = sizes[::_SAMPLED]
    # How many of the sample are expected to be that large, and some for its being one.
    likely = math.ceil(count / _SAMPLED * 1.1) + 4 * math.isqrt(count // _SAMPLED + 1)
    if likely < len(sample):
        bound = np.partition(sample, len(sample) - likely)[len(sample) - likely]
        places = np.flatnonzero(sizes >= bound)
        if len(places) >= count:
            return places
    return np.arange(len(sizes))


def _left_out(wire: Wire, count: int) -> int:
    """How many of a push's rows or numbers wait."""
    return count - math.ceil(wire.keep * count)
