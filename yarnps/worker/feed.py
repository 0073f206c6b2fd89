"""Reading ahead: the next batch is parsed while this one computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from yarnps.worker.leases import Held

# Batches that wait, parsed, for the program. One hides the reading; two smooth uneven batches.
_AHEAD = 2

_TICK_S = 0.2


class Parsed(NamedTuple):
    """A batch of a lease; `raw` None: the split has ended; `error`: it could not be read."""

    lease: Held
    raw: Any = None
    error: Exception | None = None


class Feed:
    """A thread that reads the leases' batches in order.

    Parameters
    ----------
    read
        The batches of a lease, from its first uncommitted one.
    on_ready
        Called in the thread after each batch.
    """

    def __init__(self, read: Callable[[Held], Iterator[Any]], on_ready: Callable[[], None]) -> None:
        self._read = read
        self._on_ready = on_ready
        self._leases: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._batches: queue.Queue[Parsed] = queue.Queue(_AHEAD)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def add(self, lease: Held) -> None:
        """Read this lease after those that were added before."""
        self._leases.put(lease)

    def take(self) -> Parsed | None:
        """The next batch, if one is there."""
        try:
            return self._batches.get_nowait()
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End the thread, whatever it is about to deliver."""
        self._stopping = True
        self._leases.put(None)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while (lease := self._leases.get()) is not None:
            for parsed in self._parsed(lease):
                self._deliver(parsed)
                if self._stopping:
                    return

    def _parsed(self, lease: Held) -> Iterator[Parsed]:
        try:
            if not lease.revoked:
                for raw in self._read(lease):
                    if lease.revoked or self._stopping:
                        break
                    yield Parsed(lease, raw)
            yield Parsed(lease)
        except Exception as error:  # noqa: BLE001 (told to the ApplicationMaster with the split)
            yield Parsed(lease, error=error)

    def _deliver(self, parsed: Parsed) -> None:
        while not self._stopping:
            try:
                self._batches.put(parsed, timeout=_TICK_S)
            except queue.Full:
                continue
            self._on_ready()
            return
