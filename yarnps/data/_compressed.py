"""Compressed files. They are read from the start, so each is one split."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, cast

from yarnps._errors import DataError

from ._opening import open_path

PIECE = 1 << 20
_READABLE = (".gz", ".gzip", ".bz2", ".zst", ".zstd", ".xz")
_KNOWN = (".snappy", ".lz4", ".lzo", ".lzo_deflate", ".deflate", ".zip", ".br", ".z", ".7z", ".tar")


def is_compressed(path: str) -> bool:
    """Whether the name says that the file is compressed in a way that can be read here."""
    return path.lower().endswith(_READABLE)


def unreadable_compression(path: str) -> str:
    """The ending of a compression that cannot be read here; empty otherwise."""
    lower = path.lower()
    return next((ending for ending in _KNOWN if lower.endswith(ending)), "")


class _Counting(io.RawIOBase):
    """A file's pieces as a raw file; counts what has been taken of it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


def decompressed(address: str) -> Iterator[tuple[bytes, int]]:
    """Pieces of the content, each with the number of stored bytes read so far.

    All members (gzip), streams (bzip2, xz) and frames (zstd) of the file are read.

    Raises
    ------
    DataError
        When the file is cut off or broken; says after how many bytes.
    """
    files, path = open_path(address)
    with closing(files.stream(path)) as stored:
        counting = _Counting(stored)
        try:
            with _decoder(address.lower(), counting) as decoder:
                while piece := decoder.read(PIECE):
                    yield piece, counting.count
        except EOFError as error:
            raise _broken(address, counting.count, "the file is cut off") from error
        except (OSError, zlib.error, lzma.LZMAError, ValueError) as error:
            raise _broken(address, counting.count, str(error)) from error


def _decoder(name: str, stored: _Counting) -> BinaryIO:
    raw = cast(BinaryIO, io.BufferedReader(stored, PIECE))
    if name.endswith((".gz", ".gzip")):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if name.endswith(".bz2"):
        return cast(BinaryIO, bz2.BZ2File(raw, "rb"))
    if name.endswith(".xz"):
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return cast(BinaryIO, _Zstd(raw))


class _Zstd(io.RawIOBase):
    """All frames of a zstd file. The library's own reader takes a cut-off file for a whole one."""

    def __init__(self, stored: BinaryIO) -> None:
        import zstandard

        self._stored = stored
        self._library = zstandard
        self._frame: Any = None
        self._input = b""

    def read(self, _size: int = -1) -> bytes:
        try:
            return self._next()
        except self._library.ZstdError as error:
            raise ValueError(f"zstd: {error}") from error

    def _next(self) -> bytes:
        while True:
            if not self._input:
                self._input = self._stored.read(PIECE // 8)
                if not self._input:
                    if self._frame is not None:
                        raise EOFError
                    return b""
            if self._frame is None:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            out = cast(bytes, self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._frame = None
            if out:
                return out


def _broken(address: str, count: int, why: str) -> DataError:
    return DataError(
        f"cannot decompress the file: {address}: {why} (after {count} stored bytes)",
        "Write the file again, or leave it out.",
    )
