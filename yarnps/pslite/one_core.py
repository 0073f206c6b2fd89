"""Threads on one core for a while, when each waits for what the other does.

A message comes in by ZeroMQ's thread, which wakes up ours, and goes out the other way round. To
wake up a thread on another core takes longer than either has to do, above all on a virtual machine.
While messages come all the time, both therefore stay on the core on which ours has been.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

# They have to be busy with each other for so long before they are kept together …
KEEP_AFTER_S = 0.002
# … and idle for so long before they are free again.
FREE_AFTER_S = 0.01
# After so long they are free for KEEP_AFTER_S: others may have come to their core.
ANEW_S = 1.0

_TASKS = Path("/proc/self/task")
# Of the fields behind a thread's name in its `stat`: the core that it runs on, or did last.
_CORE = 36


class OneCore:
    """Keeps the caller's thread and others together.

    What a thread starts stays where it stays itself. So this is for threads that, while they are
    busy, start nothing.

    Parameters
    ----------
    name
        That the others bear; of this process.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept: dict[int, set[int]] = {}  # threads, and where they may else run
        self._since = 0.0  # since when they have been busy, or kept
        self._busy = 0.0  # when they were, at last
        self._refused = False

    @property
    def kept(self) -> bool:
        """Whether they are together, so that somebody has to look whether they are idle."""
        return bool(self._kept)

    def busy(self) -> None:
        """They are, with each other."""
        now = time.monotonic()
        if now - self._busy > FREE_AFTER_S:
            self._since = now
        self._busy = now
        if self._kept and now - self._since > ANEW_S:
            self._free()
            self._since = now
        elif not self._kept and now - self._since > KEEP_AFTER_S and not self._refused:
            self._keep()
            self._since = now

    def idle(self) -> None:
        """They have nothing to do for now; in the end they may run where they could before."""
        if time.monotonic() - self._busy >= FREE_AFTER_S:
            self._free()

    def _free(self) -> None:
        kept, self._kept = self._kept, {}
        for thread, cores in kept.items():
            try:
                os.sched_setaffinity(thread, cores)
            except ProcessLookupError:
                continue  # it has ended
            except OSError as error:  # as when the container's cores have changed meanwhile
                self._refused = True
                logger.warning("a thread stays on one core: %s", error)

    def _keep(self) -> None:
        """Where that is not possible, everything goes on without."""
        mine = threading.get_native_id()
        try:
            others = _named(self._name)
            if not others:
                self._refused = True  # alone there is nothing to gain
                return
            core = _core_of(mine)
            for thread in [mine, *others]:
                cores = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, {core})
                self._kept[thread] = cores
        except OSError as error:
            self._refused = True
            logger.info("threads are not kept on one core: %s", error)
            self._free()


def _named(name: str) -> list[int]:
    found = []
    for task in _TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            if (task / "comm").read_bytes().strip() == name.encode():
                found.append(int(task.name))
    return found


def _core_of(thread: int) -> int:
    fields = (_TASKS / str(thread) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_CORE])
