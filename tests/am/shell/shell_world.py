"""A `Shell` around a cluster that a test makes good or bad."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from little_job import config

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask
from yarnps.am.clusters.base import ContainerInfo, FinalState
from yarnps.am.job import JobMachine
from yarnps.am.shell.loop import Shell
from yarnps.client.credentials import new_credentials
from yarnps.jobdir import JobDir
from yarnps.status import Outcome, Status

LIMIT_S = 20.0
PAIR = new_credentials()


async def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Until something holds, looking again as often as other tasks allow."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to hold"
        await asyncio.sleep(0.002)


class QuietCluster:
    """Takes every request and starts nothing; a test replaces what it wants to be otherwise."""

    name: Literal["yarn", "local"] = "local"
    application, attempt, user, queue = "app_1", 1, "ada", ""
    poll_s = 0.01

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released: list[str] = []
        self.infos: list[ContainerInfo] = []
        self.ended: FinalState | None = None

    async def open(self) -> None:
        """It is open."""

    async def request(
        self, role: str, env: Mapping[str, str], *, retry_memory: bool = False
    ) -> str:
        self.asked.append(role)
        return f"{role}_{len(self.asked)}"

    async def release(self, container: str) -> None:
        self.released.append(container)

    async def containers(self) -> list[ContainerInfo]:
        return list(self.infos)

    async def output(self, container: str) -> str:
        return ""

    async def nodes(self) -> dict[str, str]:
        return {"n1": "/rack", "n2": "/rack"}

    async def waiting_reason(self) -> str:
        return ""

    async def set_progress(self, fraction: float) -> None:
        """Nobody looks."""

    async def publish(self, key: str, value: str) -> None:
        """Nobody looks it up."""

    async def add_page(self, port: int, prefix: str) -> str:
        return f"http://127.0.0.1:{port}/{prefix}/"

    async def finish(self, state: FinalState, diagnostics: str) -> None:
        self.ended = state

    async def close(self) -> None:
        """It is closed."""


class Life:
    """One process of the ApplicationMaster, in this one."""

    def __init__(self, folder: Path, cluster: QuietCluster | None = None, **block: Any) -> None:
        self.cluster = cluster or QuietCluster()
        self.config = config(folder, **block)
        self.job_dir = JobDir(self.config.job_dir)
        self.job_dir.create()
        am = folder / "am"
        am.mkdir(exist_ok=True)
        self.shell = Shell(self.config, self.cluster, self.job_dir, am, PAIR.certificate, PAIR.key)
        self._run: asyncio.Task[Outcome | None] | None = None

    async def begin(self) -> None:
        """As `yarnps.am.__main__` does."""
        self.shell.recall()
        await self.shell.listen()
        self._run = asyncio.create_task(self.shell.run())

    async def end(self) -> Outcome | None:
        """Until it has ended by itself."""
        assert self._run is not None
        return await asyncio.wait_for(self._run, LIMIT_S)

    async def die(self) -> None:
        """As a kill would have it, but that its port is free again."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)
        await self.shell.close()

    def status(self) -> Status:
        return self.shell.status()

    def logged(self, kind: str) -> list[str]:
        return [event.text for event in self.status().events if event.kind == kind]


class Journalled:
    """Writes the journal of a process that has died, and tells what that process had decided."""

    def __init__(self, folder: Path, began: float) -> None:
        self.machine = JobMachine(config(folder), began)
        (folder / "am").mkdir(exist_ok=True)
        self._file = folder / "am" / "journal.jsonl"
        self._file.touch()

    def take(self, event: i.Input, now: float) -> list[Action]:
        with open(self._file, "ab") as file:
            file.write(i.record(event, now) + b"\n")
        return self.machine.handle(event, now)

    def nonce(self, actions: list[Action], role: str) -> str:
        return next(a.nonce for a in actions if isinstance(a, Ask) and a.role == role)


class Ticks:
    """The supervisor's end of the pipe to which an ApplicationMaster ticks."""

    def __init__(self, monkeypatch: Any) -> None:
        self._fd, out = os.pipe()
        os.set_blocking(self._fd, False)
        monkeypatch.setenv("YARNPS_TICK_FD", str(out))

    def some(self) -> bool:
        """Whether it has ticked since it was asked last."""
        try:
            return bool(os.read(self._fd, 4096))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._fd)
