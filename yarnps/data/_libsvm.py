"""libsvm text: `label id:value id:value … # comment`.

Ids are 64-bit and kept as they are written, 0- or 1-based, negative ones too. Repeated ids of a
row are added up. `qid:n` is passed over. A label, id or value that is not a number, an id beyond
2**63 - 1 and everything that is not finite as float32 make the record a bad one.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from ._lines import Block
from ._records import Floats, Ints, Rows

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORD = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_ID = re.compile(rb"[+-]?\d+")
MAX_ID = (1 << 63) - 1
HASH_SLOTS = 1 << 12


class LibsvmParser:
    """Parses blocks. One per thread: it keeps its work space between blocks."""

    def __init__(self) -> None:
        from . import _libsvm_kernel  # numba is slow to import: only those who parse pay

        self._kernel = _libsvm_kernel
        self._slots = _new_slots(HASH_SLOTS)
        self._mark = 0
        self._room = 0

    def _make_room(self, size: int) -> None:
        """Work space for a block of `size` bytes: an entry takes four at least, a row two."""
        if size <= self._room:
            return
        self._room = size
        lines, entries = size // 2 + 2, size // 4 + 1
        self._labels, self._indptr = np.empty(lines, np.float32), np.empty(lines + 1, np.int64)
        self._keys, self._values = np.empty(entries, np.int64), np.empty(entries, np.float32)
        self._places, self._bad, self._doubt = (np.empty(lines, np.int64) for _ in range(3))

    def parse(self, block: Block) -> tuple[Rows, list[int]]:
        """The rows of a block, and the places in it of its bad records."""
        text = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        data = np.frombuffer(text, np.uint8)
        self._make_room(len(data))
        count, bads, doubts = self._run(data)
        while count < 0:  # a long row: its length came instead of the bad records
            while len(self._slots) < 2 * bads:
                self._slots, self._mark = _new_slots(2 * len(self._slots)), 0
            count, bads, doubts = self._run(data)
        entries = self._indptr[count]
        rows = Rows(
            self._labels[:count].copy(),
            self._indptr[: count + 1].copy(),
            self._keys[:entries].copy(),
            self._values[:entries].copy(),
        )
        wrong = self._bad[:bads].tolist()
        if doubts:
            rows, more = _settle(rows, block.data, self._places, self._doubt[:doubts])
            wrong = sorted(wrong + more)
        return rows, wrong

    def _run(self, data: npt.NDArray[np.uint8]) -> tuple[int, int, int]:
        work = (self._labels, self._indptr, self._keys, self._values)
        notes = (self._places, self._bad, self._doubt)
        found = self._kernel.parse_block(data, *work, *notes, self._slots, self._mark)
        self._mark += len(data) // 2 + 2  # no row of this block can have had a greater one
        return found  # type: ignore[no-any-return]


def _new_slots(count: int) -> Ints:
    return np.full((count, 3), -1, np.int64)


def _settle(rows: Rows, data: bytes, places: Ints, doubt: Ints) -> tuple[Rows, list[int]]:
    """Convert the numbers of the doubtful rows again, exactly."""
    wrong = []
    kept = np.ones(len(rows), bool)
    for row in doubt:
        place = int(places[row])
        try:
            label, _, values = parse_line(line_at(data, place))
        except ValueError:
            kept[row] = False
            wrong.append(place)
            continue
        rows.labels[row] = label
        rows.values[rows.indptr[row] : rows.indptr[row + 1]] = values
    return (rows if kept.all() else rows.take(np.flatnonzero(kept))), wrong


def line_at(data: bytes, place: int) -> bytes:
    end = data.find(b"\n", place)
    return data[place : len(data) if end < 0 else end].rstrip(b"\r")


def explain(line: bytes) -> str:
    """What is wrong with a bad record."""
    try:
        parse_line(line)
    except ValueError as error:
        return str(error)
    return "the record is not valid libsvm"


def parse_line(line: bytes) -> tuple[np.float32, Ints, Floats]:
    """One record, slowly; the compiled parser gives the same.

    Raises
    ------
    ValueError
        Says what is wrong.
    """
    tokens = line.split(b"#", 1)[0].split()
    label = _float(tokens[0], "label")
    merged: dict[int, np.float32] = {}
    for token in tokens[1:]:
        name, colon, number = token.partition(b":")
        if name == b"qid" and colon and number:
            if min(number) < 32:
                raise ValueError(f"a control character: {_shown(token)}")
            continue
        if not colon:
            raise ValueError(f"expected id:value, found {_shown(token)}")
        if not _ID.fullmatch(name):
            raise ValueError(f"the feature id is not an integer: {_shown(token)}")
        key = int(name)
        if abs(key) > MAX_ID:
            raise ValueError(f"the feature id is beyond 64 bits: {_shown(token)}")
        value = _float(number, "value")
        merged[key] = merged[key] + value if key in merged else value
    values = np.array(list(merged.values()), np.float32)
    if not np.isfinite(values).all():
        raise ValueError("the sum of a repeated feature is not finite")
    return label, np.array(list(merged), np.int64), values


def _float(token: bytes, name: str) -> np.float32:
    if not _NUMBER.fullmatch(token):
        if _WORD.fullmatch(token):
            raise ValueError(f"the {name} is not finite: {_shown(token)}")
        raise ValueError(f"the {name} is not a number: {_shown(token)}")
    with np.errstate(over="ignore"):
        value: np.float32 = np.float32(float(token))
    if not math.isfinite(value):
        raise ValueError(f"the {name} is too large for 32 bits: {_shown(token)}")
    return value


def _shown(token: bytes) -> str:
    return repr(token[:60].decode("utf-8", "backslashreplace"))


def merge_repeated(rows: Rows) -> Rows:
    """Add up the values of keys that a row has more than once; works in place where it can."""
    if len(rows.keys) < 2:
        return rows
    from . import _libsvm_kernel

    longest = int(np.diff(rows.indptr).max())
    slots = HASH_SLOTS
    while slots < 2 * longest:
        slots *= 2
    count = _libsvm_kernel.merge_rows(rows.keys, rows.values, rows.indptr, _new_slots(slots))
    return Rows(rows.labels, rows.indptr, rows.keys[:count], rows.values[:count])
