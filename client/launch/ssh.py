"""`--launcher ssh`: processes on the hosts of a file, reached by the `ssh` of this machine."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from yarnps._errors import ClusterError, InputError
from yarnps.client.launch.places import (
    WRAPPER,
    Ended,
    Hear,
    Piped,
    PipedPlace,
    line_of,
    script,
    watch,
)
from yarnps.client.launch.plan import Task
from yarnps.pslite.wire import Seat

# A question (a password, an unknown host) would wait for ever behind the output of the others.
# A host that is met for the first time is accepted, one whose key has changed is not; and a host
# that vanishes is noticed within a minute.
SSH: Final = (
    "ssh",
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=accept-new",
    "-o",
    "ConnectTimeout=30",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
)
# sshd refuses connections at random while ten others are not past its key exchange (MaxStartups);
# some of the ten may be other people's.
ENTER_AT_ONCE: Final = 5
# The first line of a host that has let a process in.
ENTERED: Final = "#yarnps: entered"
SYNC_LIMIT_S: Final = 3600.0

# The variables of the launcher that travel to the hosts, if they are set; `--env` adds others.
PASSED_ON: Final = (
    "OMP_NUM_THREADS",
    "KMP_AFFINITY",
    "LD_LIBRARY_PATH",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "DMLC_INTERFACE",
)

# sshd's own word for the address by which this host was reached.
NODE_HOST: Final = (
    "set -- $SSH_CONNECTION; case $3 in *:*) DMLC_NODE_HOST= ;; *) DMLC_NODE_HOST=$3 ;; esac"
)


class Host(NamedTuple):
    """A line of the host file: `[user@]host[:port]`."""

    name: str
    port: int | None

    @property
    def bare(self) -> str:
        """The host without the user."""
        return self.name.rpartition("@")[2]

    def argv(self, command: str) -> list[str]:
        """What runs a command there."""
        port = [] if self.port is None else ["-p", str(self.port)]
        return [*SSH, *port, self.name, command]


def read_hosts(path: str) -> list[Host]:
    """The hosts of a file, one a line; `#` begins a comment, and words after the host are skipped.

    Raises
    ------
    InputError
        The file cannot be read, or has no host.
    """
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise InputError(
            f"the host file cannot be read: {path}: {error.strerror}", "Correct --host-file."
        ) from error
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        match = re.fullmatch(r"([^:]+)(?::(\d+))?", words[0])
        if match is None:
            raise InputError(
                f"{path}:{number}: not a host: {words[0]}", "Write host, or host:port for sshd's."
            )
        hosts.append(Host(match[1], int(match[2]) if match[2] else None))
    if not hosts:
        raise InputError(f"the host file names no host: {path}", "Write one host a line.")
    return hosts


class SshPlace(PipedPlace):
    """Processes on hosts, dealt out in the file's order.

    Parameters
    ----------
    sync_to
        Folder on the hosts that gets a copy of this one, and in which the processes run then.
        Empty: they run in a folder of this one's name.
    """

    def __init__(
        self, hosts: Sequence[Host], environ: Mapping[str, str], sync_to: str = ""
    ) -> None:
        super().__init__()
        self._hosts = hosts
        self._passed = {name: environ[name] for name in PASSED_ON if name in environ}
        self._sync_to = sync_to
        self._where: dict[Seat, Host] = {}
        self._ended = False

    @property
    def first_host(self) -> str:  # type: ignore[override]
        return self._hosts[0].bare

    def argv(self, task: Task) -> Sequence[str]:
        command = f"echo {shlex.quote(ENTERED)}; exec sh -c {shlex.quote(WRAPPER)}"
        return self._where[task.seat].argv(command)

    def lines(self, task: Task) -> list[str]:
        passed = Task(task.seat, task.command, {**self._passed, **task.env})
        return script(passed, folder=self._sync_to or os.getcwd(), node_host=NODE_HOST)

    async def start(self, tasks: Sequence[Task], hear: Hear) -> None:
        if shutil.which("ssh") is None:
            raise ClusterError("there is no `ssh` on PATH", "Install an OpenSSH client.")
        used = self._hosts[: len(tasks)]
        for i, task in enumerate(tasks):
            self._where[task.seat] = self._hosts[i % len(self._hosts)]
        if self._sync_to:
            await asyncio.gather(*(self._sync(host) for host in dict.fromkeys(used)))
        doors = {host: asyncio.Semaphore(ENTER_AT_ONCE) for host in used}
        for task in tasks:
            door = doors[self._where[task.seat]]
            self._waits.append(watch(self._see_through(task, door, hear), hear))

    async def end(self) -> None:
        self._ended = True
        await super().end()

    async def _see_through(self, task: Task, door: asyncio.Semaphore, hear: Hear) -> None:
        """Start a task when its host is not busy with letting others in, and wait for its end."""
        await door.acquire()
        at_the_door = ExitStack()
        at_the_door.callback(door.release)
        pass_on = line_of(task.seat, hear)

        def on_line(is_error: bool, text: str) -> None:
            if text == ENTERED:
                at_the_door.close()
            else:
                pass_on(is_error, text)

        with at_the_door:
            if self._ended:
                return
            piped = await Piped.start(self.argv(task), self.lines(task), on_line)
            self._piped[task.seat] = piped
            if self._ended:
                piped.let_go()
            code = await piped.wait()
        hear(Ended(task.seat, code))

    async def _sync(self, host: Host) -> None:
        """Copy this folder to a host; what has not changed does not travel."""
        if shutil.which("rsync") is None:
            raise ClusterError(
                "there is no `rsync` on PATH, and --sync-dst-dir needs it",
                "Install rsync here and on the hosts, or leave --sync-dst-dir out.",
            )
        remote = host.argv("")[:-2]  # rsync adds host and command itself
        process = await asyncio.create_subprocess_exec(
            "rsync",
            "-az",
            f"--rsh={shlex.join(remote)}",
            f"{os.getcwd()}/",
            f"{host.name}:{self._sync_to}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), SYNC_LIMIT_S)
        except asyncio.TimeoutError:
            process.kill()
            out = f"not done within {SYNC_LIMIT_S:.0f} s".encode()
        if process.returncode != 0:
            raise ClusterError(
                f"this folder could not be copied to {host.name}:{self._sync_to}: "
                f"{out.decode(errors='replace').strip()}",
                "Try the rsync by hand; the host must have rsync, too.",
            )
