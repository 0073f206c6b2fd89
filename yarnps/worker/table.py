"""What sparse and dense tables have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yarnps._errors import InputError
from yarnps.protocol import wire
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Flag, Header, Message, Op
from yarnps.worker.batch import Batch
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.functions import Collector, Functions, requests
from yarnps.worker.futures import Future
from yarnps.worker.shorter import Pushes


class Table(Functions):
    """What sparse and dense tables have in common."""

    def __init__(self, client: Client, spec: TableSpec, batches: CurrentBatch) -> None:
        self.spec = spec
        self._client = client
        self._batches = batches
        self._dtype = np.dtype(spec.dtype)
        self._id = wire.table_id(spec.name)
        self._pushes: Pushes[Any] | None = None  # where they are made shorter

    def give_up(self) -> None:
        """The program has ended: what pushes have left out is never sent, and that is told."""
        if self._pushes is not None:
            self._pushes.give_up()

    @property
    def name(self) -> str:
        return self.spec.name

    def _header(self, op: Op, *, flags: int = 0) -> Header:
        return self._client.header(
            op, table=self._id, flags=flags, dtype=wire.DTYPE_OF[self.spec.dtype], dim=self.spec.dim
        )

    def _read(self, op: Op, out: NDArray[Any] | None, *, flags: int = 0) -> Call:
        """A call that changes nothing. Outside a training batch it does not wait for others."""
        batch = self._batches.now
        header = self._header(op, flags=flags)
        if batch is None or batch.phase != "train":
            header = header._replace(clock=wire.NO_CLOCK)
        elif self._batches.early:
            header = batch.early(header)
        else:
            header = batch.in_step(header)
        lease = None if batch is None else batch.lease
        return Call(header, f"{op.name.lower()} of table {self.name}", self.spec, out, lease)

    def _write(self, op: Op, out: NDArray[Any] | None = None, *, flags: int = 0) -> Call:
        """A call that changes the table; inside a batch it carries the batch's identity."""
        batch = self._batches.now
        what = f"{op.name.lower()} to table {self.name}"
        if batch is None:
            header = self._header(op, flags=flags)._replace(clock=wire.NO_CLOCK)
            return Call(header, what, self.spec, out)
        if self._batches.pulling:
            raise InputError(
                f"{what} in the function that pulls for a batch",
                "the function that is given to data(pull=...) only pulls",
            )
        if batch.phase != "train":
            raise InputError(
                f"{what} during the {batch.phase} phase",
                "outside training only pull: training goes on from the same tables",
            )
        call = Call(
            batch.stamp(self._header(op, flags=flags | Flag.LEASED)),
            what,
            self.spec,
            out,
            batch.lease,
        )
        batch.pushes.append(call)
        return call

    def _announces(self, call: Call) -> bool:
        """Whether the call names all shards, also those that it has nothing for.

        Inside a batch their marks move on; and an optimizer that counts its steps counts the same
        in every shard.
        """
        if call.header.flags & Flag.LEASED:
            return True
        return call.header.op != Op.ASSIGN and self.spec.optimizer.counts_steps

    def _limited(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values of one push, with their norm limited if the table says so.

        NaN and infinity go on as they are: what is done about them is the servers' to say.
        """
        limit = None if self.spec.clip is None else self.spec.clip.norm
        if limit is None:
            return values
        norm = float(np.sqrt(np.square(values, dtype=np.float64).sum()))
        if not limit < norm < np.inf:
            return values
        limited: NDArray[Any] = values * self._dtype.type(limit / norm)
        return limited

    def _numbers(self, values: ArrayLike) -> NDArray[Any]:
        """Values as the table holds them."""
        found = np.asarray(values)
        if found.dtype.kind not in "biuf":
            raise InputError(
                f"values for table {self.name} are an array of {found.dtype}",
                f"give real numbers: the table holds {self._dtype}",
            )
        return np.ascontiguousarray(found, self._dtype)

    def size(self) -> Future:
        """Rows on all servers (dense: elements). The answer is an int64 array of one number."""
        total = np.zeros(1, np.int64)

        def add(message: Message) -> None:
            total[0] += np.frombuffer(message.values, np.int64)[0]

        call = self._client.ask_all(
            self._header(Op.SIZE), f"size of table {self.name}", on_reply=add
        )
        return Future(self._client, call, total, None)

    def clear(self) -> Future:
        """Forget all rows (dense: go back to the initial values)."""
        call = self._client.ask_all(self._header(Op.CLEAR), f"clear of table {self.name}")
        return Future(self._client, call, None, None)

    # ------------------------------------------------------------------ functions

    def _ask(
        self,
        function: str,
        found: Collector,
        merged: Callable[[], Any] | None,
        arrays: Sequence[NDArray[Any]] = (),
        limit: float | None = None,
        **settings: Any,
    ) -> Future:
        if function in ("scale", "prune"):
            call = self._write(Op.CALL)
            call.what = f"{function} of table {self.name}"
        else:
            call = Call(
                self._header(Op.CALL)._replace(clock=wire.NO_CLOCK),
                f"{function} of table {self.name}",
                self.spec,
            )
        call.on_reply = found.add
        parts = requests(self._client.router, function, settings, arrays, limit)
        self._client.submit(call, parts)
        return Future(self._client, call, merged=merged)


class CurrentBatch:
    """Which batch's block the program is in.

    Attributes
    ----------
    pulling
        The program's function that only pulls is at work.
    early
        It is at work for the batch after the one whose turn it is.
    """

    def __init__(self) -> None:
        self.now: Batch | None = None
        self.pulling = False
        self.early = False

    @property
    def in_step(self) -> bool:
        """Whether it is a part of a BSP step."""
        return self.now is not None and self.now.part is not None
