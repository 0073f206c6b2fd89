"""The fork server of a local job. The supervisor starts it, and it imports while the
ApplicationMaster does.

Standard library only, as the supervisor is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# For the ApplicationMaster: descriptor of the socket, and the fork server's pid.
SOCKET = "YARNPS_FORKS_SOCKET"

LOG_FILE = "forkserver.log"


@contextlib.contextmanager
def serving(packages: Sequence[str], folder: Path) -> Iterator[int]:
    """A fork server that runs as long as the context does: the descriptor of our socket to it.

    It is named in the environment, and to be inherited by who asks for forks.
    """
    from yarnps.agent._appearance import ROOM, ROOM_BYTES

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, open(folder / LOG_FILE, "ab") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "yarnps.agent.forkserver", str(theirs.fileno()), *packages],
            env={**os.environ, ROOM: "x" * ROOM_BYTES},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        os.environ[SOCKET] = f"{ours.fileno()} {server.pid}"
        try:
            yield ours.fileno()
        finally:
            server.kill()
            server.wait()
