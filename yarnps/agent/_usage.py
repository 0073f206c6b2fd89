"""CPU and memory of role processes with all that they started, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of one role process and its descendants.

    `cpu_percent` is of one core, since the last sample; memory is resident, in bytes.
    """

    cpu_percent: float
    memory: int
    peak: int


@dataclass
class _Last:
    at: float
    ticks: int
    peak: int


class Sampler:
    """Remembers the last sample of each process, for rates and peaks."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}

    def sample(self, pids: Iterable[int]) -> dict[int, Usage]:
        """Usage of each role process; one that is gone is left out.

        A role process leads its own session, so its session is what it started, even where a
        parent in between has ended.
        """
        pids = list(pids)
        self._last = {pid: last for pid, last in self._last.items() if pid in pids}
        sums = _by_session(pids)
        now = time.monotonic()
        found = {}
        for pid, (ticks, memory) in sums.items():
            last = self._last.get(pid)
            peak = max(memory, _peak(pid), last.peak if last else 0)
            percent = 0.0
            if last and now > last.at:
                percent = 100 * max(0, ticks - last.ticks) / _TICKS / (now - last.at)
            self._last[pid] = _Last(now, ticks, peak)
            found[pid] = Usage(percent, memory, peak)
        return found


def _by_session(leaders: list[int]) -> dict[int, tuple[int, int]]:
    """Clock ticks and resident bytes of each leader's session."""
    sums: dict[int, tuple[int, int]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # A node has many processes, and to ask this of all takes less than to read of all.
            if os.getsid(int(entry.name)) not in leaders:
                continue
            with open(f"/proc/{entry.name}/stat", "rb") as f:
                stat = f.read()
        except OSError:  # gone meanwhile
            continue
        fields = stat.rpartition(b")")[2].split()  # the name before it may hold anything
        session = int(fields[3])
        if session in leaders and fields[0] != b"Z":
            ticks, memory = sums.get(session, (0, 0))
            # With the ticks of children that have ended and were waited for (fields 13 and 14).
            ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))
            sums[session] = (ticks, memory + int(fields[21]) * _PAGE)
    return sums


def _peak(pid: int) -> int:
    """The kernel's own mark of the process itself: it sees what falls between two samples."""
    try:
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
