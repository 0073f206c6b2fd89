"""XGBoost's trackers: processes beside the ApplicationMaster that outlive its Python process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from yarnps.am import inputs as i
from yarnps.am.actions import Action, StartTracker, StopTracker
from yarnps.am.clusters import _processes as processes
from yarnps.rabit.tracker import NO_PACKAGE, read

logger = logging.getLogger(__name__)

LOOK_S = 0.5
# Importing XGBoost takes seconds, on a crowded machine many.
START_LIMIT_S = 120.0


class Trackers:
    """Starts and ends trackers, and tells the state machine of them.

    Parameters
    ----------
    folder
        They write here where they listen, in `tracker-<round>.jsonl`.
    """

    def __init__(self, feed: Callable[[i.Input], object], folder: Path) -> None:
        self._feed = feed
        self._folder = folder
        self._watched: dict[int, tuple[int, int]] = {}  # round -> pid, start
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def run(self, action: Action) -> bool:
        """Carry out an action; False: it is none of ours."""
        if isinstance(action, StartTracker):
            self._tasks[action.round] = asyncio.ensure_future(self._start(action))
        elif isinstance(action, StopTracker):
            self._stop(action.round)
        else:
            return False
        return True

    def adopt(self, tracker: i.TrackerUp) -> None:
        """Go on with one that an earlier process of the ApplicationMaster has started."""
        self._watched[tracker.round] = (tracker.pid, tracker.started)
        self._tasks[tracker.round] = asyncio.ensure_future(self._watch(tracker.round))

    def stop(self) -> None:
        """End all."""
        for number in list(self._watched):
            self._stop(number)
        for task in self._tasks.values():
            task.cancel()

    def _stop(self, number: int) -> None:
        pid, started = self._watched.pop(number, (0, 0))
        processes.signal_group(pid, started, signal.SIGKILL)
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def _file(self, number: int) -> Path:
        return self._folder / f"tracker-{number}.jsonl"

    async def _start(self, action: StartTracker) -> None:
        """Start one, and watch it; what keeps it from starting is its end."""
        try:
            process = await self._spawn(action)
        except OSError as error:
            text = f"XGBoost's tracker cannot be started: {error}"
            self._feed(i.TrackerDown(action.round, text))
            return
        self._watched[action.round] = (process.pid, processes.start_ticks(process.pid))
        if await self._listens(action.round, process):
            await self._watch(action.round)

    async def _spawn(self, action: StartTracker) -> asyncio.subprocess.Process:
        words = ["--workers", str(action.workers), "--host", action.host]
        # Its owner is the process that keeps the ApplicationMaster up.
        words += ["--timeout", str(action.limit_s), "--owner", str(os.getppid())]
        path = self._file(action.round)
        path.unlink(missing_ok=True)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-u",  # what it is told to print is to be seen at once
            "-m",
            "yarnps.rabit.tracker",
            *words,
            "--say",
            str(path),
            stdin=asyncio.subprocess.DEVNULL,  # output: with the ApplicationMaster's
            start_new_session=True,
        )

    async def _listens(self, number: int, process: asyncio.subprocess.Process) -> bool:
        """Wait until one listens; False: it has ended, or taken too long."""
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            said = read(self._file(number))
            if "port" in said:
                self._feed(i.TrackerUp(number, said["port"], *self._watched[number]))
                return True
            if process.returncode is not None:
                self._ended(number, no_package=process.returncode == NO_PACKAGE)
                return False
            await asyncio.sleep(LOOK_S / 5)
        text = f"XGBoost's tracker did not start within {START_LIMIT_S:.0f} s"
        self._feed(i.TrackerDown(number, text))
        self._stop(number)
        return False

    async def _watch(self, number: int) -> None:
        pid, started = self._watched[number]
        while processes.alive(pid, started):
            await asyncio.sleep(LOOK_S)
        self._ended(number)

    def _ended(self, number: int, *, no_package: bool = False) -> None:
        said = read(self._file(number))
        error = "" if said.get("ended") else said.get("error") or "it was ended from outside"
        self._watched.pop(number, None)
        self._feed(i.TrackerDown(number, error, no_package))
