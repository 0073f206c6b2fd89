"""A running agent and an ApplicationMaster for it, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import skein.model
import waiting
from fake_am import LIMIT_S

from yarnps.am.clusters import _processes as processes


class Pair:
    """The application's certificate and key."""

    def __init__(self) -> None:
        security: Any = skein.model.Security  # untyped
        with warnings.catch_warnings():  # it asks for the time in an outdated way
            warnings.simplefilter("ignore", DeprecationWarning)
            made = security.new_credentials()
        self.certificate: bytes = made.cert_bytes
        self.key: bytes = made.key_bytes


class AgentProcess:
    """`python -m yarnps.agent` in a container's folder."""

    def __init__(self, folder: Path, am: str, pair: Pair, **env: str) -> None:
        self.folder = folder
        (folder / ".skein.crt").write_bytes(pair.certificate)
        (folder / ".skein.pem").write_bytes(pair.key)
        self.log = folder / "agent.log"
        full_env = {
            **os.environ,
            "YARNPS_AM": am,
            "YARNPS_APPLICATION": "application_1_0001",
            "YARNPS_CONTAINER": "worker_3",
            "YARNPS_NONCE": "n0nce",
            "YARNPS_ROLE": "worker",
            "YARNPS_RANK": "2",
            "YARNPS_NODE": "node-7",
            "LOG_DIRS": str(folder),
            processes.MARK: str(folder),
            **env,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "yarnps.agent"],
                cwd=folder,
                env=full_env,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def leftovers(self) -> list[int]:
        """Processes of this container, apart from the agent."""
        return [pid for pid in processes.marked(str(self.folder)) if pid != self.process.pid]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
        for pid in self.leftovers():
            os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait for something that nothing announces."""
    waiting.until(condition, "the condition", limit_s, poll_s=0.005)
