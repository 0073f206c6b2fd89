"""Data of HDFS files, each transfer within a limit."""

from __future__ import annotations

import io
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from yarnps._errors import ClusterError

from ._base import BLOCK_BYTES

BLOCK_S = 120.0  # one piece of data: the client goes through all replicas by itself
AHEAD = 4  # pieces read ahead of the reader

Transfer = Callable[[str, Callable[[], Any]], Any]  # runs a call about a path within the limit


class Reader(io.RawIOBase):
    """The client's reader within limits."""

    def __init__(
        self,
        transfer: Transfer,
        stream: Callable[[str, int], Iterator[bytes]],
        path: str,
        inner: Any,
    ) -> None:
        self._transfer, self._stream, self._path, self._inner = transfer, stream, path, inner
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._inner)}
        self._at = base[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        length = min(len(view), len(self._inner) - self._at)
        if length <= 0:
            return 0
        data = self._transfer(self._path, lambda: self._inner.read_range(self._at, length))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        rest = b"".join(self._stream(self._path, self._at))
        self._at += len(rest)
        return rest


class Writer(io.RawIOBase):
    """The client's writer within limits."""

    def __init__(self, transfer: Transfer, path: str, inner: Any) -> None:
        self._transfer, self._path, self._inner = transfer, path, inner

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = bytes(data)
        self._transfer(self._path, lambda: self._inner.write(view))
        return len(view)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._transfer(self._path, self._inner.close)


def read_ahead(
    start: Callable[[], Iterator[bytes]],
    in_our_words: Callable[[Exception], Exception],
    words: dict[str, str],
) -> Iterator[bytes]:
    """Pieces of about BLOCK_BYTES, read by a thread while the caller works on earlier ones."""
    ready: queue.Queue[bytes | Exception | None] = queue.Queue(AHEAD)
    stopped = threading.Event()

    def put(item: bytes | Exception | None) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=1.0)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        try:
            for piece in _gathered(start()):
                if not put(piece):
                    return
        except Exception as error:  # noqa: BLE001 - raised in the reader's thread
            put(error)
        else:
            put(None)

    threading.Thread(target=run, name="yarnps-read-ahead", daemon=True).start()
    try:
        while True:
            try:
                item = ready.get(timeout=BLOCK_S)
            except queue.Empty:
                raise ClusterError(
                    f"no data within {BLOCK_S:g} s: {words['what']}", words["remedy"]
                ) from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise in_our_words(item) from item
            yield item
    finally:
        stopped.set()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
