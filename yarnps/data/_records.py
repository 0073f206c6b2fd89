"""What the reader hands out: splits, rows, records, batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yarnps._errors import DataError

if TYPE_CHECKING:
    from yarnps.protocol import control_pb2 as pb

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class FileChanged(DataError):
    """The file is not the one that was listed: reading the split again is useless."""


class BadRecord(NamedTuple):
    """A record that could not be parsed. `line` counts from 1; for Parquet it is the row.

    0 stands for a line that is not known.
    """

    path: str
    line: int
    error: str
    text: str


@dataclass(frozen=True)
class Split:
    """A piece of the input: the records that begin in [start, start + length) of a file.

    Attributes
    ----------
    id
        Position in the listing, from 0.
    path
        Full address of the file.
    start, length
        Bytes. For Parquet the row groups that begin there; a compressed file is one split.
    file_size, modified_ms
        The file as it was listed; -1 where the file system does not tell the time.
    hosts
        Nodes that hold its bytes, best first.
    partition
        Columns from folders named `k=v`, in the order of the path.
    """

    id: int
    path: str
    start: int
    length: int
    file_size: int
    modified_ms: int
    hosts: tuple[str, ...] = ()
    partition: tuple[tuple[str, str], ...] = ()

    def to_pb(self) -> pb.SplitInfo:
        from yarnps.protocol import control_pb2

        return control_pb2.SplitInfo(
            id=self.id,
            path=self.path,
            start=self.start,
            length=self.length,
            file_size=self.file_size,
            modified_ms=self.modified_ms,
            hosts=self.hosts,
            partition=dict(self.partition),
        )

    @classmethod
    def from_pb(cls, message: pb.SplitInfo) -> Split:
        return cls(
            message.id,
            message.path,
            message.start,
            message.length,
            message.file_size,
            message.modified_ms,
            tuple(message.hosts),
            # A protobuf map has no order; names are unique, so sorting gives one.
            tuple(sorted(message.partition.items())),
        )


@dataclass
class Rows:
    """Labelled sparse rows (CSR).

    Attributes
    ----------
    labels
        float32, shape (n,).
    indptr
        int64, shape (n + 1,): row i has the entries indptr[i] to indptr[i + 1].
    keys
        int64, shape (nnz,): feature ids, each at most once in a row.
    values
        float32, shape (nnz,).
    """

    labels: Floats
    indptr: Ints
    keys: Ints
    values: Floats

    @classmethod
    def empty(cls) -> Rows:
        return cls(
            np.zeros(0, np.float32),
            np.zeros(1, np.int64),
            np.zeros(0, np.int64),
            np.zeros(0, np.float32),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows start to stop; a view, except for `indptr`."""
        first, last = self.indptr[start], self.indptr[stop]
        return Rows(
            self.labels[start:stop],
            self.indptr[start : stop + 1] - first,
            self.keys[first:last],
            self.values[first:last],
        )

    def take(self, order: Ints) -> Rows:
        """The rows named by `order`, in that order."""
        from . import _rows_kernel  # numba is slow to import: only those who shuffle pay

        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.diff(self.indptr)[order], out=indptr[1:])
        keys, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1], np.float32)
        _rows_kernel.take_entries(self.indptr, self.keys, self.values, order, keys, values)
        return Rows(self.labels[order], indptr, keys, values)

    @classmethod
    def shuffled(cls, parts: Sequence[Rows], order: Ints) -> Rows:
        """All rows of `parts` in a new order: what ``concat(parts).take(order)`` gives, but each
        entry is moved once.

        Parameters
        ----------
        order
            A permutation of the rows.
        """
        from . import _rows_kernel  # numba is slow to import: only those who shuffle pay

        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts])[order], out=indptr[1:])
        goes_to = np.empty(len(order), np.int64)
        goes_to[order] = indptr[:-1]
        keys, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1], np.float32)
        first = 0
        for part in parts:
            places = goes_to[first : first + len(part)]
            _rows_kernel.put_entries(part.indptr, part.keys, part.values, places, keys, values)
            first += len(part)
        return cls(np.concatenate([part.labels for part in parts])[order], indptr, keys, values)

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        """All rows of `parts`, one after the other."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0] + [int(part.indptr[-1]) for part in parts])
        pieces = [parts[0].indptr]
        for part, shift in zip(parts[1:], shifts[1:], strict=False):
            pieces.append(part.indptr[1:] + shift)
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate(pieces),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


@dataclass
class Records:
    """Records that are not rows: lines of text, or what a user's `parse` returned."""

    items: list[Any]

    def __len__(self) -> int:
        return len(self.items)

    def slice(self, start: int, stop: int) -> Records:
        return Records(self.items[start:stop])

    def take(self, order: Ints) -> Records:
        return Records([self.items[index] for index in order])

    @classmethod
    def concat(cls, parts: Sequence[Records]) -> Records:
        return cls([item for part in parts for item in part.items])


@dataclass
class RawBatch:
    """One batch of a split.

    Attributes
    ----------
    index
        Number of the batch in its split, from 0.
    rows
        Its content; empty only in the single batch of a split that has bad records and no good
        one.
    rows_before
        Good rows in the batches before.
    bytes_read
        Of the split, up to the end of this batch; in the last batch all of it.
    bad
        The first few bad records that were met since the batch before.
    bad_total
        Bad records of this split so far.
    ahead, ahead_error
        What the program has made of the rows in the thread that reads, or what that raised.
    """

    index: int
    rows: Rows | Records
    rows_before: int
    bytes_read: int
    bad: list[BadRecord] = field(default_factory=list)
    bad_total: int = 0
    ahead: Any = None
    ahead_error: Exception | None = None
