"""Whole lines of a split, in blocks.

A split [start, start + length) owns the lines that *begin* in it, so the last one may reach beyond
its end. A line begins at the start of the file and after every line feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from yarnps._errors import DataError

from ._compressed import decompressed, is_compressed
from ._opening import open_path
from ._records import Split

BOM = b"\xef\xbb\xbf"
LINE_FEED = 10


class Block(NamedTuple):
    """Whole lines.

    Attributes
    ----------
    data
        Their bytes, with line ends.
    start
        Place of the first byte in the (decompressed) file.
    line
        Line feeds between the split's start and this place.
    bytes_read
        How much of the split, as it is stored, has been read.
    """

    data: bytes
    start: int
    line: int
    bytes_read: int


def line_blocks(split: Split) -> Iterator[Block]:
    """The lines of a split; every block but the last of a file ends with a line feed.

    Raises
    ------
    DataError
        When the file is gone or its compression is broken.
    """
    if is_compressed(split.path):
        yield from _compressed_blocks(split)
    else:
        yield from _plain_blocks(split)


def _compressed_blocks(split: Split) -> Iterator[Block]:
    cutter = _Cutter(split.path, 0)
    for piece, stored in decompressed(split.path):
        yield from cutter.feed(piece, stored)
    yield from cutter.end(split.length)


def _plain_blocks(split: Split) -> Iterator[Block]:
    if split.length <= 0:
        return
    files, path = open_path(split.path)
    begin = max(split.start - 1, 0)  # one byte earlier: a line may begin exactly at the start
    end = split.start + split.length
    at = begin
    cutter: _Cutter | None = None if split.start else _Cutter(split.path, 0)
    pieces = files.stream(path, begin)
    try:
        for piece in pieces:
            next_at = at + len(piece)
            if cutter is None:
                feed = piece.find(b"\n")
                if feed < 0:
                    at = next_at
                    if at >= end:
                        return  # one line from before covers the whole split
                    continue
                at += feed + 1
                if at >= end:
                    return
                piece = piece[feed + 1 :]
                # The line that ends here began before the split, and may end in it.
                cutter = _Cutter(split.path, at, line=int(at > split.start))
            if next_at < end:
                yield from cutter.feed(piece, max(next_at - split.start, 0))
            else:
                # The last owned line begins before `end`, and ends with the first line feed at
                # or after byte end - 1.
                feed = piece.find(b"\n", max(end - 1 - at, 0))
                if feed >= 0:
                    yield from cutter.feed(piece[: feed + 1], split.length)
                    break
                yield from cutter.feed(piece, split.length)
            at = next_at
    finally:
        pieces.close()
    if cutter is not None:
        yield from cutter.end(split.length)


class _Cutter:
    """Cuts a stream of pieces after line feeds."""

    def __init__(self, path: str, start: int, line: int = 0) -> None:
        self._path = path
        self._start = start
        self._line = line
        self._held: list[bytes] = []
        self._fresh = start == 0

    def feed(self, piece: bytes, bytes_read: int) -> Iterator[Block]:
        last = piece.rfind(b"\n") + 1
        if last == 0:
            self._held.append(piece)
            return
        whole = not self._held and last == len(piece)
        # Of a view, so that the piece is copied once.
        lines = piece if whole else b"".join([*self._held, memoryview(piece)[:last]])
        yield self._block(lines, bytes_read)
        self._held = [piece[last:]] if last < len(piece) else []

    def end(self, bytes_read: int) -> Iterator[Block]:
        rest = b"".join(self._held)
        self._held = []
        if rest:
            yield self._block(rest, bytes_read)

    def _block(self, data: bytes, bytes_read: int) -> Block:
        start, line = self._start, self._line
        self._start += len(data)
        self._line += int(np.count_nonzero(np.frombuffer(data, np.uint8) == LINE_FEED))
        if self._fresh:
            self._fresh = False
            if data.startswith(BOM):
                data, start = data[len(BOM) :], start + len(BOM)
            elif data[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise DataError(
                    f"the file is UTF-16, not UTF-8: {self._path}",
                    "Convert it: iconv -f UTF-16 -t UTF-8",
                )
        return Block(data, start, line, bytes_read)


# The lines before a split, counted only for a split that has a bad record: per file the furthest
# count so far, so that the next split of the file need not begin at its start.
_counted: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
_COUNTED_FILES = 64
_COUNT_LIMIT = 4 << 30  # bytes; beyond that a line number is not worth the reading


def lines_before(split: Split) -> int | None:
    """Line feeds before the split's first byte; None when that is too far to count."""
    key = (split.path, split.file_size, split.modified_ms)
    marks = _counted.setdefault(key, [(0, 0)])
    if len(_counted) > _COUNTED_FILES:
        _counted.pop(next(iter(_counted)))
    at, lines = max(mark for mark in marks if mark[0] <= split.start)
    if split.start - at > _COUNT_LIMIT:
        return None
    files, path = open_path(split.path)
    with closing(files.stream(path, at)) as pieces:
        while at < split.start and (piece := next(pieces, b"")):
            part = piece[: split.start - at]
            lines += part.count(b"\n")
            at += len(part)
    marks.append((split.start, lines))
    return lines
