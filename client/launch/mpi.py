"""`--launcher mpi`: processes where `mpirun` puts them.

One `mpirun` starts all of them, each as a program of its own with one process, so that hosts, slots
and the limits of a batch system are its business alone. Their output, errors included, comes as
one stream.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import Sequence
from typing import Final

from yarnps._errors import ClusterError, InputError
from yarnps.client.launch.marked import Marks
from yarnps.client.launch.places import (
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

VERSION_LIMIT_S: Final = 30.0
_WORDS_KEPT: Final = 12


class MpiPlace:
    """Processes of one `mpirun`.

    Parameters
    ----------
    host_file
        Handed to `mpirun`; empty: it goes by its own settings or the batch system's.
    first_host
        A host of that file.
    """

    def __init__(self, host_file: str, first_host: str) -> None:
        self.first_host = first_host
        self._host_file = host_file
        self._marks = Marks()
        self._mpirun: Piped | None = None
        self._waits: list[asyncio.Task[None]] = []
        self._words: list[str] = []

    async def start(self, tasks: Sequence[Task], hear: Hear) -> None:
        await _check_mpirun()

        def on_line(is_error: bool, text: str) -> None:
            numbered = self._marks.numbered(text)
            if numbered is None:
                self._words = [*self._words, text.strip()][-_WORDS_KEPT:]
                hear(Line(None, True, text))
            else:
                self._marks.pass_on(tasks[numbered[0]].seat, numbered[1], hear)

        command = f"exec {shlex.join(self.command(tasks))}"
        self._mpirun = await Piped.start(LOCAL_SHELL, [command], on_line)
        self._waits.append(watch(self._wait(tasks, hear), hear))

    def command(self, tasks: Sequence[Task]) -> list[str]:
        """The words of the `mpirun` that starts the tasks."""
        # Servers and workers have threads: mpirun would give each process one core.
        words = ["mpirun", "--stdin", "none", "--bind-to", "none"]
        hosts = ["--hostfile", self._host_file] if self._host_file else []
        for i, task in enumerate(tasks):
            text = "\n".join(self._marks.lines(task, NODE_HOST_BY_ROUTE, i))
            words += [*([":"] if i else []), *hosts, "-n", "1", "sh", "-c", text]
        return words

    async def _wait(self, tasks: Sequence[Task], hear: Hear) -> None:
        assert self._mpirun is not None
        code = await self._mpirun.wait()
        left = self._marks.left(tasks)
        if left:
            said = " ".join(word for word in self._words if word.strip("-"))
            hear(Broken(f"mpirun ended with status {code}, before {left[0]} had: {said}"))

    async def end(self) -> None:
        if self._mpirun is not None:
            await end_all([self._mpirun], self._waits)


async def _check_mpirun() -> None:
    """Raise where there is no Open MPI: others show their output and take programs differently."""
    if shutil.which("mpirun") is None:
        raise ClusterError("there is no `mpirun` on PATH", "Install Open MPI.")
    process = await asyncio.create_subprocess_exec(
        "mpirun",
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), VERSION_LIMIT_S)
    except asyncio.TimeoutError:
        process.kill()
        raise ClusterError(
            f"`mpirun --version` did not answer within {VERSION_LIMIT_S:.0f} s",
            "Try it by hand.",
        ) from None
    version = out.decode(errors="replace").strip()
    if "Open MPI" not in version and "OpenRTE" not in version:
        first = version.splitlines()[0] if version else "nothing"
        raise InputError(f"`mpirun` is not Open MPI's: it says {first}", "Put Open MPI's on PATH.")
