"""How long a worker has waited, the wait that is going on included; and how fast it is."""

from __future__ import annotations

import threading
import time
from types import TracebackType


class Stopwatch:
    """Runs while somebody is inside ``with stopwatch:``; waits inside waits count once.

    Whoever reads it sees a wait grow while it lasts: a worker that stands at the gate for long
    must not look as if it had worked all the time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def seconds(self) -> float:
        """Waited so far; from any thread."""
        with self._lock:
            running = time.monotonic() - self._since if self._depth else 0.0
            return self._total + running

    def __enter__(self) -> Stopwatch:
        with self._lock:
            if self._depth == 0:
                self._since = time.monotonic()
            self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._total += time.monotonic() - self._since


class Rate:
    """Rows per second, smoothed over some seconds."""

    def __init__(self) -> None:
        self._rows = 0
        self._then = time.monotonic()
        self._rate = 0.0

    def at(self, rows: int, now: float) -> float:
        seconds = max(now - self._then, 1e-3)
        latest = (rows - self._rows) / seconds
        weight = min(1.0, seconds / 5.0)
        self._rate = latest if self._rate == 0 else self._rate + weight * (latest - self._rate)
        self._rows, self._then = rows, now
        return self._rate
