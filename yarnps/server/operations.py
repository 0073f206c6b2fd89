"""What each operation of the data plane does to a store, and what it is answered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import InputError
from yarnps.protocol import wire
from yarnps.protocol.codecs import encode
from yarnps.protocol.shards import Sections
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Code, Flag, Message, Op, WireError
from yarnps.server import functions
from yarnps.server.store import Results, Store

_LEASED = int(Flag.LEASED)

# A dense table's weights are sent from where they are if they are so many; fewer are copied, and
# share a call of the system with other answers.
_LENT_BYTES = 256 << 10


@dataclass
class Counts:
    """What the server has done so far."""

    pushes: int = 0
    pulls: int = 0
    refused: int = 0


class Result(NamedTuple):
    """What a request is answered with.

    Attributes
    ----------
    op, dtype, dim, code
        Of the answer's header.
    keys, values
        Its sections.
    lent
        `values` are a table's memory: to be sent before anything is changed.
    """

    op: int = int(Op.OK)
    keys: Any = b""
    values: Any = b""
    dtype: int = 0
    dim: int = 0
    code: int = 0
    lent: bool = False


Operation: TypeAlias = Callable[[Store, Counts, Message], Result]

DONE = Result()
WRONG_ROUTE = Result(int(Op.WRONG_ROUTE))


def array_result(values: NDArray[Any], keys: Any = b"") -> Result:
    """Rows or numbers, in their own dtype."""
    dim = values.shape[1] if values.ndim == 2 else 1
    return Result(
        keys=keys, values=_bytes_of(values), dtype=wire.DTYPE_OF[values.dtype.name], dim=dim
    )


def function_result(results: Results) -> Result:
    """What a function gave for each shard."""
    text, data = functions.answer(results)
    return Result(keys=text, values=data)


def routed(store: Store, message: Message) -> Sections | None:
    """The sections, or None when a shard of them is another server's."""
    sections = store.sections(message)
    return sections if store.owns(sections) else None


# ---------------------------------------------------------------------- tables


def _open(store: Store, counts: Counts, message: Message) -> Result:
    try:
        spec = TableSpec.from_json(bytes(message.keys).decode())
    except (InputError, UnicodeDecodeError) as error:
        raise WireError(Code.BAD_MESSAGE, str(error)) from error
    store.open(spec)
    return DONE


def _size(store: Store, counts: Counts, message: Message) -> Result:
    return Result(values=np.int64(store.table(message.header).rows).tobytes())


def _clear(store: Store, counts: Counts, message: Message) -> Result:
    store.clear(message.header)
    return DONE


# ---------------------------------------------------------------------- reads


def _pull(store: Store, counts: Counts, message: Message) -> Result:
    sections = routed(store, message)
    if sections is None:
        return WRONG_ROUTE
    counts.pulls += 1
    values = store.pull(message, sections)
    encoded = encode(values, store.table(message.header).spec.wire.pull)
    return Result(
        values=_bytes_of(encoded.values),
        dtype=encoded.dtype,
        dim=values.shape[1] if values.ndim == 2 else 1,
        code=encoded.code,
        lent=(
            encoded.values is values and values.nbytes >= _LENT_BYTES and not values.flags.owndata
        ),
    )


def _contains(store: Store, counts: Counts, message: Message) -> Result:
    sections = routed(store, message)
    if sections is None:
        return WRONG_ROUTE
    return array_result(store.contains(message, sections))


def _export_rows(store: Store, counts: Counts, message: Message) -> Result:
    sections = routed(store, message)
    if sections is None:
        return WRONG_ROUTE
    keys, values = store.rows_of(message.header, sections)
    return array_result(values, keys.tobytes())


# ---------------------------------------------------------------------- changes


def _change(
    store: Store, counts: Counts, message: Message, apply: Callable[[Message, Sections], None]
) -> Result:
    """Apply a push or an assignment, unless it is refused."""
    header = message.header
    sections = routed(store, message)
    if sections is None:
        return WRONG_ROUTE
    leased = header.flags & _LEASED
    if leased and store.marks.token_is_stale(header.epoch, header.split, header.token):
        return Result(int(Op.STALE_LEASE))
    counts.pushes += 1
    apply(message, sections)
    return DONE


def _push(store: Store, counts: Counts, message: Message) -> Result:
    return _change(store, counts, message, store.push)


def _assign(store: Store, counts: Counts, message: Message) -> Result:
    return _change(store, counts, message, store.assign)


def _push_pull(store: Store, counts: Counts, message: Message) -> Result:
    pushed = _push(store, counts, message)
    return _pull(store, counts, message) if pushed is DONE else pushed


def _call(store: Store, counts: Counts, message: Message) -> Result:
    """Run a built-in function; its results for each shard."""
    call = functions.asked(message)
    found: Results = []

    def apply(message: Message, sections: Sections) -> None:
        found.extend(store.call(message, sections, call))

    if call.changes:
        changed = _change(store, counts, message, apply)
        return function_result(found) if changed is DONE else changed
    sections = routed(store, message)
    if sections is None:
        return WRONG_ROUTE
    apply(message, sections)
    return function_result(found)


OPERATIONS: dict[int, Operation] = {
    Op.OPEN: _open,
    Op.PULL: _pull,
    Op.PUSH: _push,
    Op.PUSH_PULL: _push_pull,
    Op.ASSIGN: _assign,
    Op.CONTAINS: _contains,
    Op.SIZE: _size,
    Op.CLEAR: _clear,
    Op.EXPORT_ROWS: _export_rows,
    Op.CALL: _call,
}


def _bytes_of(values: Any) -> Any:
    return memoryview(values).cast("B") if values.size else b""
