"""All tables of a server process, with the marks of its shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import wire
from yarnps.protocol.shards import Int64s, Sections, frozen, look_over
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Code, Flag, Header, Message, WireError
from yarnps.server.contents import (
    Gradient,
    Table,
    array,
    keys_of,
    length_of,
    stretches_of,
    stretches_of_section,
    values_of,
)
from yarnps.server.dense import DenseTable, Stretch
from yarnps.server.functions import Asked, dot, run
from yarnps.server.gradients import screened
from yarnps.server.marks import Key, Marks, Recent
from yarnps.server.segments import TableFull
from yarnps.server.sparse import SparseTable

Results: TypeAlias = list[tuple[int, list[NDArray[Any]]]]  # shards, each with its arrays

# Numbers of their own: a request looks at them several times, and those of an enum are slow.
_LEASED, _WHOLE, _EARLY = int(Flag.LEASED), int(Flag.WHOLE), int(Flag.EARLY)


class PreparedRows(Protocol):
    """Rows that wait for their table to be opened."""

    def fill(self, table: Table) -> None: ...


class Store:
    """Tables and marks of the shards that this process owns.

    Parameters
    ----------
    owned
        Its shards.
    shards
        How many shards there are in all.
    dedupe
        False only in tests that show what marks are for.

    Attributes
    ----------
    clock
        The highest clock that a worker has been at with a push or pull; saved with the tables.
    """

    def __init__(
        self,
        owned: list[int],
        shards: int,
        *,
        dedupe: bool = True,
    ) -> None:
        self.shards = shards
        self.owned = owned
        self.places = np.full(shards, -1, np.int64)
        self.places[owned] = np.arange(len(owned))
        self.marks = Marks(shards)
        self.recent = Recent()
        self._batches: dict[int, tuple[tuple[int, int, int], int]] = {}
        self.tables: dict[int, Table] = {}
        self.duplicates = 0
        self.clock = 0
        self._prepared_rows: PreparedRows | None = None
        self.memory_limit: int | None = None  # bytes that tables may take; None: any
        self._dedupe = dedupe

    def prepare(self, rows: PreparedRows) -> None:
        """Rows to put into tables when they are opened."""
        self._prepared_rows = rows

    def open(self, spec: TableSpec) -> Table:
        """The table, made when it is new.

        Raises
        ------
        WireError
            It exists with other settings, or there is no memory for it.
        """
        number = wire.table_id(spec.name)
        table = self.tables.get(number)
        if table is None:
            self._check_room(spec)
            table = (SparseTable if spec.kind == "sparse" else DenseTable)(spec, self.places)
            table.warm()
            if self._prepared_rows is not None:
                self._prepared_rows.fill(table)
            self.tables[number] = table
        elif different := table.spec.difference(spec):
            raise WireError(
                Code.TABLE_DIFFERS,
                f"table {spec.name} exists with other settings: {different}",
            )
        return table

    def _check_room(self, spec: TableSpec) -> None:
        """A dense table takes all its memory at once: say so if there is too little."""
        if spec.kind == "sparse" or self.room is None:
            return
        bounds = DenseTable.bounds_of(spec, self.shards)
        elements = int(np.diff(bounds)[self.owned].sum())
        need = elements * spec.itemsize * spec.optimizer.states
        if need > self.room:
            raise WireError(
                Code.TABLE_FULL,
                f"table {spec.name} needs {need:,} bytes on this server, {max(self.room, 0):,} "
                "are left for tables: give the servers more memory, or ask for more servers",
            )

    def table(self, header: Header) -> Table:
        """The table that a message is for."""
        table = self.tables.get(header.table)
        if table is None:
            raise WireError(
                Code.NO_TABLE, f"nobody has opened the table with number {header.table:#010x}"
            )
        return table

    @property
    def room(self) -> int | None:
        """Bytes left for tables."""
        if self.memory_limit is None:
            return None
        return self.memory_limit - sum(table.nbytes for table in self.tables.values())

    # ------------------------------------------------------------------ sections of a message

    def sections(self, message: Message) -> Sections:
        """The shards that a message names, each with its number of keys."""
        sections = array(message.shards, np.dtype(np.uint32)).reshape(-1, 2)
        highest, _, _ = look_over(sections, self.places)
        if highest >= self.shards:
            raise WireError(Code.BAD_MESSAGE, f"shard {highest} of {self.shards} was named")
        return sections

    def owns(self, sections: Sections) -> bool:
        _, foreign, _ = look_over(sections, self.places)
        return not foreign

    # ------------------------------------------------------------------ requests

    def pull(self, message: Message, sections: Sections) -> NDArray[Any]:
        """Weights, in the order of the message.

        An array without memory of its own is the table's: it is to be read before anything is
        changed.
        """
        table = self.table(message.header)
        if isinstance(table, DenseTable):
            stretches = stretches_of(table, message, sections, self.places)
            lent = table.lent(stretches)
            return table.pull(stretches) if lent is None else lent
        clock = max(self._clock_of(message.header), self.clock)
        return table.pull(keys_of(message, sections, self.places), sections, clock=clock)

    def push(self, message: Message, sections: Sections) -> None:
        """Apply a push to those of its shards that have not applied it yet."""
        self._change(message, sections, "push")

    def assign(self, message: Message, sections: Sections) -> None:
        """Set weights; as a push, each batch once."""
        self._change(message, sections, "assign")

    def gradient(self, message: Message) -> Gradient:
        """What a push holds, checked as if it were applied; limits are for their sum."""
        table, sections = self.table(message.header), self.sections(message)
        if isinstance(table, DenseTable):
            count = length_of(stretches_of(table, message, sections, self.places))
            keys = np.empty(0, np.int64)
            if not message.header.flags & _WHOLE:
                keys = keys_of(message, sections, self.places, per_key=2)
        else:
            keys = keys_of(message, sections, self.places)
            count = len(keys)
        values = values_of(table, message, count)
        if message.header.op == wire.Op.ASSIGN or np.isfinite(values).all():
            return Gradient(sections, keys, values)
        found = screened(table.spec, values)
        return Gradient(sections, keys, found.grads, found.nonfinite)

    def apply(self, message: Message) -> None:
        """Push or assign what has been checked and counted elsewhere: no marks are kept."""
        table, sections = self.table(message.header), self.sections(message)
        what = "assign" if message.header.op == wire.Op.ASSIGN else "push"
        try:
            self._prepared(table, message, sections, what)(None)
        except TableFull as full:
            raise WireError(Code.TABLE_FULL, str(full)) from full

    def _change(self, message: Message, sections: Sections, what: str) -> None:
        table = self.table(message.header)
        apply = self._prepared(table, message, sections, what)
        fresh = self._fresh(message.header, sections)
        if fresh is not None and not fresh.any():
            return
        try:
            apply(fresh)
        except TableFull as full:
            raise WireError(Code.TABLE_FULL, str(full)) from full
        self._record(message.header, sections, fresh)

    def _prepared(
        self, table: Table, message: Message, sections: Sections, what: str
    ) -> Callable[[NDArray[np.bool_] | None], None]:
        """Check everything first; the function returned changes the table."""
        if isinstance(table, DenseTable):
            stretches = stretches_of(table, message, sections, self.places)
            count = length_of(stretches)
            values = values_of(table, message, count)

            def change(sections: Sections, stretches: list[Stretch]) -> None:
                if what == "push":
                    table.push(sections, stretches, values, clock=self._clock_of(message.header))
                else:
                    table.assign(stretches, values)

            def dense(fresh: NDArray[np.bool_] | None) -> None:
                if fresh is None:
                    change(sections, stretches)
                    return
                for index in np.flatnonzero(fresh).tolist():
                    part = stretches_of_section(table, message, sections, index, self.places)
                    change(sections[index : index + 1], part)

            return dense
        keys = keys_of(message, sections, self.places)
        grads = values_of(table, message, len(keys))

        def sparse(fresh: NDArray[np.bool_] | None) -> None:
            change = table.push if what == "push" else table.assign
            clock = self._clock_of(message.header)
            if fresh is None:
                change(keys, sections, grads, clock=clock, room=self.room)
                return
            kept = np.repeat(fresh, sections[:, 1])
            change(
                frozen(keys[kept]),
                frozen(sections[fresh]),
                frozen(grads[kept]),
                clock=clock,
                room=self.room,
            )

        return sparse

    def _clock_of(self, header: Header) -> int:
        """The clock of a message; one outside a batch counts as made at the highest so far."""
        clock = self.clock
        if header.clock != wire.NO_CLOCK:
            clock = header.clock - bool(header.flags & _EARLY)  # where the worker is, not will be
        elif header.flags & _LEASED:
            clock = self._batches_of(header)
        self.clock = max(self.clock, clock)
        return clock

    def _batches_of(self, header: Header) -> int:
        """Without clocks (asp): how many batches a worker has pushed, counted here.

        As a joiner does with clocks, it begins where the others are.
        """
        batch = (header.epoch, header.split, header.batch)
        last, count = self._batches.get(header.incarnation, (batch, self.clock))
        count += batch != last
        self._batches[header.incarnation] = (batch, count)
        return count

    def forget(self, incarnation: int) -> None:
        """A worker's process is gone."""
        self.recent.forget(incarnation)
        self._batches.pop(incarnation, None)

    def _fresh(self, header: Header, sections: Sections) -> NDArray[np.bool_] | None:
        """Which sections have yet to be applied; None: all."""
        if not self._dedupe:
            return None
        if not header.flags & _LEASED:
            if self.recent.is_repeated(header.incarnation, header.request):
                self.duplicates += 1
                return np.zeros(len(sections), bool)
            return None
        key = Key(header.epoch, header.split, header.push)
        fresh = self.marks.fresh(key, header.batch, sections[:, 0].astype(np.int64))
        if fresh.all():
            return None
        self.duplicates += 1
        return fresh

    def _record(self, header: Header, sections: Sections, fresh: NDArray[np.bool_] | None) -> None:
        if not header.flags & _LEASED:
            return
        applied = sections if fresh is None else sections[fresh]
        key = Key(header.epoch, header.split, header.push)
        self.marks.record(key, header.batch, applied[:, 0].astype(np.int64))

    def clear(self, header: Header) -> None:
        """Forget all rows of a table; a request that is sent again does not do it again."""
        table = self.table(header)
        if self._dedupe and self.recent.is_repeated(header.incarnation, header.request):
            self.duplicates += 1
            return
        table.clear()

    def call(self, message: Message, sections: Sections, call: Asked) -> Results:
        """Run a built-in function on the shards named; one that changes them, once.

        Shards to which a repeated request has been applied already give no result again.
        """
        table, shards = self.table(message.header), sections[:, 0]
        if call.function == "dot":
            other = self.tables.get(int(call.settings.get("table", 0)))
            if other is None:
                raise WireError(Code.NO_TABLE, "nobody has opened the other table of dot")
            return [(int(shard), dot(table, other, int(shard))) for shard in shards]
        if not call.changes:
            return [(int(shard), run(call, table, int(shard))) for shard in shards]
        fresh = self._fresh(message.header, sections)
        if fresh is not None:
            shards = shards[fresh]
        results = [(int(shard), run(call, table, int(shard))) for shard in shards]
        if len(shards):
            self._record(message.header, sections, fresh)
        return results

    def contains(self, message: Message, sections: Sections) -> NDArray[np.uint8]:
        """1 for every key that has a row."""
        table = self.table(message.header)
        if isinstance(table, DenseTable):
            raise WireError(Code.UNSUPPORTED, f"table {table.spec.name} is dense: it has all rows")
        clock = max(self._clock_of(message.header), self.clock)
        return table.contains(keys_of(message, sections, self.places), sections, clock=clock)

    def rows_of(self, header: Header, sections: Sections) -> tuple[Int64s, NDArray[Any]]:
        """Keys and weights of all rows of the shards named."""
        table = self.table(header)
        if isinstance(table, DenseTable):
            return np.empty(0, np.int64), table.pull(table.whole(sections))
        shards = [table.copy_shard(int(shard)) for shard in sections[:, 0]]
        if not shards:
            return np.empty(0, np.int64), np.empty((0, table.dim), table.dtype)
        keys = np.concatenate([shard.keys for shard in shards])
        return keys, table.weights_of(np.concatenate([shard.states for shard in shards]))
