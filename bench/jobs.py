"""Whole local jobs, watched: when they trained, and what their processes used meanwhile."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import processes
from bench.drill import Watched
from bench.startup import cpu_seconds
from yarnps.status import Status

POLL_S = 0.05
# A process counts with all that it has used when it is found: before what is measured has begun.
FIND_EVERY_S = 0.2
LOOK_EVERY_S = 1.0
LIMIT_S = 3600.0
_LINE = re.compile(r"^(\S+ \S+),(\d+) .*(leased|done): split \d+ of epoch (\d+), train", re.M)

Sample = tuple[float, dict[str, float]]  # time, processor seconds so far by kind of process


@dataclass(frozen=True)
class Training:
    """A stretch of a training: seconds, and processor seconds in it by kind of process."""

    seconds: float
    parts: dict[str, float]

    @property
    def cpu(self) -> float:
        """Processor seconds of all processes."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Ran:
    """A job that has succeeded."""

    status: Status
    begun: float
    samples: list[Sample]

    @property
    def whole(self) -> float:
        """Seconds from the submission to the outcome."""
        assert self.status.ended is not None
        return self.status.ended - self.begun

    def training(self, from_epoch: int = 0) -> Training:
        """From the first lease of a training split to the last one's end, by the workers' logs."""
        folder = Path(self.status.job_dir.removeprefix("file://"))
        times: dict[str, list[float]] = {"leased": [], "done": []}
        for log in folder.glob("containers/worker_*/worker-*.log"):
            for stamp, millis, what, epoch in _LINE.findall(log.read_text()):
                at = time.mktime(time.strptime(stamp, "%Y-%m-%d %H:%M:%S")) + int(millis) / 1000
                if int(epoch) >= from_epoch:
                    times[what].append(at)
        first, last = min(times["leased"]), max(times["done"])
        kinds = self.samples[-1][1]
        return Training(last - first, {k: self._at(k, last) - self._at(k, first) for k in kinds})

    def _at(self, kind: str, when: float) -> float:
        used = [sums.get(kind, 0.0) for _, sums in self.samples]
        return float(np.interp(when, [at for at, _ in self.samples], used))


def run(spec: Path, limit_s: float = LIMIT_S) -> Ran:
    """Run a job file on the local cluster until its outcome.

    Raises
    ------
    SystemExit
        It cannot be submitted, does not end, or does not succeed.
    """
    begun = time.time()
    command = [sys.executable, "-m", "yarnps.client.main", "submit", str(spec), "--detach"]
    done = subprocess.run(
        [*command, "--cluster", "local"], stdout=subprocess.PIPE, text=True, timeout=limit_s
    )
    if done.returncode != 0:
        raise SystemExit(f"{spec.name}: submit ended with {done.returncode}")
    watched = Watched(done.stdout.strip(), "local")
    samples = _watch(watched, limit_s)
    status = watched.status
    assert status is not None and status.outcome is not None
    if status.outcome.state != "SUCCEEDED":
        raise SystemExit(f"{spec.name}: the job {status.outcome.state}: {status.outcome.cause}")
    return Ran(status, begun, samples)


def _watch(watched: Watched, limit_s: float) -> list[Sample]:
    """Until the job has ended: what all its processes have used so far."""
    samples: list[Sample] = []
    used: dict[int, float] = {}
    kinds: dict[int, str] = {}
    deadline, next_find, next_look = time.monotonic() + limit_s, 0.0, 0.0
    while time.monotonic() < deadline:
        if time.monotonic() >= next_find:
            next_find = time.monotonic() + FIND_EVERY_S
            for found in processes.of_application(watched.application):
                kinds[found.pid] = found.role if found.kind == "role" else found.kind
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + LOOK_EVERY_S
            watched.look()
            if watched.ended:
                watched.view.close()
                return samples
        # A process that has ended keeps what it had used.
        used = {pid: max(used.get(pid, 0.0), cpu_seconds(pid)) for pid in kinds}
        sums = dict.fromkeys(kinds.values(), 0.0)
        for pid, seconds in used.items():
            sums[kinds[pid]] += seconds
        samples.append((time.time(), sums))
        time.sleep(POLL_S)
    raise SystemExit(f"{watched.application} does not end within {limit_s:.0f} s")


def show(name: str, values: list[float], unit: str) -> None:
    """Median and spread (highest over lowest) of the repetitions."""
    spread = max(values) / max(min(values), 1e-12)
    print(f"{name} {statistics.median(values):.4g} {unit} x{spread:.2f}", flush=True)
