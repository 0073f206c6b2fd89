"""Processes of this machine: is it the same one, and what belongs to a container (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

# In the environment of every process of a local container: the container's folder.
MARK = "YARNPS_CONTAINER_DIR"


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0: there is none (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = stat.rpartition(b")")[2].split()  # the name before it may hold anything
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def alive(pid: int, started: int) -> bool:
    """Whether the process that had this pid and start is running."""
    return started != 0 and start_ticks(pid) == started


def signal_group(pid: int, started: int, number: signal.Signals) -> None:
    """Signal a process that leads its group, and the group; nothing if it is gone."""
    if alive(pid, started):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


def marked(folder: str) -> list[int]:
    """Pids of all processes whose environment names the container folder."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environ = Path(f"/proc/{entry.name}/environ").read_bytes()
        except OSError:  # gone, or somebody else's
            continue
        if mark in environ.split(b"\0"):
            found.append(int(entry.name))
    return found
