"""Finds the processes of one application on this machine, and does them harm: for drills and tests.

Processes are told by their environment, so that this works alike for the local cluster and for
containers of a sandbox.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OF_THE_JOB = {
    "yarnps.am": "am",
    "yarnps.am.supervisor": "supervisor",
    "yarnps.agent.forkserver": "forkserver",
}
_OURS = ("YARNPS_APPLICATION", "SKEIN_APPLICATION_ID")


@dataclass(frozen=True)
class Found:
    """A process of the application. `rank` is -1 for those of no container."""

    pid: int
    kind: str  # role, agent, am, supervisor, forkserver, other
    role: str = ""
    rank: int = -1
    container: str = ""
    node: str = ""


def of_application(application: str) -> list[Found]:
    """All processes of the application that are alive (zombies are not)."""
    return list(_search(application))


def find(application: str, kind: str, role: str = "", rank: int = -1) -> Found | None:
    """One process: ``find(app, "role", "worker", 0)``, ``find(app, "am")``."""
    for found in _search(application):
        if found.kind == kind and (not role or (found.role, found.rank) == (role, rank)):
            return found
    return None


def _search(application: str) -> Iterator[Found]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environ = _environ(folder)
            if application not in (environ.get(name) for name in _OURS):
                continue
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue  # it has ended meanwhile, or is another user's
        if state[0] != "Z":
            yield _described(int(folder.name), int(state[2]), command, environ)


def _environ(folder: Path) -> dict[str, str]:
    pairs = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _described(pid: int, group: int, command: list[str], environ: dict[str, str]) -> Found:
    role, rank = environ.get("YARNPS_ROLE", ""), int(environ.get("YARNPS_RANK", -1))
    container, node = environ.get("YARNPS_CONTAINER", ""), environ.get("YARNPS_NODE", "")
    python = "-m" in command and not command[0].endswith("sh")
    module = command[command.index("-m") + 1] if python else ""
    kind = "other"
    if module in _OF_THE_JOB:
        kind, role, rank = _OF_THE_JOB[module], "", -1
    elif module == "yarnps.agent":
        kind = "agent"
    elif "YARNPS_INCARNATION" in environ and pid == group:
        kind = "role"
    return Found(pid, kind, role, rank, container, node)


def send(pid: int, number: signal.Signals) -> None:
    """A signal; a process that has ended meanwhile does not mind."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
