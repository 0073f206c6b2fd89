"""Two threads on one core for a while, when each waits for what the other does.

A message comes in by ZeroMQ's thread, which wakes up ours, and goes out the other way round. To
wake up a thread on another core takes longer than either has to do, above all on a virtual machine.
While messages come all the time, both therefore stay on the core on which ours has been.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

logger = logging.getLogger(__name__)

# After so long the core is chosen anew: others may have come to it.
ANEW_S = 1.0

_TASKS = Path("/proc/self/task")
# Of the fields behind a thread's name in its `stat`: the core that it runs on, or did last.
_CORE = 36


class OneCore:
    """Keeps the caller's thread and others together.

    The caller's is kept only in `held`: what it starts would stay on that core for ever. So it
    starts nothing there. The others, which start nothing at all, stay until `release`.

    Parameters
    ----------
    name
        That the others bear; of this process.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._others: dict[int, set[int]] = {}  # those that are kept, and where they may else run
        self._core = 0
        self._since = 0.0
        self._refused = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """All are on one core. Where that is not possible, everything goes on without."""
        mine = self._hold_mine()
        try:
            yield
        finally:
            if mine:
                self._let_go(0, mine)

    def release(self) -> None:
        """The others may run where they could before."""
        others, self._others = self._others, {}
        for thread, cores in others.items():
            self._let_go(thread, cores)

    def _let_go(self, thread: int, cores: set[int]) -> None:
        try:
            os.sched_setaffinity(thread, cores)
        except OSError as error:  # as when the container's cores have changed meanwhile
            self._refused = True
            logger.warning("a thread stays on core %d: %s", self._core, error)

    def _hold_mine(self) -> set[int]:
        """Where this thread may run but for this; empty: it is not held."""
        if self._refused:
            return set()
        try:
            if self._others and time.monotonic() - self._since > ANEW_S:
                self.release()
            if not self._others:
                self._hold_others()
            if not self._others:
                return set()
            cores = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {self._core})
            return cores
        except OSError as error:
            self._refused = True
            logger.info("threads are not kept on one core: %s", error)
            return set()

    def _hold_others(self) -> None:
        self._core, self._since = _core_of(threading.get_native_id()), time.monotonic()
        for thread in _named(self._name):
            cores = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, {self._core})
            self._others[thread] = cores


def _named(name: str) -> list[int]:
    found = []
    for task in _TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
    return found


def _core_of(thread: int) -> int:
    fields = (_TASKS / str(thread) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_CORE])
