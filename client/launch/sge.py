"""`--launcher sge`: processes as the tasks of one array job of a Grid Engine.

The log folder has to be seen by this machine and by the nodes, as `qsub -cwd` needs it, too: the
tasks write there, and what they write is shown here.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from yarnps._errors import ClusterError
from yarnps.client.launch.marked import Marks
from yarnps.client.launch.options import Options
from yarnps.client.launch.places import (
    END_LIMIT_S,
    LOCAL_SHELL,
    NODE_HOST_BY_ROUTE,
    Broken,
    Hear,
    Line,
    Piped,
    end_all,
    watch,
)
from yarnps.client.launch.plan import Task
from yarnps.client.launch.ssh import PASSED_ON
from yarnps.pslite.wire import Seat

LOOK_S: Final = 0.3
# The parallel environment that the old launcher asked for.
PARALLEL: Final = "orte"
# A network file system may show a task's last line so much later than `qsub` tells its end.
LATE_S: Final = 5.0

_SUBMITTED: Final = re.compile(r"Your job(?:-array)? (\d+)")
_EXITED: Final = re.compile(r"Job \d+\.(\d+) exited with exit code (\d+)\.")


class SgePlace:
    """The tasks of one array job."""

    first_host = ""

    def __init__(self, options: Options, environ: Mapping[str, str]) -> None:
        self.name = re.sub(r"[^\w.-]", "_", options.name)
        self.logs = Path(options.sge_log_dir or f"{self.name}.log").absolute()
        self._stem = f"{self.name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._queue = options.queue
        self._slots = max(options.worker.cores, options.server.cores)
        self._passed = {name: environ[name] for name in PASSED_ON if name in environ}
        self._marks = Marks()
        self._tails: dict[Seat, _Tail] = {}
        self._qsub: Piped | None = None
        self._job = ""
        self._codes: dict[int, int] = {}  # of tasks, counted from 1, by qsub's word
        self._words: list[str] = []
        self._waits: list[asyncio.Task[None]] = []

    async def start(self, tasks: Sequence[Task], hear: Hear) -> None:
        if shutil.which("qsub") is None:
            raise ClusterError("there is no `qsub` on PATH", "Install the Grid Engine's client.")
        self.logs.mkdir(parents=True, exist_ok=True)
        path = self.logs / f"{self._stem}.sh"
        path.touch(mode=0o600)
        path.write_text(self.script(tasks))
        for number, task in enumerate(tasks, 1):
            self._tails[task.seat] = _Tail(self.logs / f"{self._stem}.{number}.log")
        command = f"exec {shlex.join(self.command(path, len(tasks)))}"
        self._qsub = await Piped.start(
            LOCAL_SHELL, [command], lambda _, text: self._qsub_said(text, hear)
        )
        self._waits.append(watch(self._wait(tasks, hear), hear))

    def command(self, path: Path, count: int) -> list[str]:
        """The words of the `qsub` that runs `path` as so many tasks, and waits for them."""
        # Without `stdbuf`, the job's number would come with the job's end.
        words = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
        words += ["qsub", "-sync", "y", "-cwd", "-S", "/bin/sh", "-t", f"1-{count}"]
        output = self.logs / f"{self._stem}.$TASK_ID.log"
        words += ["-N", self.name, "-o", str(output), "-j", "y", "-r", "n"]
        if self._queue:
            words += ["-q", self._queue]
        if self._slots > 1:
            words += ["-pe", PARALLEL, str(self._slots)]
        return [*words, str(path)]

    def script(self, tasks: Sequence[Task]) -> str:
        """The shell script of all tasks; the engine says to each which one it is."""
        lines = ["case $SGE_TASK_ID in"]
        for number, task in enumerate(tasks, 1):
            passed = Task(task.seat, task.command, {**self._passed, **task.env})
            body = self._marks.lines(passed, NODE_HOST_BY_ROUTE)
            lines += [f"{number})", *body, ";;"]
        return "\n".join([*lines, "esac", ""])

    def _qsub_said(self, text: str, hear: Hear) -> None:
        if match := _SUBMITTED.match(text):
            self._job = match[1]
        elif match := _EXITED.match(text):
            self._codes[int(match[1])] = int(match[2])
            return
        self._words = [*self._words, text][-5:]
        hear(Line(None, True, text))

    async def _wait(self, tasks: Sequence[Task], hear: Hear) -> None:
        """Show what the tasks write, until `qsub` says that all have ended."""
        assert self._qsub is not None
        qsub = asyncio.ensure_future(self._qsub.wait())
        while not qsub.done():
            self._read(hear)
            await asyncio.wait([qsub], timeout=LOOK_S)
        loop = asyncio.get_running_loop()
        late = loop.time() + LATE_S
        while self._job and self._marks.left(tasks) and loop.time() < late:
            self._read(hear)
            await asyncio.sleep(LOOK_S)
        for number, task in enumerate(tasks, 1):
            if number in self._codes:
                self._marks.ended(task.seat, self._codes[number], hear)
        if left := self._marks.left(tasks):
            said = " ".join(self._words)
            hear(Broken(f"qsub ended with status {qsub.result()}, before {left[0]} had: {said}"))

    def _read(self, hear: Hear) -> None:
        for seat, tail in self._tails.items():
            for text in tail.lines():
                self._marks.pass_on(seat, text, hear)

    async def end(self) -> None:
        if self._qsub is None:
            return
        if self._job and not all(wait.done() for wait in self._waits):
            await self._delete()
        await end_all([self._qsub], self._waits)

    async def _delete(self) -> None:
        process = await asyncio.create_subprocess_exec(
            "qdel",
            self._job,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await asyncio.wait_for(process.wait(), END_LIMIT_S)
        except asyncio.TimeoutError:
            process.kill()


class _Tail:
    """The whole lines that a file has got since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return []  # the task has not started, or a network file system is late
        whole = data.rfind(b"\n") + 1
        self._at += whole
        return data[:whole].decode(errors="replace").splitlines()
