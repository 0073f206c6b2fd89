"""MXNet's barriers under the ApplicationMaster and its own scheduler: ``python -m bench.dmlc``.

The same program runs under each in turn. Two figures of each run: from the start of the last
process (ours are started by agents, one after the other on a small machine) to the moment when the
last worker has passed its first barrier, and what one barrier of all workers takes. Printed are the
medians, and ours in parts of theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.mxnet_own import run_with_own_scheduler

ROOT = Path(__file__).parents[1]
LIMIT_S = 240.0

# Every role writes when it was started; workers write when they had passed the first barrier, too,
# and how long one takes.
PROGRAM = """
import json, os, sys, time

folder, barriers = sys.argv[1], int(sys.argv[2])
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
boot = time.time() - float(open("/proc/uptime").read().split()[0])
said = {"started": boot + ticks / os.sysconf("SC_CLK_TCK")}
def say():
    with open(os.path.join(folder, "%d.json" % os.getpid()), "w") as file:
        json.dump(said, file)
say()
import mxnet as mx
kv = mx.kv.create("dist_sync")
kv._barrier()
said["passed"] = time.time()
for _ in range(20):
    kv._barrier()
begun = time.perf_counter()
for _ in range(barriers):
    kv._barrier()
said["barrier"] = (time.perf_counter() - begun) / barriers
say()
"""


@dataclass(frozen=True)
class Figures:
    """Of one run, in seconds."""

    start: float  # from the last process's start to the last worker behind the first barrier
    barrier: float


def figures(folder: Path) -> Figures:
    """What the processes of a run have written."""
    said = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    workers = [one for one in said if "barrier" in one]
    begun = max(one["started"] for one in said)
    return Figures(
        max(one["passed"] for one in workers) - begun,
        statistics.median(one["barrier"] for one in workers),
    )


@dataclass(frozen=True)
class Size:
    """Of the jobs that are compared."""

    workers: int
    servers: int
    barriers: int


def theirs(python: Path, size: Size) -> Figures:
    """Under MXNet's own scheduler."""
    with tempfile.TemporaryDirectory(prefix="yarnps-bench-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        run_with_own_scheduler(
            [str(python), str(program), folder, str(size.barriers)],
            workers=size.workers,
            servers=size.servers,
            limit_s=LIMIT_S,
        )
        return figures(Path(folder))


def ours(python: Path, size: Size) -> Figures:
    """Under the ApplicationMaster, on the local cluster."""
    with tempfile.TemporaryDirectory(prefix="yarnps-bench-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        resources = {"memory": "512 MiB", "vcores": 1}
        script = f"exec {python} {program} {folder} {size.barriers}"
        worker = {"instances": size.workers, "resources": resources, "script": script}
        server = {"instances": size.servers, "resources": resources}
        services = {"server": server, "worker": worker}
        file = Path(folder) / "job.yaml"
        file.write_text(yaml.safe_dump({"services": services, "yarnps": {"runtime": "dmlc"}}))
        command = [sys.executable, "-m", "yarnps.client.main", "submit", str(file)]
        subprocess.run(
            [*command, "--cluster", "local"],
            check=True,
            timeout=LIMIT_S,
            capture_output=True,
            env={**os.environ, "YARNPS_HOME": f"{folder}/home"},
        )
        return figures(Path(folder))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m bench.dmlc", description=__doc__)
    parser.add_argument("--python", type=Path, default=ROOT / ".data" / "mxnet" / "bin" / "python")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--barriers", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    size = Size(options.workers, options.servers, options.barriers)
    pairs = []
    for _ in range(options.runs):
        pairs.append((ours(options.python, size), theirs(options.python, size)))
    print(f"{size.workers} workers, {size.servers} servers; medians of {options.runs} runs each")
    for name, unit, scale in (("start", "s", 1.0), ("barrier", "us", 1e6)):
        mine = [getattr(one, name) * scale for one, _ in pairs]
        other = [getattr(one, name) * scale for _, one in pairs]
        ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
        print(
            f"{name:8} ours {statistics.median(mine):8.1f} {unit}, MXNet's own "
            f"{statistics.median(other):8.1f} {unit}, ours/theirs {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
