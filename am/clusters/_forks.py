"""Asks a local job's fork server for containers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from yarnps.am.forks import SOCKET

# The first answer takes as long as the imports do; on a crowded machine that is seconds.
ANSWER_LIMIT_S = 20.0
_ANSWER_BYTES = 1 << 16

log = logging.getLogger(__name__)


class ForksLost(Exception):
    """There is no fork server any more; whether the container has been started is not known."""


class Forks:
    """Asks the fork server for containers, one after another."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self._socket = sock
        self.pid = pid
        sock.setblocking(False)

    @classmethod
    def from_environment(cls) -> Forks | None:
        """Of this process's supervisor, if it has one."""
        words = os.environ.pop(SOCKET, "").split()
        if not words:
            return None
        sock = socket.socket(fileno=int(words[0]))
        sock.set_inheritable(False)
        return cls(sock, int(words[1]))

    async def start(self, container: str, folder: Path, env: Mapping[str, str]) -> int | None:
        """Start a container; the pid of its leader, or None where it needs a new process.

        Raises
        ------
        ForksLost
            The fork server has ended or does not answer.
        """
        request = json.dumps([container, str(folder), dict(env)]).encode()
        try:
            self._socket.send(request)
            pid, error = await asyncio.wait_for(self._answer(container), ANSWER_LIMIT_S)
        except (OSError, EOFError, asyncio.TimeoutError) as e:
            self.close()
            raise ForksLost(f"the fork server does not answer: {e!r}") from e
        if error:
            log.info("%s is not forked: %s", container, error)
        return pid or None

    async def _answer(self, container: str) -> tuple[int, str]:
        """What it says about this container; an earlier ApplicationMaster's answers are passed."""
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._socket, _ANSWER_BYTES):
            about, pid, error = json.loads(data)
            if about == container:
                return pid, error
        raise EOFError("it has ended")

    def close(self) -> None:
        """Have no more to do with it. It is ended: it might still act upon what it was asked."""
        self._socket.close()
        # Its number is its own until the supervisor waits for it, at its own end.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
