"""Containers as processes of this machine, with pretend nodes and no Java.

A container is a folder ``containers/<id>`` with the agent's output, and a shell (the leader of a
session of its own) that runs the agent and writes down its exit status. So the containers survive
the death of the ApplicationMaster, and the next process finds them again, and how they ended. The
processes are forked by `yarnps.agent.forkserver` where that makes no difference but to the time.
Memory limits are not enforced.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from yarnps._errors import ClusterError
from yarnps.am.clusters import _folders as folders
from yarnps.am.clusters import _processes as processes
from yarnps.am.clusters._folders import LocalRole
from yarnps.am.clusters._forks import Forks, ForksLost
from yarnps.am.clusters.base import RETRY_SUFFIX, ContainerInfo, FinalState

log = logging.getLogger(__name__)

# After SIGTERM an agent has this long to end its role; YARN itself gives 0.25 s.
GRACE_S = 3.0
# Role processes see the end of their agent at once; what is left after this is killed.
LEFTOVER_S = 1.0
WATCH_S = 0.05
# A process that hangs in the system (a file server that is away) cannot even be killed.
END_LIMIT_S = 30.0

RECORD = "container.json"


@dataclass(frozen=True)
class _Record:
    """What is kept on disk about a container, to be found by the next ApplicationMaster."""

    id: str
    role: str
    node: str
    pid: int
    pid_started: int  # clock ticks since boot: tells a pid that is used again
    started: float
    released: bool = False


class LocalCluster:
    """The local back end.

    Parameters
    ----------
    folder
        The job's folder on this machine; containers live in ``<folder>/containers``.
    application
        Id of the application.
    roles
        Environment and files of each role.
    nodes
        How many pretend nodes (``local-1`` …) the containers are spread over.
    certificate
        Folder that holds the application's ``.skein.crt`` and ``.skein.pem``.
    command
        What runs in a container.
    forks
        Starts containers of the default command in less time, where it can.
    """

    name: Literal["yarn", "local"] = "local"
    attempt = 1
    queue = ""
    poll_s = 0.1

    def __init__(
        self,
        folder: Path,
        application: str,
        *,
        roles: Mapping[str, LocalRole] | None = None,
        nodes: int = 2,
        certificate: Path = Path("."),
        command: Sequence[str] = (sys.executable, "-m", "yarnps.agent"),
        forks: Forks | None = None,
    ) -> None:
        self.application = application
        self.user = getpass.getuser()
        self._folder = folder.absolute()
        self._roles = dict(roles or {})
        self._nodes = [f"local-{i + 1}" for i in range(nodes)]
        self._certificate = certificate.absolute()
        self._command = list(command)
        self._forks = forks
        self._starting = asyncio.Lock()
        self._ending = False
        self._records: dict[str, _Record] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, ContainerInfo] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        self._containers.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._containers.glob(f"*/{RECORD}")):
            record = _Record(**json.loads(path.read_text()))
            self._records[record.id] = record

    @property
    def _containers(self) -> Path:
        return self._folder / "containers"

    def folder_of(self, container: str) -> Path:
        """The folder of a container: working directory of its agent, and its logs."""
        return self._containers / container

    # ------------------------------------------------------------------ starting

    async def request(
        self, role: str, env: Mapping[str, str], *, retry_memory: bool = False
    ) -> str:
        service = role + RETRY_SUFFIX if retry_memory else role
        start = asyncio.ensure_future(self._start(service, role, env))
        self._watch(start)
        # Whoever asks may be told to stop meanwhile: the container is on record all the same.
        return await asyncio.shield(start)

    async def _start(self, service: str, role: str, env: Mapping[str, str]) -> str:
        async with self._starting:
            if self._ending:
                raise ClusterError(f"no container for a {role}: the application is ending")
            return await self._start_now(service, role, env)

    async def _start_now(self, service: str, role: str, env: Mapping[str, str]) -> str:
        number = sum(1 for r in self._records if r.rpartition("_")[0] == service)
        container = f"{service}_{number}"
        folder = self.folder_of(container)
        node = self._emptiest_node()
        try:
            folder.mkdir(parents=True)
            folders.furnish(folder, self._roles.get(role, LocalRole()), self._certificate)
            pid = await self._launch(
                container, folder, self._environment(container, role, node, env)
            )
        except (OSError, shutil.ReadError) as e:
            raise ClusterError(
                f"a local container could not be started: {container}: {e}",
                f"Look at {folder} and at this machine's limits (disk, processes).",
            ) from e
        record = _Record(
            id=container,
            role=role,
            node=node,
            pid=pid,
            pid_started=processes.start_ticks(pid),
            started=time.time(),
        )
        self._keep(record)
        return container

    def _emptiest_node(self) -> str:
        alive = [r.node for r in self._records.values() if r.id not in self._ended]
        return min(self._nodes, key=lambda node: (alive.count(node), node))

    def _environment(
        self, container: str, role: str, node: str, env: Mapping[str, str]
    ) -> dict[str, str]:
        folder = str(self.folder_of(container))
        return {
            **os.environ,
            "PWD": folder,
            **self._roles.get(role, LocalRole()).env,
            **env,
            "YARNPS_APPLICATION": self.application,
            "YARNPS_CONTAINER": container,
            "YARNPS_NODE": node,
            "YARNPS_LOOKUP": f"file:{self._folder / 'published'}",
            processes.MARK: folder,
            "LOG_DIRS": folder,
        }

    async def _launch(self, container: str, folder: Path, env: Mapping[str, str]) -> int:
        """Start the container's leader; its pid."""
        if self._forks is not None:
            try:
                if pid := await self._forks.start(container, folder, env):
                    return pid
            except ForksLost as e:
                log.warning("%s: processes are started one by one from now on", e)
                self._forks = None
                _kill(processes.marked(str(folder)))
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            child = subprocess.Popen(
                ["/bin/sh", "-c", folders.SHELL, "container", *self._command],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._children[container] = child
        return child.pid

    def _keep(self, record: _Record) -> None:
        self._records[record.id] = record
        path = self.folder_of(record.id) / RECORD
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(record)))
        new.rename(path)

    # ------------------------------------------------------------------ watching

    async def containers(self) -> list[ContainerInfo]:
        return [self._look(record) for record in self._records.values()]

    def _look(self, record: _Record) -> ContainerInfo:
        if record.id in self._ended:
            return self._ended[record.id]
        folder = self.folder_of(record.id)
        info = ContainerInfo(
            id=record.id,
            role=record.role,
            state="running",
            node=record.node,
            yarn_id=record.id,
            started=record.started,
            log_url=folder.as_uri(),
        )
        child = self._children.get(record.id)
        if child is not None:
            child.poll()  # else it stays a zombie
        if processes.alive(record.pid, record.pid_started):
            return info
        message = folders.exit_message(folder, released=record.released)
        info = replace(info, state="ended", ended=time.time(), exit_message=message)
        self._ended[record.id] = info
        self._in_background(self._sweep(record.id))
        return info

    async def output(self, container: str) -> str:
        folder = self.folder_of(container)
        return "".join(folders.tail(folder / name) for name in ("stdout", "stderr"))

    # ------------------------------------------------------------------ ending

    async def release(self, container: str) -> None:
        record = self._records.get(container)
        if record is None:
            raise ClusterError(f"no such container: {container}")
        if record.released or self._look(record).state == "ended":
            return
        record = replace(record, released=True)
        self._keep(record)
        processes.signal_group(record.pid, record.pid_started, signal.SIGTERM)
        self._in_background(self._end(record))

    async def _end(self, record: _Record) -> None:
        """Wait for a container that was asked to end, then make it end."""
        deadline = time.monotonic() + GRACE_S
        while self._look(record).state != "ended":
            if time.monotonic() > deadline:
                log.warning("container %s did not end on SIGTERM: killing it", record.id)
                processes.signal_group(record.pid, record.pid_started, signal.SIGKILL)
                deadline = float("inf")
            await asyncio.sleep(WATCH_S)

    async def _sweep(self, container: str) -> None:
        """See to it that nothing of an ended container is left."""
        folder = str(self.folder_of(container))
        deadline = time.monotonic() + LEFTOVER_S
        while left := await asyncio.to_thread(processes.marked, folder):
            if time.monotonic() > deadline:
                log.warning("killing what container %s left behind: %s", container, left)
                _kill(left)
                deadline = time.monotonic() + LEFTOVER_S
            await asyncio.sleep(WATCH_S)

    async def finish(self, state: FinalState, diagnostics: str) -> None:
        log.info("the application ends: %s %s", state, diagnostics)
        self._ending = True
        async with self._starting:  # the one that is being started is on record then
            for record in list(self._records.values()):
                await self.release(record.id)
        await self._background_done()

    async def _background_done(self) -> None:
        deadline = time.monotonic() + END_LIMIT_S
        while self._tasks and time.monotonic() < deadline:
            await asyncio.wait(self._tasks, timeout=WATCH_S)
            await asyncio.sleep(0)  # the tasks' own done callbacks
        if self._tasks:
            left = [r.id for r in self._records.values() if self._look(r).state != "ended"]
            log.error("not ended within %.0f s, and left alone: %s", END_LIMIT_S, left)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._forks is not None:
            self._forks.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._watch(asyncio.ensure_future(work))

    def _watch(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ the rest

    async def nodes(self) -> dict[str, str]:
        return dict.fromkeys(self._nodes, "/local")

    async def waiting_reason(self) -> str:
        return ""

    async def set_progress(self, fraction: float) -> None:
        pass

    async def publish(self, key: str, value: str) -> None:
        folder = self._folder / "published"
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f".{key}"
        new.write_text(value)
        new.rename(folder / key)

    async def add_page(self, port: int, prefix: str) -> str:
        return f"http://127.0.0.1:{port}/{prefix}/"


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
