"""Signals to a command that follows a job: remembered, and answered between two looks.

From the moment at which a job is handed to a cluster, a signal must not end the command before it
knows the job: with --kill-on-exit nobody else would end it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Remembers signals once it has been told to, and wakes whoever waits for the next look."""

    def __init__(self) -> None:
        self._caught: list[int] = []
        self._before: dict[signal.Signals, Any] = {}
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)

    def remember(self) -> None:
        """From now on signals do nothing but be remembered."""
        if self._before:
            return
        # What was ignored before (nohup) stays ignored.
        self._before = {number: signal.getsignal(number) for number in NUMBERS}
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in self._caught:
            raise KeyboardInterrupt  # a second Ctrl-C while a slow call holds us up
        self._caught.append(number)
        os.write(self._write, b".")

    def wait(self, seconds: float) -> None:
        """Wait, at most until a signal comes."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 1024)

    def take(self) -> int | None:
        """The oldest signal that has not been taken."""
        return self._caught.pop(0) if self._caught else None

    def close(self) -> None:
        """Signals mean again what they meant before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        os.close(self._read)
        os.close(self._write)


@contextmanager
def kept() -> Iterator[Signals]:
    """A `Signals` that has not begun yet; closed at the end."""
    signals = Signals()
    try:
        yield signals
    finally:
        signals.close()
