"""Processes by identity: started, found again later, and ended only when they are ours.

A pid alone proves nothing after a reboot or a long uptime. A daemon carries its sandbox's home in
its command line, and a recorded process is a pid *with* its start time.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HOME_MARK = "-Dyarnps.sandbox.home="
NAME_MARK = "-Dyarnps.sandbox.daemon="

POLL_S = 0.05  # only where the kernel has no pidfd

# Daemons outlive us; those that die while we live are reaped through this list.
_children: list[subprocess.Popen[bytes]] = []


class ProcessId(NamedTuple):
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started: int  # clock ticks since boot


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a live process, None for one that is dead or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name stands in brackets and may itself hold spaces and brackets.
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in ("Z", "X"):
        return None
    return ProcessId(pid, int(fields[19]))


def alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def daemons_of(home: Path) -> dict[str, ProcessId]:
    """Return the live daemons whose command line names this home, by daemon name."""
    found: dict[str, ProcessId] = {}
    # A daemon that runs a program shares its command line with the child until the child's own
    # stands: the older of two is the daemon.
    for name, process in sorted(_marked(home), key=lambda row: row[1].started, reverse=True):
        found[name] = process
    return found


def marked(home: Path) -> list[ProcessId]:
    """Return every live process whose command line names this home."""
    return [process for _, process in _marked(home)]


def _marked(home: Path) -> Iterator[tuple[str, ProcessId]]:
    for pid in _pids():
        arguments = _nul_separated(pid, "cmdline")
        if HOME_MARK + str(home) not in arguments:
            continue
        names = [a[len(NAME_MARK) :] for a in arguments if a.startswith(NAME_MARK)]
        process = identify(pid)
        if names and process is not None:
            yield names[0], process


def in_sessions_of(leaders: Collection[ProcessId]) -> list[ProcessId]:
    """Return the live processes of the sessions that these processes lead or led.

    A process in the middle of an exec has no command line and no environment to be found by; its
    session it has always.
    """
    numbers = {leader.pid for leader in leaders}
    found = []
    for pid in _pids():
        process = identify(pid)
        try:
            if process is not None and os.getsid(pid) in numbers:
                found.append(process)
        except OSError:  # it ended meanwhile
            continue
    return found


def containers_of(folder: Path) -> list[ProcessId]:
    """Return the live processes of containers whose local folders lie in `folder`.

    Node managers give LOCAL_DIRS to every container, and children inherit it, so this also finds
    those that a killed node manager left behind.
    """
    prefix = f"LOCAL_DIRS={folder}/"
    found = []
    for pid in _pids():
        if any(entry.startswith(prefix) for entry in _nul_separated(pid, "environ")):
            process = identify(pid)
            if process is not None:
                found.append(process)
    return found


def spawn(
    arguments: Sequence[str], *, environ: Mapping[str, str], folder: Path, log: Path
) -> ProcessId:
    """Start a process in a session of its own, with its output appended to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(arguments),
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children.append(child)
    # One that is gone already has no start time: -1 equals no live process.
    return identify(child.pid) or ProcessId(child.pid, -1)


def end(processes: Iterable[ProcessId], *, limit_s: float = 20.0) -> list[ProcessId]:
    """Kill these processes, wait until they are gone, and return those that are not."""
    victims = [process for process in processes if alive(process)]
    for process in victims:
        _kill(process)
    deadline = time.monotonic() + limit_s
    left = [process for process in victims if not _wait_gone(process, deadline)]
    _children[:] = [child for child in _children if child.poll() is None]
    return left


def _kill(process: ProcessId) -> None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3
        if alive(process):
            os.kill(process.pid, signal.SIGKILL)
        return
    try:
        # Looked at once more behind the descriptor: from here on the pid cannot be another's.
        if alive(process):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _wait_gone(process: ProcessId, deadline: float) -> bool:
    while alive(process):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return True
        except OSError:  # a kernel before 5.3
            time.sleep(POLL_S)
            continue
        try:
            waiter = select.poll()
            waiter.register(descriptor, select.POLLIN)
            waiter.poll(left * 1000)
        finally:
            os.close(descriptor)
    return True


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _nul_separated(pid: int, name: str) -> list[str]:
    try:
        content = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it ended, or belongs to someone else
        return []
    return content.decode("utf-8", "surrogateescape").split("\0")
