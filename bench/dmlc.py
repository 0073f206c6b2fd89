"""MXNet's barriers under the ApplicationMaster and its own scheduler: ``python -m bench.dmlc``.

The same program runs under each. Two figures: from the start of the last process (ours are started
by agents, one after the other on a small machine) to the moment when the last worker has passed its
first barrier, each job alone; and what one barrier of all workers takes. For that all jobs are
there and make some hundred barriers in turns, so that a noisy machine is the same to all. Printed
are the medians, and ours in parts of theirs.

A third job has the least that a scheduler can be in Python (`bench.bare_scheduler`): so much of a
barrier is pyzmq's and the interpreter's, and the rest is what our scheduler does more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.mxnet_own import run_with_own_scheduler

ROOT = Path(__file__).parents[1]
BARE = [sys.executable, "-m", "bench.bare_scheduler"]
LIMIT_S = 240.0
POLL_S = 0.01

# Every role writes when it was started; workers write when they had passed the first barrier, too.
# Then they wait for files that call them to so many barriers, and write what one has taken.
PROGRAM = """
import json, os, sys, time

folder, barriers = sys.argv[1], int(sys.argv[2])
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
boot = time.time() - float(open("/proc/uptime").read().split()[0])
started = boot + ticks / os.sysconf("SC_CLK_TCK")
def say(name, what):
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        json.dump(what, file)
    os.rename(path + ".new", path)
def called(name):
    return os.path.exists(os.path.join(folder, name))
say("started-%d" % os.getpid(), started)
import mxnet as mx
kv = mx.kv.create("dist_sync")
kv._barrier()
say("passed-%d" % os.getpid(), time.time())
turn = 0
while True:
    while not called("turn-%d" % turn) and not called("end"):
        time.sleep(0.05)
    if called("end"):
        break
    for _ in range(20):
        kv._barrier()
    begun = time.perf_counter()
    for _ in range(barriers):
        kv._barrier()
    say("took-%d-%d" % (turn, os.getpid()), (time.perf_counter() - begun) / barriers)
    turn += 1
"""


@dataclass(frozen=True)
class Size:
    """Of the jobs that are compared."""

    workers: int
    servers: int
    barriers: int  # of one turn


class Running:
    """A job that runs in a thread of its own, and does what files tell it to.

    Parameters
    ----------
    run
        Sees a command for a shell through that is the program of all roles.
    """

    def __init__(self, run: Callable[[list[str]], None], python: Path, size: Size) -> None:
        self._size = size
        self._folder = tempfile.TemporaryDirectory(prefix="yarnps-bench-")
        self._path = Path(self._folder.name)
        program = self._path / "program.py"
        program.write_text(PROGRAM)
        self._error: BaseException | None = None
        words = [str(python), str(program), str(self._path), str(size.barriers)]
        self._thread = threading.Thread(target=self._run, args=(run, words))
        self._thread.start()
        self._turn = 0

    def _run(self, run: Callable[[list[str]], None], words: list[str]) -> None:
        try:
            run(words)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised by `_all`
            self._error = error

    def start(self) -> float:
        """Seconds from the last process's start to the last worker behind the first barrier."""
        passed = self._all("passed", self._size.workers)
        return max(passed) - max(self._all("started", self._size.workers + self._size.servers))

    def barrier(self) -> float:
        """Seconds that a barrier takes, of one turn."""
        (self._path / f"turn-{self._turn}").touch()
        took = self._all(f"took-{self._turn}", self._size.workers)
        self._turn += 1
        return statistics.median(took)

    def end(self) -> None:
        """Let it come to its end."""
        (self._path / "end").touch()
        self._thread.join(LIMIT_S)
        self._folder.cleanup()
        if self._error is not None:
            raise self._error

    def _all(self, name: str, count: int) -> list[float]:
        """What the processes have written under a name, when all have."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and self._thread.is_alive():
            found = [p for p in self._path.glob(f"{name}-*") if p.suffix != ".new"]
            if len(found) == count:
                return [float(json.loads(path.read_text())) for path in found]
            time.sleep(POLL_S)
        raise RuntimeError(f"{name}: not of all {count} processes") from self._error


def theirs(size: Size, scheduler: list[str] | None = None) -> Callable[[list[str]], None]:
    """Under MXNet's own scheduler, or one in its place."""

    def run(command: list[str]) -> None:
        run_with_own_scheduler(
            command,
            workers=size.workers,
            servers=size.servers,
            limit_s=LIMIT_S,
            scheduler=scheduler,
        )

    return run


def ours(size: Size) -> Callable[[list[str]], None]:
    """Under the ApplicationMaster, on the local cluster."""

    def run(command: list[str]) -> None:
        resources = {"memory": "512 MiB", "vcores": 1}
        script = f"exec {' '.join(command)}"
        worker = {"instances": size.workers, "resources": resources, "script": script}
        server = {"instances": size.servers, "resources": resources}
        services = {"server": server, "worker": worker}
        with tempfile.TemporaryDirectory(prefix="yarnps-bench-") as folder:
            file = Path(folder) / "job.yaml"
            file.write_text(yaml.safe_dump({"services": services, "yarnps": {"runtime": "dmlc"}}))
            submit = [sys.executable, "-m", "yarnps.client.main", "submit", str(file)]
            subprocess.run(
                [*submit, "--cluster", "local"],
                check=True,
                timeout=LIMIT_S,
                capture_output=True,
                env={**os.environ, "YARNPS_HOME": f"{folder}/home"},
            )

    return run


class Figure(NamedTuple):
    """Seconds, of one run or one turn."""

    ours: float
    bare: float
    theirs: float


def measure(python: Path, size: Size, turns: int) -> tuple[Figure, list[Figure]]:
    """One run: the starts, each of a job alone, and the barriers of each turn."""
    runs = (ours(size), theirs(size, BARE), theirs(size))
    starts = Figure(*(start_alone(run, python, size) for run in runs))
    running: list[Running] = []
    try:
        for run in runs:
            running.append(Running(run, python, size))
            running[-1].start()
        barriers = [Figure(*(one.barrier() for one in running)) for _ in range(turns)]
    finally:
        for one in running:
            one.end()
    return starts, barriers


def start_alone(run: Callable[[list[str]], None], python: Path, size: Size) -> float:
    """Seconds that a job's start takes; another job beside it would slow it down."""
    one = Running(run, python, size)
    try:
        return one.start()
    finally:
        one.end()


def report(name: str, figures: list[Figure], unit: str, scale: float) -> str:
    """A line about a figure."""
    seconds = [statistics.median(of_all) for of_all in zip(*figures, strict=True)]
    mine, bare, other = (f"{scale * value:.1f} {unit}" for value in seconds)
    ratio = statistics.median(figure.ours / figure.theirs for figure in figures)
    least = statistics.median(figure.bare / figure.theirs for figure in figures)
    return (
        f"{name:8} ours {mine}, a bare scheduler in Python {bare}, MXNet's own {other}; "
        f"bare/theirs {least:.2f}, ours/theirs {ratio:.2f}"
    )


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m bench.dmlc", description=__doc__)
    parser.add_argument("--python", type=Path, default=ROOT / ".data" / "mxnet" / "bin" / "python")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--barriers", type=int, default=200, help="of each turn")
    parser.add_argument("--turns", type=int, default=10, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    size = Size(options.workers, options.servers, options.barriers)
    starts: list[Figure] = []
    barriers: list[Figure] = []
    for _ in range(options.runs):
        start, turns = measure(options.python, size, options.turns)
        starts.append(start)
        barriers += turns
    print(f"{size.workers} workers, {size.servers} servers; medians of {options.runs} runs")
    print(report("start", starts, "s", 1.0))
    print(report("barrier", barriers, "us", 1e6))


if __name__ == "__main__":
    main()
