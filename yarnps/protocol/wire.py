"""The data plane's messages: one header, then shards, keys and values.

Messages follow one another in a stream (TCP, or a Unix socket on one machine). Each is a header of
`HEADER_BYTES` bytes, little-endian, three sections whose lengths the header states, and zeros up
to a multiple of 8 bytes, so that every section of numbers is aligned where it is received:

========  =============================================================================
shards    pairs of uint32: shard, number of its keys. Keys and values are in this order.
keys      int64. Sparse tables: one per row. Dense tables with `Flag.RANGES`: pairs
          (first element, end). Operations without keys: a text in JSON.
values    rows of `dim` numbers of `dtype`. With `Flag.PICKED`: some of the elements' numbers,
          then their places. Replies that refuse: a text.
========  =============================================================================

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

# A shorter message is copied when it is sent; a longer one is sent from where its arrays are.
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
    CALL = 14  # a function that runs where the shards are
    ANNOUNCE = 15  # BSP: a part has pushed all that it has for a step
    END_PART = 16  # BSP: a part has nothing more in this epoch

    OK = 64
    ERROR = 65
    WRONG_ROUTE = 66
    STALE_GENERATION = 67
    STALE_LEASE = 68
    NOT_READY = 69
    KEYS_UNKNOWN = 70  # the list of keys that was named is not remembered: send it
    LATE = 71  # BSP: the step was closed without this part; its batch is to be done again


class Flag(IntFlag):
    """Bits of the header's `flags`."""

    LEASED = 1  # the identity of a push is (epoch, split, batch, push); the token is checked
    WHOLE = 2  # dense: all elements of the shards named; there are no keys
    RANGES = 4  # dense: keys are pairs (first element, end)
    KEEP_KEYS = 8  # the list of keys is to be remembered
    KNOWN_KEYS = 16  # the keys section is the name of a list that was sent before
    STEP = 32  # BSP: split is the part, batch counts along its stream, clock is the step
    EARLY = 64  # a pull for the batch after the one in work: its clock is not yet the sender's
    PICKED = 128  # dense: a push of some of the elements; for the others it is one of 0


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

# Of numpy's names, as far as tables and replies have them.
DTYPE_OF = {"float32": DType.FLOAT32, "float64": DType.FLOAT64, "uint8": DType.UINT8}


class Header(NamedTuple):
    """The fixed part of every message, in the order of its bytes; see the module's text."""

    op: int
    flags: int = 0
    job: int = 0
    request: int = 0
    incarnation: int = 0
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
    keys: int = 0  # spare: their number follows from key_bytes
    key_bytes: int = 0
    value_bytes: int = 0


# Magic and version, then the header's fields.
_BEGIN = struct.pack("<IH", MAGIC, VERSION)
_FIELDS = "BB QQQ II IBBH IIII Q II II QQ"
_STRUCT = struct.Struct(f"<6s{_FIELDS}")
_AFTER_BEGIN = struct.Struct(f"<6x{_FIELDS}")
HEADER_BYTES = _STRUCT.size
assert HEADER_BYTES == 104


class WireError(Exception):
    """A message that cannot be read or is refused. `code` says why in a reply.

    `request` is that of the message, where as much of it can be read.
    """

    def __init__(self, code: Code, text: str, request: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.request = request


class Message(NamedTuple):
    """A message as received. The sections are buffers, which nobody else writes to.

    `values` is None where they were received into the array that they are for.
    """

    header: Header
    shards: Any
    keys: Any
    values: Any


_EMPTY = b""

# Of a reply without sections: the fields between table and clock, and those behind the clock.
_OK = int(Op.OK)
_NOTHING = (0,) * (Header._fields.index("clock") - Header._fields.index("dtype"))
_LENGTHS = (0,) * (len(Header._fields) - Header._fields.index("clock") - 1)


def table_id(name: str) -> int:
    """A table's number on the wire."""
    return zlib.crc32(name.encode()) or 1


def pack(header: Header) -> bytes:
    """The header's bytes."""
    return _STRUCT.pack(_BEGIN, *header)


def unpack(buffer: Any, at: int = 0) -> Header:
    """The header that begins at byte `at`.

    Raises
    ------
    WireError
        Too short, not ours, or of another version.
    """
    if len(buffer) - at < HEADER_BYTES:
        raise WireError(Code.BAD_MESSAGE, f"a message of {len(buffer) - at} bytes has no header")
    header = Header._make(_AFTER_BEGIN.unpack_from(buffer, at))
    if buffer[at : at + 6] != _BEGIN:
        magic, version = struct.unpack_from("<IH", buffer, at)
        if magic != MAGIC:
            raise not_ours(magic)
        raise WireError(
            Code.VERSION,
            f"protocol version {version} is not known here: this process speaks {VERSION}",
            header.request,
        )
    return header


def not_ours(magic: int) -> WireError:
    """The error of bytes that do not begin as our messages do."""
    return WireError(Code.BAD_MESSAGE, f"not a message of yarnps: it begins with {magic:#010x}")


def sections_length(header: Header) -> int:
    """Bytes of the three sections, without the zeros behind them."""
    return header.shards * SECTION_BYTES + header.key_bytes + header.value_bytes


def padding(length: int) -> int:
    """Zeros behind sections of this length."""
    return -length % 8


def encode(
    header: Header, shards: Any = _EMPTY, keys: Any = _EMPTY, values: Any = _EMPTY
) -> list[Any]:
    """A message, as buffers that are sent one after another.

    Parameters
    ----------
    header
        `shards`, `key_bytes` and `value_bytes` are filled in here.
    shards, keys, values
        Bytes-like. From `INLINE_LIMIT` on, keys and values are not copied.
    """
    return encode_as(header, header.request, header.generation, header.route, shards, keys, values)


def acknowledgement(to: Header, job: int, generation: int, route: int, clock: int) -> list[Any]:
    """The reply that has nothing to say but that it is done."""
    head = _STRUCT.pack(
        _BEGIN, _OK, 0, job, to.request, 0, generation, route, to.table, *_NOTHING, clock, *_LENGTHS
    )
    return [head]


def encode_as(
    header: Header, request: int, generation: int, route: int, shards: Any, keys: Any, values: Any
) -> list[Any]:
    """As `encode`, with another request, generation and route than the header's: a call's messages
    have all else in common."""
    shard_bytes, key_bytes, value_bytes = _nbytes(shards), _nbytes(keys), _nbytes(values)
    total = shard_bytes + key_bytes + value_bytes
    head = _STRUCT.pack(
        _BEGIN,
        *header[:3],
        request,
        header[4],
        generation,
        route,
        *header[7:-4],
        shard_bytes // SECTION_BYTES,
        header.keys,
        key_bytes,
        value_bytes,
    )
    if total == 0:
        return [head]
    pad = bytes(padding(total))
    if total < INLINE_LIMIT:
        return [b"".join((head, shards, keys, values, pad))]
    return [piece for piece in (head + bytes(shards), keys, values, pad) if _nbytes(piece)]


def decode(buffers: list[Any]) -> Message:
    """Read a whole message, trusting none of the stated lengths.

    Raises
    ------
    WireError
        Anything that does not fit together.
    """
    whole = buffers[0] if len(buffers) == 1 else b"".join(buffers)
    header = unpack(whole)
    length = sections_length(header)
    if HEADER_BYTES + length + padding(length) != len(whole):
        raise WireError(
            Code.BAD_MESSAGE,
            f"the header states {HEADER_BYTES + length} bytes, the message has {len(whole)}",
            header.request,
        )
    return Message(header, *sections(header, memoryview(whole), HEADER_BYTES))


def sections(header: Header, view: memoryview, start: int) -> tuple[Any, Any, Any]:
    """The three sections of a message in a buffer that holds them from `start` on."""
    keys = start + header.shards * SECTION_BYTES
    values = keys + header.key_bytes
    return view[start:keys], view[keys:values], view[values : values + header.value_bytes]


def _nbytes(section: Any) -> int:
    return len(section) if type(section) is bytes else int(memoryview(section).nbytes)
