"""XGBoost's tracker beside the launcher: for launches without servers, as `dmlc-submit` had it."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from yarnps._errors import InputError, YarnpsError
from yarnps.client import exits
from yarnps.client.launch.meeting import Meeting, names
from yarnps.client.launch.plan import Task, environment_of, seats
from yarnps.pslite.wire import Seat
from yarnps.rabit import contract
from yarnps.rabit.tracker import NO_PACKAGE, read

START_LIMIT_S: Final = 120.0
LOOK_S: Final = 0.1
# A tracker gives up because of a worker's death, mostly: that is the better reason, and on its way.
GIVEN_UP_S: Final = 10.0


class Rabit(Meeting):
    """See the module's text."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._folder = tempfile.TemporaryDirectory(prefix="yarnps-rabit-")
        self._file = Path(self._folder.name) / "said"
        self._tracker: asyncio.subprocess.Process | None = None
        self._host, self._port = "", 0
        self._given_up: float | None = None
        self._left: Sequence[Seat] = seats(self.options)

    async def open(self, host: str) -> None:
        """Start the tracker.

        Raises
        ------
        InputError
            XGBoost is not there, or too old.
        YarnpsError
            The tracker did not start.
        """
        self._host = host
        words = ["--workers", str(self.options.worker.count), "--host", host]
        words += ["--timeout", str(self.limits.start_s), "--owner", str(os.getpid())]
        self._tracker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-u",
            "-m",
            "yarnps.rabit.tracker",
            *words,
            "--say",
            str(self._file),
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        loop = asyncio.get_running_loop()
        limit = loop.time() + START_LIMIT_S
        while "port" not in (said := read(self._file)):
            if self._tracker.returncode == NO_PACKAGE:
                raise InputError(said["error"], "Install it beside yarnps: pip install xgboost-cpu")
            if self._tracker.returncode is not None or loop.time() > limit:
                text = said.get(
                    "error", f"XGBoost's tracker did not start in {START_LIMIT_S:.0f} s"
                )
                raise YarnpsError(text)
            await asyncio.sleep(LOOK_S)
        self._port = int(said["port"])

    def task(self, seat: Seat) -> Task:
        workers = self.options.worker.count
        env = contract.environment(
            seat.rank,
            workers,
            self._host,
            self._port,
            cluster=self.options.launcher,
            given=environment_of(self.options, seat, self.environ),
        )
        return Task(seat, self.options.shell_command, env)

    def ended_well(self, seat: Seat, left: Sequence[Seat]) -> None:
        self._left = left

    def look(self, now: float) -> None:
        if self._tracker is None or self._tracker.returncode in (None, 0):
            return
        self._given_up = self._given_up or now
        if now - self._given_up > GIVEN_UP_S:
            why = read(self._file).get("error", "it was ended from outside")
            text = f"XGBoost's tracker has given up, while {names(self._left)} had not ended: {why}"
            self.verdict.give(exits.FAILED, text)

    async def close(self) -> None:
        if self._tracker is not None:
            with suppress(ProcessLookupError):
                self._tracker.kill()
            await self._tracker.wait()
        self._folder.cleanup()
