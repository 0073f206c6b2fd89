"""Formats whose record is a line of text: libsvm, text, and a user's own parser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

from . import _libsvm
from ._bad import BadLog
from ._lines import Block, line_blocks
from ._records import Records, Rows, Split
from ._settings import DataSettings

# A parser's work space is worth keeping from split to split.
_of_thread = threading.local()


class Chunk(NamedTuple):
    """Some records of a split, in its order. `bytes_read` is up to their end."""

    rows: Rows | Records
    bytes_read: int


def read_libsvm(split: Split, _settings: DataSettings, bad: BadLog) -> Iterator[Chunk]:
    parser = getattr(_of_thread, "parser", None)
    if parser is None:
        parser = _of_thread.parser = _libsvm.LibsvmParser()
    for block in line_blocks(split):
        rows, wrong = parser.parse(block)
        for place in wrong:
            line = b"" if bad.full else _libsvm.line_at(block.data, place)
            error = "" if bad.full else _libsvm.explain(line)
            bad.add_in_block(block, block.data.count(b"\n", 0, place), error, line)
        yield Chunk(rows, block.bytes_read)


def read_text(split: Split, _settings: DataSettings, bad: BadLog) -> Iterator[Chunk]:
    """Every line is a record, empty ones too, so that the count is that of `wc -l`."""
    for block in line_blocks(split):
        lines = [line for line in decoded_lines(block, bad) if line is not None]
        yield Chunk(Records(lines), block.bytes_read)


def decoded_lines(block: Block, bad: BadLog) -> list[str | None]:
    """The lines of a block without their ends; None for one that is not UTF-8 (a bad record)."""
    data = block.data[:-1] if block.data.endswith(b"\n") else block.data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [_decoded(block, index, line, bad) for index, line in enumerate(data.split(b"\n"))]
    lines = text.split("\n")
    if "\r" in text:
        return [line.removesuffix("\r") for line in lines]
    return list(lines)


def _decoded(block: Block, index: int, line: bytes, bad: BadLog) -> str | None:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        bad.add_in_block(block, index, f"not UTF-8: {error.reason} at byte {error.start}", line)
        return None
