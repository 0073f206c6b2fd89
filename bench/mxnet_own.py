"""Programs of ps-lite under their own scheduler, as `launch.py` starts them: to compare with."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence

HOST = "127.0.0.1"
SCHEDULER = ("-c", "import mxnet")  # which runs the scheduler, and ends with it


def run_with_own_scheduler(
    command: Sequence[str],
    *,
    workers: int,
    servers: int,
    limit_s: float,
    env: Mapping[str, str] | None = None,
    scheduler: Sequence[str] | None = None,
) -> None:
    """Run all roles of a job on this machine to their end.

    Parameters
    ----------
    command
        The program; its first word is an interpreter that has MXNet.
    scheduler
        Another one that takes the place of theirs.

    Raises
    ------
    RuntimeError
        One of them failed, or they took longer than the limit.
    """
    shared = {
        **os.environ,
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_PS_ROOT_URI": HOST,
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NODE_HOST": HOST,
        "OMP_NUM_THREADS": "1",
        **(env or {}),
    }
    roles = ["scheduler", *["server"] * servers, *["worker"] * workers]
    started = []
    for role in roles:
        words = list(command)
        if role == "scheduler":
            words = list(scheduler or [command[0], *SCHEDULER])
        # In sessions of their own, as agents start them: Linux may share out its cores by sessions.
        own = {**shared, "DMLC_ROLE": role}
        started.append(subprocess.Popen(words, env=own, start_new_session=True))
    deadline = time.monotonic() + limit_s
    try:
        for role, process in zip(roles, started, strict=True):
            code = process.wait(max(0.1, deadline - time.monotonic()))
            if code:
                raise RuntimeError(f"a {role} of {command} ended with status {code}")
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not at its end within {limit_s:.0f} s: {command}") from None
    finally:
        for process in started:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
