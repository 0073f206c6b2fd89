"""The data plane's messages: one header, then shards, keys and values.

A message is a header of `HEADER_BYTES` bytes, little-endian, followed by three sections whose
lengths the header states:

========  =============================================================================
shards    pairs of uint32: shard, number of its keys. Keys and values are in this order.
keys      int64. Sparse tables: one per row. Dense tables with `Flag.RANGES`: pairs
          (first element, end). Operations without keys: a text in JSON.
values    rows of `dim` numbers of `dtype`. Replies that refuse: a text.
========  =============================================================================

A message below `INLINE_LIMIT` is one zmq frame. A longer one is three: header and shards, keys,
values; so that a large array is never copied into a message. The first frame of a message from
a ROUTER socket is the sender's identity, which is not counted here.

Identity of a push
    Inside a batch: (generation, epoch, split, batch, push, shard); a server applies each at most
    once. Outside: (incarnation, request), at least once across a server's restart.

The layout is versioned: a reader refuses every version but its own, by name.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

MAGIC = 0x31535059  # "YPS1" as it stands in memory
VERSION = 1

# Below this, copying costs less than a second frame.
INLINE_LIMIT = 64 << 10

# The longest message that is accepted. A client cuts its calls long before.
MESSAGE_LIMIT = 1 << 30

NO_CLOCK = (1 << 64) - 1  # the sender is not a member of the clock: never gated
AUDIT_PUSH = 0xFFFF  # n of the push that counts a batch's rows
SECTION_BYTES = 8


class Op(IntEnum):
    """What a message asks for, or how it was answered."""

    HELLO = 1
    OPEN = 2
    PULL = 3
    PUSH = 4
    PUSH_PULL = 5
    ASSIGN = 6
    CONTAINS = 7
    SIZE = 8
    CLEAR = 9
    EXPORT_ROWS = 10
    JOIN = 11  # the sender counts for the clock, and stands where the header says
    LEAVE = 12
    BATCH = 13  # several small messages in one; each preceded by its length (uint64)
    CALL = 14  # a function that runs where the shards are

    OK = 64
    ERROR = 65
    WRONG_ROUTE = 66
    STALE_GENERATION = 67
    STALE_LEASE = 68
    NOT_READY = 69


class Flag(IntFlag):
    """Bits of the header's `flags`."""

    LEASED = 1  # the identity of a push is (epoch, split, batch, push); the token is checked
    WHOLE = 2  # dense: all elements of the shards named; there are no keys
    RANGES = 4  # dense: keys are pairs (first element, end)


class Code(IntEnum):
    """Why a request was refused (`Op.ERROR`)."""

    BAD_MESSAGE = 1
    VERSION = 2
    JOB = 3
    HELLO_FIRST = 4
    TOKEN = 5
    NO_TABLE = 6
    TABLE_DIFFERS = 7
    TOO_LARGE = 8
    DTYPE = 9
    DIM = 10
    RANGE = 11
    TABLE_FULL = 12
    GATE = 13
    UNSUPPORTED = 14
    INTERNAL = 15
    NONFINITE = 16
    FUNCTION = 17


class DType(IntEnum):
    """Number formats of values on the wire. A table is float32 or float64."""

    NONE = 0
    FLOAT32 = 1
    FLOAT64 = 2
    FLOAT16 = 3
    BFLOAT16 = 4
    INT8 = 5
    UINT8 = 6


ITEM_BYTES = {
    DType.NONE: 0,
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT8: 1,
    DType.UINT8: 1,
}


class Header(NamedTuple):
    """The fixed part of every message; see the module's text for the sections after it."""

    op: int
    job: int = 0
    request: int = 0
    incarnation: int = 0
    flags: int = 0
    generation: int = 0
    route: int = 0
    table: int = 0
    dtype: int = 0
    code: int = 0
    push: int = 0
    epoch: int = 0
    split: int = 0
    token: int = 0
    batch: int = 0
    clock: int = NO_CLOCK  # replies: the lowest live clock
    weight: int = 0  # rows that the push stands for
    dim: int = 0
    shards: int = 0  # number of pairs
    keys: int = 0  # number of keys or, in a reply of SIZE, of rows
    key_bytes: int = 0
    value_bytes: int = 0


# magic, version, op, flags, then job … in the order of `_FIELDS`
_STRUCT = struct.Struct("<IHBB QQQ II IBBH IIII Q II II QQ")
HEADER_BYTES = _STRUCT.size
assert HEADER_BYTES == 104

_PREFIX = struct.Struct("<IH")


class WireError(Exception):
    """A message that cannot be read. `code` says why in a reply."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class Message(NamedTuple):
    """A message as received. The sections are buffers into the frames."""

    header: Header
    shards: Any
    keys: Any
    values: Any


_EMPTY = b""


def table_id(name: str) -> int:
    """A table's number on the wire."""
    return zlib.crc32(name.encode()) or 1


def pack(header: Header) -> bytes:
    """The header's bytes."""
    h = header
    return _STRUCT.pack(
        MAGIC,
        VERSION,
        h.op,
        h.flags,
        h.job,
        h.request,
        h.incarnation,
        h.generation,
        h.route,
        h.table,
        h.dtype,
        h.code,
        h.push,
        h.epoch,
        h.split,
        h.token,
        h.batch,
        h.clock,
        h.weight,
        h.dim,
        h.shards,
        h.keys,
        h.key_bytes,
        h.value_bytes,
    )


def unpack(frame: Any) -> Header:
    """The header at the beginning of a frame.

    Raises
    ------
    WireError
        Too short, not ours, or of another version.
    """
    if len(frame) < HEADER_BYTES:
        raise WireError(Code.BAD_MESSAGE, f"a message of {len(frame)} bytes has no header")
    (
        magic,
        version,
        op,
        flags,
        job,
        request,
        incarnation,
        generation,
        route,
        table,
        dtype,
        code,
        push,
        epoch,
        split,
        token,
        batch,
        clock,
        weight,
        dim,
        shards,
        keys,
        key_bytes,
        value_bytes,
    ) = _STRUCT.unpack_from(frame)
    if magic != MAGIC:
        raise WireError(Code.BAD_MESSAGE, f"not a message of yarnps: it begins with {magic:#010x}")
    if version != VERSION:
        raise WireError(
            Code.VERSION,
            f"protocol version {version} is not known here: this process speaks {VERSION}",
        )
    return Header(
        op,
        job,
        request,
        incarnation,
        flags,
        generation,
        route,
        table,
        dtype,
        code,
        push,
        epoch,
        split,
        token,
        batch,
        clock,
        weight,
        dim,
        shards,
        keys,
        key_bytes,
        value_bytes,
    )


def request_of(frame: Any) -> int:
    """The request id of a message that may be broken otherwise; 0 where there is none."""
    if len(frame) < HEADER_BYTES:
        return 0
    return int(_STRUCT.unpack_from(frame)[5])


def encode(
    header: Header, shards: Any = _EMPTY, keys: Any = _EMPTY, values: Any = _EMPTY
) -> list[Any]:
    """The frames of a message. Sections are bytes-like; their lengths go into the header.

    Parameters
    ----------
    header
        `shards`, `key_bytes` and `value_bytes` are filled in here.
    """
    shard_bytes, key_bytes, value_bytes = _nbytes(shards), _nbytes(keys), _nbytes(values)
    header = header._replace(
        shards=shard_bytes // SECTION_BYTES, key_bytes=key_bytes, value_bytes=value_bytes
    )
    total = shard_bytes + key_bytes + value_bytes
    if total == 0:
        return [pack(header)]
    if total < INLINE_LIMIT:
        return [b"".join((pack(header), shards, keys, values))]
    return [b"".join((pack(header), shards)), keys, values]


def decode(frames: list[Any]) -> Message:
    """Read a message from its frames (buffers), trusting none of the stated lengths.

    Raises
    ------
    WireError
        Anything that does not fit together.
    """
    first = frames[0]
    header = unpack(first)
    start = HEADER_BYTES
    end = start + header.shards * SECTION_BYTES
    if len(frames) == 1:
        keys_end = end + header.key_bytes
        total = keys_end + header.value_bytes
        if total != len(first):
            raise WireError(
                Code.BAD_MESSAGE,
                f"the header states {total} bytes, the message has {len(first)}",
            )
        view = memoryview(first)
        return Message(header, view[start:end], view[end:keys_end], view[keys_end:])
    if len(frames) != 3:
        raise WireError(Code.BAD_MESSAGE, f"a message of {len(frames)} frames: 1 or 3 expected")
    stated = (end, header.key_bytes, header.value_bytes)
    found = tuple(_nbytes(frame) for frame in frames)
    if stated != found:
        raise WireError(
            Code.BAD_MESSAGE, f"the header states frames of {stated} bytes, they have {found}"
        )
    return Message(header, memoryview(first)[start:end], frames[1], frames[2])


def peer_identity(incarnation: int) -> bytes:
    """The zmq identity of an incarnation. It must not begin with a zero byte."""
    return b"w" + incarnation.to_bytes(8, "little")


def _nbytes(section: Any) -> int:
    size = getattr(section, "nbytes", None)
    return len(section) if size is None else int(size)
