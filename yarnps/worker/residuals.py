"""What lossy forms have left out so far: it is added to the next push (error feedback).

Seide et al. 2014: what one push loses is not lost when the next carries it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.shards import Int64s, frozen, partition, take_rows
from yarnps.protocol.tables import TableSpec, residual_spec

_BITS = 4  # of the shards of a worker's own table


class SparseResiduals:
    """A row for each key that something is still to be sent of; a table of the worker's own."""

    def __init__(self, spec: TableSpec) -> None:
        # The index and its kernels are the servers'; they are imported where they are needed.
        from yarnps.server.sparse import SparseTable

        self._places = np.arange(1 << _BITS, dtype=np.int64)
        self._table = SparseTable(residual_spec(spec), self._places)

    @property
    def rows(self) -> int:
        return self._table.rows

    def of(self, keys: Int64s) -> NDArray[Any]:
        """Rows of keys, zeros where there is nothing."""
        parted, sections = self._ordered(keys)
        found = self._table.pull(parted.keys, sections)
        rows = np.empty_like(found)
        rows[parted.order] = found
        return rows

    def set(self, keys: Int64s, rows: NDArray[Any]) -> None:
        """No key twice."""
        parted, sections = self._ordered(keys)
        ordered = np.empty_like(rows)
        take_rows(frozen(rows), parted.order, ordered)
        self._table.assign(parted.keys, sections, frozen(ordered))

    def clear(self) -> int:
        """Forget all; returns in how many rows something was not 0."""
        shards = [self._table.copy_shard(shard) for shard in self._places.tolist()]
        self._table.clear()
        return sum(int(np.count_nonzero(shard.states.any(axis=1))) for shard in shards)

    def _ordered(self, keys: Int64s) -> tuple[Any, Any]:
        parted = partition(keys, _BITS, self._places.astype(np.int32))
        sections = np.stack([self._places, np.diff(parted.starts)], axis=1).astype(np.uint32)
        return parted._replace(keys=frozen(parted.keys)), frozen(sections)


class DenseResiduals:
    """A number for each element."""

    def __init__(self, spec: TableSpec) -> None:
        self._values = np.zeros(spec.elements, spec.dtype)

    def part(self, first: int, end: int) -> NDArray[Any]:
        """Those of the elements [first, end), to be read and written."""
        return self._values[first:end]

    def clear(self) -> int:
        """Forget all; returns how many were not 0."""
        count = int(np.count_nonzero(self._values))
        self._values[:] = 0
        return count
