"""What a message for a table holds: its sections as arrays, checked against the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import codecs, wire
from yarnps.protocol.shards import Int64s, Sections, frozen, look_over
from yarnps.protocol.wire import Code, Flag, Message, Op, WireError
from yarnps.server.dense import DenseTable, Stretch
from yarnps.server.sparse import SparseTable

Table: TypeAlias = SparseTable | DenseTable

# Numbers of their own: a request looks at them several times, and those of an enum are slow.
_WHOLE, _RANGES, _PICKED = int(Flag.WHOLE), int(Flag.RANGES), int(Flag.PICKED)

_DTYPE_OF = {"float32": wire.DType.FLOAT32, "float64": wire.DType.FLOAT64}


class Gradient(NamedTuple):
    """What a push holds.

    Attributes
    ----------
    keys
        Sparse: one for each row. Dense: pairs (first element, end), or none for whole shards.
    values
        Sparse: (keys, dim). Dense: one number for each element.
    nonfinite
        How many rows or elements had NaN or infinity in them.
    """

    sections: Sections
    keys: Int64s
    values: NDArray[Any]
    nonfinite: int = 0

    def ranges(self, bounds: Int64s) -> Iterator[tuple[int, int, int]]:
        """Of a dense table: shard, first element and end, in the order of the values.

        `bounds` are where the shards' elements begin, and the end.
        """
        first = 0
        for shard, count in self.sections.tolist():
            if not len(self.keys):
                yield shard, int(bounds[shard]), int(bounds[shard + 1])
            for index in range(first, first + count):
                yield shard, int(self.keys[2 * index]), int(self.keys[2 * index + 1])
            first += count


def keys_of(message: Message, sections: Sections, places: Int64s, per_key: int = 1) -> Int64s:
    """A message's keys, as many as its sections state; `places` as in `Store`."""
    keys = array(message.keys, np.dtype(np.int64))
    _, _, counted = look_over(sections, places)
    stated = counted * per_key
    if len(keys) != stated:
        raise WireError(
            Code.BAD_MESSAGE, f"{stated} keys are stated for the shards, {len(keys)} came"
        )
    return keys


def values_of(table: Table, message: Message, count: int) -> NDArray[Any]:
    """A message's values, in the table's dtype: sparse (count, dim), dense (count)."""
    header = message.header
    expected = _DTYPE_OF[table.spec.dtype]
    short = codecs.DTYPE_OF_FORM.get(table.spec.wire.push)
    if header.dtype != expected and (header.dtype != short or header.op != Op.PUSH):
        raise WireError(
            Code.DTYPE,
            f"table {table.spec.name} holds {table.spec.dtype}, the message "
            f"{_dtype_name(header.dtype)}",
        )
    if header.dim != table.spec.dim:
        raise WireError(
            Code.DIM,
            f"table {table.spec.name} has rows of {table.spec.dim}, the message of {header.dim}",
        )
    if header.flags & _PICKED:
        return _spread(table, message, count)
    values = array(message.values, codecs.raw(header.dtype) or table.dtype)
    if header.dtype != expected:
        values = frozen(codecs.decode(values, header.dtype, header.code, table.dtype))
    if len(values) != count * table.spec.dim:
        raise WireError(
            Code.BAD_MESSAGE,
            f"{count * table.spec.dim} values are needed, {len(values)} came",
        )
    return values.reshape(count, table.spec.dim) if table.spec.kind == "sparse" else values


def _spread(table: Table, message: Message, count: int) -> NDArray[Any]:
    """A push of some of the elements, as one of all: the optimizer sees 0 for the others."""
    spec = table.spec
    if spec.kind != "dense" or spec.wire.push != "topk" or message.header.op != Op.PUSH:
        raise WireError(
            Code.UNSUPPORTED, f"table {spec.name} takes no push of some of a gradient's numbers"
        )
    try:
        return frozen(codecs.spread(message.values, count, table.dtype))
    except ValueError as error:
        raise WireError(Code.BAD_MESSAGE, f"table {spec.name}: {error}") from error


def stretches_of(
    table: DenseTable, message: Message, sections: Sections, places: Int64s
) -> list[Stretch]:
    """The elements that a message is about."""
    if message.header.flags & _WHOLE:
        return table.whole(sections)
    if message.header.flags & _RANGES:
        return table.ranges(sections, keys_of(message, sections, places, per_key=2))
    raise WireError(Code.BAD_MESSAGE, f"table {table.spec.name} is dense: name elements, not keys")


def stretches_of_section(
    table: DenseTable, message: Message, sections: Sections, index: int, places: Int64s
) -> list[Stretch]:
    """The stretches of one section, placed where its values are in the whole message."""
    if message.header.flags & _WHOLE:
        before = length_of(table.whole(sections[:index]))
        part = table.whole(sections[index : index + 1])
    else:
        keys = keys_of(message, sections, places, per_key=2)
        first = int(sections[:index, 1].sum(dtype=np.int64))
        end = first + int(sections[index, 1])
        before = length_of(table.ranges(sections[:index], keys[: 2 * first]))
        part = table.ranges(sections[index : index + 1], keys[2 * first : 2 * end])
    return [stretch._replace(at=stretch.at + before) for stretch in part]


def length_of(stretches: list[Stretch]) -> int:
    """How many elements there are."""
    return sum(stretch.end - stretch.start for stretch in stretches)


def array(buffer: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A read-only array over a section of a message; copied only where it is not aligned.

    Raises
    ------
    WireError
        Not a whole number of elements.
    """
    try:
        found = np.frombuffer(buffer, dtype)
    except ValueError as error:
        raise WireError(Code.BAD_MESSAGE, f"a section cannot be read: {error}") from error
    if not found.flags.aligned:
        found = found.copy()
    if found.flags.writeable:
        found.flags.writeable = False
    return found


def _dtype_name(number: int) -> str:
    try:
        return wire.DType(number).name.lower()
    except ValueError:
        return f"numbers of an unknown kind ({number})"
