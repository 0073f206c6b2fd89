"""How long a worker has waited, the wait that is going on included."""

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
