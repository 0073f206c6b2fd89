"""From ``yarnps submit`` to the first acknowledged push: ``python -m bench.startup``.

Runs `specs/flights.yaml` several times, the first one to warm the kernel cache and the uploads,
ends each at its first push, and prints where the time went (medians of the runs), and the processor
time that each kind of process has used by then: on a busy machine that is what counts. On a sandbox
a bare skein application is submitted in turn with ours, up to its first running container.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import processes
from bench.drill import START_LIMIT_S, Watched, place, submit

POLL_S = 0.05
LIMIT_S = 180.0

# Each step ends with the last event of its kind, but for the push: the first one counts.
STEPS = (
    ("ApplicationMaster", "start"),
    ("containers", "grant"),
    ("agents and processes", "up"),
    ("servers ready", "ready"),
    ("first push", "first_push"),
)


class Ours:
    """Starts of our job, and what they have used."""

    def __init__(self, cluster: str, sets: Sequence[str]) -> None:
        self.cluster = cluster
        self.sets = sets
        self.cpu: dict[str, list[float]] = {}

    def start(self) -> dict[str, float]:
        """Seconds from the start of the command to the end of each step."""
        begun = time.time()
        application = submit(self.cluster, self.sets)
        ends = {"submit --detach is back": time.time() - begun}
        watched = Watched(application, self.cluster)
        try:
            self._wait_for_push(watched)
            for found in processes.of_application(application):
                name = found.role if found.kind == "role" else found.kind
                self.cpu.setdefault(name, []).append(cpu_seconds(found.pid))
        finally:
            watched.view.kill("it has started")
            self._wait_for_end(watched)
        for name, kind in STEPS:
            times = [event.time for event in watched.known.values() if event.kind == kind]
            ends[name] = (min if kind == "first_push" else max)(times) - begun
        return ends

    @staticmethod
    def _wait_for_push(watched: Watched) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not any(event.kind == "first_push" for event in watched.known.values()):
            if time.monotonic() > deadline:
                raise SystemExit(f"startup: no push within {START_LIMIT_S:.0f} s")
            watched.look()
            time.sleep(POLL_S)

    @staticmethod
    def _wait_for_end(watched: Watched) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not watched.view.look().gone and not watched.ended:
            if time.monotonic() > deadline:
                raise SystemExit(f"startup: {watched.application} does not end")
            watched.look()
            time.sleep(POLL_S)
        watched.view.close()


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors so far; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_skein() -> float:
    """Seconds from the start of a bare skein client to its application's first container."""
    begun = time.time()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bench.bare_skein"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return float(done.stdout) - begun


def settings(data: Path, cluster: str, folder: Path) -> list[str]:
    """What differs from the job file."""
    if cluster != "local":
        return []
    sets = [f"yarnps.data.{n}=file://{data.resolve()}/{n}/*" for n in ("train", "test")]
    return [*sets, f"yarnps.model.path={folder}/model-{{app}}"]


def show(runs: Sequence[dict[str, float]], ours: Ours, bare: Sequence[float]) -> None:
    """Print the figures."""
    before = 0.0
    for name in sorted(runs[0], key=lambda name: statistics.median(run[name] for run in runs)):
        ends = [run[name] for run in runs]
        middle = statistics.median(ends)
        print(f"{name:24} at {middle:6.2f} s   (+{middle - before:.2f} s)   best {min(ends):.2f} s")
        before = middle
    for name, used in sorted(ours.cpu.items()):
        if max(used) >= 0.03:
            count = len(used) / len(runs)
            print(f"processor time of {name:12} {statistics.median(used):5.2f} s   x {count:.0f}")
    if bare:
        middle = statistics.median(bare)
        print(f"{'bare skein, container':24} at {middle:6.2f} s   best {min(bare):.2f} s")
        print(f"{'over bare skein':24}    {before - middle:6.2f} s")


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".data/flights"), help="of `make data`")
    parser.add_argument("--cluster", choices=("local", "sandbox"), default="local")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(words)
    cluster = "yarn" if options.cluster == "sandbox" else "local"
    with (
        place(options.data, options.cluster),
        tempfile.TemporaryDirectory(prefix="yarnps-startup-") as folder,
    ):
        os.environ["YARNPS_HOME"] = folder
        ours = Ours(cluster, settings(options.data, cluster, Path(folder)))
        ours.start()
        ours.cpu.clear()
        runs: list[dict[str, float]] = []
        bare: list[float] = []
        for _ in range(options.runs):
            runs.append(ours.start())
            if cluster == "yarn":
                bare.append(bare_skein())
        show(runs, ours, bare)
    return 0


if __name__ == "__main__":
    sys.exit(main())
