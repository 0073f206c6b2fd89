"""Tables as a user's program sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yarnps._errors import InputError
from yarnps.protocol import wire
from yarnps.protocol.shards import Int64s, add_rows, strictly_increasing
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Flag, Message, Op
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.connection import kind_of
from yarnps.worker.functions import all_shards
from yarnps.worker.futures import Future
from yarnps.worker.gather import SMALL_KEYS, SMALL_ROW_BYTES, Kind, may_share
from yarnps.worker.routing import some_of
from yarnps.worker.shorter import DensePushes, SparsePushes
from yarnps.worker.table import CurrentBatch, Table

__all__ = ["CurrentBatch", "DenseTable", "Future", "SparseTable", "Table"]

_INT64 = np.dtype(np.int64)


class SparseTable(Table):
    """int64 key → row of `dim` numbers. Made by `Job.sparse`.

    Keys may be any int64, unsorted and repeated. A key that was never pushed has its initial
    values, and takes no memory on the servers.
    """

    _pushes: SparsePushes | None

    def __init__(self, client: Client, spec: TableSpec, batches: CurrentBatch) -> None:
        super().__init__(client, spec, batches)
        self._dim = spec.dim
        self._small = spec.dim * spec.itemsize <= SMALL_ROW_BYTES
        self._shares = self._small and may_share(spec)
        shorter = spec.wire.push != "exact"
        self._pushes = SparsePushes(spec, spec.wire, client.on_void) if shorter else None
        # What small calls outside of a batch have in common.
        pull, push = (self._header(op)._replace(clock=wire.NO_CLOCK) for op in (Op.PULL, Op.PUSH))
        self._small_pulls = Kind(pull, spec, f"pull of table {spec.name}")
        self._small_pushes = Kind(push, spec, f"push to table {spec.name}")

    def pull(self, keys: ArrayLike, *, out: NDArray[Any] | None = None) -> Future:
        """Get rows.

        Parameters
        ----------
        keys : array-like of int64, shape (n,)
        out : ndarray, shape (n, dim), optional
            Where to put them; contiguous and of the table's dtype.

        Returns
        -------
        Future
            Its `wait()` gives an array of shape (n,) when dim is 1, otherwise (n, dim).
        """
        wanted = self._keys(keys)
        shares = self._small and not self._batches.in_step
        if shares and out is None and 0 < len(wanted) <= SMALL_KEYS:
            return self._share_pull(wanted)
        rows = self._out(out, len(wanted))
        call = self._read(Op.PULL, rows)
        if self._pushes is not None:
            self._pushes.pulls(wanted, call)
        self._client.submit(call, self._parts(wanted, None))
        return Future(self._client, call, rows, self._shape(len(wanted)))

    def arrange(self, keys: Int64s) -> None:
        """Bring keys into the order in which they travel, now and in this thread.

        Calls with the same array then need not do it: of use in the `ahead` of `Job.data`.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Read-only (``keys.flags.writeable = False``), or nothing is kept.
        """
        if not keys.flags.writeable:
            self._client.router.parted(self._keys(keys))

    def push(self, keys: ArrayLike, values: ArrayLike, *, distinct: bool = False) -> Future:
        """Send gradients (for an `Add` table: what to add).

        Parameters
        ----------
        keys : array-like of int64, shape (n,)
            A repeated key counts as one whose values are the sum.
        values : array-like, shape (n,) when dim is 1, otherwise (n, dim)
        distinct : bool
            No key is repeated, says the caller: nobody looks then. What a repeated one would do is
            not defined. Only worth it for keys that are not in increasing order.

        Returns
        -------
        Future
            Done when every server has applied it. Inside ``with batch:`` nobody needs to wait:
            the end of the block does.
        """
        unique, rows = self._summed(keys, values, distinct)
        if self._shares and 0 < len(unique) <= SMALL_KEYS and self._batches.now is None:
            return self._client.sharing.share(self._small_pushes, unique, rows)
        rows = self._limited(rows)
        call = self._write(Op.PUSH)
        if self._pushes is not None:
            unique, short = self._pushes.shortened(unique, rows, self._client.generation)
            call.header = call.header._replace(dtype=int(short.dtype), code=short.code)
            rows = short.values
        self._client.submit(call, self._parts(unique, rows, announce=self._announces(call)))
        return Future(self._client, call, None, None)

    def push_pull(self, keys: ArrayLike, values: ArrayLike) -> Future:
        """Push, and get the same keys' rows as they are then. No key may be repeated."""
        wanted = self._keys(keys)
        rows = self._rows(values, len(wanted))
        if not strictly_increasing(wanted) and len(np.unique(wanted)) != len(wanted):
            raise InputError(
                f"push_pull to table {self.name} with repeated keys", "push and pull apart"
            )
        if self._batches.in_step:
            raise InputError(
                f"push_pull to table {self.name} in a BSP batch",
                "what is pushed counts when the step is closed: push, and pull in the next batch",
            )
        rows = self._limited(rows)
        out = self._out(None, len(wanted))
        call = self._write(Op.PUSH_PULL, out)
        self._client.submit(call, self._parts(wanted, rows, announce=self._announces(call)))
        return Future(self._client, call, out, self._shape(len(wanted)))

    def assign(self, keys: ArrayLike, values: ArrayLike) -> Future:
        """Set rows; their optimizer state starts anew. The last of a repeated key counts."""
        wanted = self._keys(keys)
        rows = self._rows(values, len(wanted))
        if not strictly_increasing(wanted):
            wanted, last = np.unique(wanted[::-1], return_index=True)
            rows = np.ascontiguousarray(rows[::-1][last])
        call = self._write(Op.ASSIGN)
        self._client.submit(call, self._parts(wanted, rows, announce=self._announces(call)))
        return Future(self._client, call, None, None)

    def contains(self, keys: ArrayLike) -> Future:
        """For each key whether it has a row: an array of uint8, shape (n,)."""
        wanted = self._keys(keys)
        out = np.zeros(len(wanted), np.uint8)
        call = self._read(Op.CONTAINS, out)
        self._client.submit(call, self._parts(wanted, None))
        return Future(self._client, call, out, None)

    def export(self) -> Future:
        """All keys (sorted) and their rows: (keys, rows). For tables that fit in this process."""
        keys: list[Int64s] = []
        rows: list[NDArray[Any]] = []

        def collect(message: Message) -> None:
            keys.append(np.frombuffer(message.keys, np.int64).copy())
            rows.append(
                np.frombuffer(message.values, self._dtype).reshape(-1, self.spec.dim).copy()
            )

        def merged() -> tuple[Int64s, NDArray[Any]]:
            found = np.concatenate(keys)
            order = np.argsort(found, kind="stable")
            return found[order], np.concatenate(rows)[order].reshape(self._shape(len(found)))

        call = Call(
            self._header(Op.EXPORT_ROWS)._replace(clock=wire.NO_CLOCK),
            f"export of table {self.name}",
            self.spec,
            on_reply=collect,
        )
        self._client.submit(call, all_shards(self._client.router))
        return Future(self._client, call, merged=merged)

    # ------------------------------------------------------------------ inside

    def _share_pull(self, keys: Int64s) -> Future:
        kind = self._small_pulls
        if self._batches.now is not None:
            call = self._read(Op.PULL, None)
            kind = kind._replace(header=call.header, lease=call.lease)
        return self._client.sharing.share(kind, keys, None)

    def _parts(self, keys: Int64s, rows: NDArray[Any] | None, *, announce: bool = False) -> Any:
        row_bytes = self.spec.dim * self.spec.itemsize
        return self._client.router.sparse(keys, rows, row_bytes, announce=announce)

    def _keys(self, keys: ArrayLike) -> Int64s:
        found = np.ascontiguousarray(keys)
        if found.dtype == _INT64 and found.ndim == 1:
            return found
        if found.size == 0:
            return np.empty(0, np.int64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise InputError(
                f"keys of table {self.name} are an array of {found.dtype} with shape {found.shape}",
                "give integers in one dimension",
            )
        if found.dtype.kind == "u" and found.dtype.itemsize == 8:
            return found.view(np.int64)
        return found.astype(np.int64, copy=False)

    def _rows(self, values: ArrayLike, count: int) -> NDArray[Any]:
        rows = self._numbers(values)
        dim = self._dim
        if rows.shape != (count, dim) and (dim > 1 or rows.shape != (count,)):
            raise InputError(
                f"values for table {self.name} have shape {rows.shape}",
                f"{count} keys of dim {dim} need {self._shape(count)}",
            )
        return rows.reshape(count, dim)

    def _summed(
        self, keys: ArrayLike, values: ArrayLike, distinct: bool
    ) -> tuple[Int64s, NDArray[Any]]:
        """Each key once, with the sum of its rows."""
        wanted = self._keys(keys)
        rows = self._rows(values, len(wanted))
        if distinct or len(wanted) == 1 or strictly_increasing(wanted):
            return wanted, rows
        unique, places = np.unique(wanted, return_inverse=True)
        summed = np.zeros((len(unique), self.spec.dim), self._dtype)
        add_rows(rows, places.astype(np.int32), summed)
        return unique, summed

    def _shape(self, count: int) -> tuple[int, ...]:
        return (count,) if self.spec.dim == 1 else (count, self.spec.dim)

    def _out(self, out: NDArray[Any] | None, count: int) -> NDArray[Any]:
        if out is None:
            return np.empty((count, self.spec.dim), self._dtype)
        fits = out.dtype == self._dtype and out.flags.c_contiguous and out.flags.writeable
        if not fits or out.shape not in (self._shape(count), (count, self.spec.dim)):
            raise InputError(
                f"out for table {self.name} is {out.dtype} with shape {out.shape}",
                f"give a contiguous array of {self._dtype} with shape {self._shape(count)}",
            )
        return out.reshape(count, self.spec.dim)


class DenseTable(Table):
    """An array on the servers. Made by `Job.dense`."""

    _pushes: DensePushes | None

    def __init__(self, client: Client, spec: TableSpec, batches: CurrentBatch) -> None:
        super().__init__(client, spec, batches)
        shorter = spec.wire.push != "exact"
        self._pushes = DensePushes(spec, spec.wire, client.on_void) if shorter else None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    def pull(
        self, rows: tuple[int, int] | None = None, *, out: NDArray[Any] | None = None
    ) -> Future:
        """Get the array, or its rows [first, end).

        Parameters
        ----------
        rows : (first, end), optional
            Along the first axis.
        out : ndarray, optional
            Where to put them; contiguous and of the table's dtype.
        """
        first, end, shape = self._range(rows)
        values = self._out(out, shape)
        call = self._read(Op.PULL, values, flags=kind_of(self.spec, ranges=rows is not None))
        router = self._client.router
        if rows is None:
            self._client.submit(call, router.dense(self.spec, None))
        else:
            self._client.submit(call, router.ranges(self.spec, first, end, None, announce=False))
        return Future(self._client, call, values, shape)

    def push(self, values: ArrayLike, rows: tuple[int, int] | None = None) -> Future:
        """Send a gradient for the array, or for its rows [first, end).

        An array of 64 KB or more belongs to the library until the future is done, or until the
        end of the batch: do not change it before.
        """
        return self._send(Op.PUSH, values, rows)

    def push_pull(self, values: ArrayLike, rows: tuple[int, int] | None = None) -> Future:
        """Push, and get the same array or rows as they are then."""
        return self._send(Op.PUSH_PULL, values, rows)

    def export(self) -> Future:
        """The whole array."""
        return self.pull()

    def assign(self, values: ArrayLike, rows: tuple[int, int] | None = None) -> Future:
        """Set the array, or its rows [first, end)."""
        return self._send(Op.ASSIGN, values, rows)

    def _send(self, op: Op, values: ArrayLike, rows: tuple[int, int] | None) -> Future:
        first, end, shape = self._range(rows)
        sent = self._numbers(values)
        if sent.shape != shape:
            raise InputError(
                f"values for table {self.name} have shape {sent.shape}", f"they need {shape}"
            )
        if op != Op.ASSIGN:
            sent = self._limited(sent)
        out = self._out(None, shape) if op == Op.PUSH_PULL else None
        call = self._write(op, out, flags=kind_of(self.spec, ranges=rows is not None))
        flat, chosen = sent.reshape(-1), None
        if op == Op.PUSH and self._pushes is not None:
            short = self._pushes.shortened(first, flat, self._client.generation)
            flat, chosen, header = short.values, short.places, call.header
            some = 0 if chosen is None else int(Flag.PICKED)
            call.header = header._replace(
                dtype=int(short.dtype), code=short.code, flags=header.flags | some
            )
        router, numbers = self._client.router, flat if chosen is None else None
        if rows is None:
            parts = router.dense(self.spec, numbers)
        else:
            announce = self._announces(call)
            parts = router.ranges(self.spec, first, end, numbers, announce=announce)
        self._client.submit(call, parts if chosen is None else some_of(parts, flat, chosen))
        return Future(self._client, call, out, shape)

    def _range(self, rows: tuple[int, int] | None) -> tuple[int, int, tuple[int, ...]]:
        """First and end element, and the shape of what is between."""
        if rows is None:
            return 0, self.spec.elements, self.shape
        first, end = rows
        if not 0 <= first <= end <= self.shape[0]:
            raise InputError(
                f"rows [{first}, {end}) of table {self.name}", f"it has {self.shape[0]} rows"
            )
        stride = self.spec.elements // self.shape[0]
        return first * stride, end * stride, (end - first, *self.shape[1:])

    def _out(self, out: NDArray[Any] | None, shape: tuple[int, ...]) -> NDArray[Any]:
        if out is None:
            return np.empty(shape, self._dtype).reshape(-1)
        fits = out.dtype == self._dtype and out.flags.c_contiguous and out.flags.writeable
        if not fits or out.shape != shape:
            raise InputError(
                f"out for table {self.name} is {out.dtype} with shape {out.shape}",
                f"give a contiguous array of {self._dtype} with shape {shape}",
            )
        return out.reshape(-1)
