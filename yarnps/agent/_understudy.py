"""A role process before it has its part: forked from the agent while that had one thread.

It has imported all that such a process needs, and waits. With its part it gets the environment,
output and channel that a new process would have been started with. An agent of the local cluster
has one; it takes the first part that suits it.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnps.agent._appearance import Room
from yarnps.agent._sameness import follow_malloc, missed
from yarnps.protocol.channel import CHANNEL_FD

# A part is one message; what is longer is refused by the socket, and an own process is started.
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Imported:
    """What the process that all understudies descend from has imported, and under what.

    Attributes
    ----------
    programs
        The modules that may be run as programs.
    env
        The environment that the imports have seen.
    room
        Where its command and environment are in memory.
    """

    programs: frozenset[str]
    env: Mapping[str, str]
    room: Room

    def suits(self, command: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a fork would do what a new process with this command and environment does."""
        interpreter, program = list(command[:2]), list(command[2:3])
        if interpreter != [sys.executable, "-m"] or not self.programs.intersection(program):
            return False
        # The channel's number is added by the fork.
        return self.room.holds(command, {**env, CHANNEL_FD: "000"}) and not missed(self.env, env)


class Waiting:
    """The understudy's own side: waits for a part, then plays it."""

    def __init__(self, sock: socket.socket, room: Room) -> None:
        self._socket = sock
        self._room = room

    def play(self) -> None:
        """Run the program as a new process would: ends by SystemExit, or what it raises."""
        os.setsid()
        self._room.take_on(["understudy"], dict(os.environ))  # not the agent's
        data, fds, _, _ = socket.recv_fds(self._socket, _PART_BYTES, 2)
        self._socket.close()
        if not data:  # the agent needs none any more
            raise SystemExit(0)
        part = json.loads(data)
        command, env, folder = part["command"], part["env"], part["folder"]
        channel, output = fds
        for number in (1, 2):
            os.dup2(output, number)
        os.close(output)
        env[CHANNEL_FD] = str(channel)
        self._room.take_on(command, env)
        settle(folder)
        follow_malloc(env)
        if numpy := sys.modules.get("numpy"):  # all forks would draw the same numbers
            numpy.random.seed()
        sys.argv[1:] = command[3:]
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)


def settle(folder: str) -> None:
    """Go to a folder; modules are found there as they are by a program that starts in it."""
    before = os.getcwd()
    os.chdir(folder)
    if sys.path[:1] == [before]:
        sys.path[0] = os.getcwd()


class Understudy:
    """The agent's side: a child that waits for its part.

    Behaves like `subprocess.Popen` once it has one.
    """

    def __init__(self, pid: int, sock: socket.socket, imported: Imported) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._socket = sock
        self._imported = imported

    @classmethod
    def fork(cls, imported: Imported) -> Understudy | Waiting:
        """Fork this process, which has one thread. In the child the answer is a `Waiting`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            return Waiting(theirs, imported.room)
        theirs.close()
        return cls(pid, ours, imported)

    def take(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        output: int,
        channel: int,
    ) -> bool:
        """Give it a part; False: it does not suit, and this understudy has ended."""
        if self._imported.suits(command, env):
            part = {"command": list(command), "env": dict(env), "folder": str(folder)}
            with contextlib.suppress(OSError):  # it was killed, or the part is too long
                socket.send_fds(self._socket, [json.dumps(part).encode()], [channel, output])
                self._socket.close()
                return True
        self.dismiss()
        return False

    def dismiss(self) -> None:
        """End it: it will not be needed."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Its exit status (negative: a signal), once it has ended."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
