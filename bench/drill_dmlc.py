"""MXNet jobs of all sizes in a row, half of them harmed: ``python -m bench.drill_dmlc``.

Each run has 1 to 3 servers and 1 to 4 workers, all drawn from its seed, and computes what
`bench/mxnet_values.py` says, by dist_sync or dist_async. In every other run a process is killed
once: all start again, or the ApplicationMaster goes on. Wrong is a run that does not succeed within
the limit, or computes anything else than it should. `--keep` makes it possible to run them in
pieces: what is in that file is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import processes
from bench.drill import Watched
from bench.drill_report import revision
from specs.demo import sandbox

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "bench" / "mxnet_values.py"
RUN_LIMIT_S, SUBMIT_LIMIT_S, POLL_S = 240.0, 200.0, 0.1
# A machine that is busy with other work, too, must not be taken for a fault.
AM_EXPIRY_S = 60


@dataclass(frozen=True)
class Planned:
    """A run. `victim`: who is killed, "worker 1" or "am"; empty: nobody."""

    mode: str
    servers: int
    workers: int
    victim: str = ""
    after_s: float = 0.0  # from the moment when all have met


def plan(seed: int) -> Planned:
    """What a seed means."""
    rng = random.Random(seed)
    mode, servers, workers = rng.choice(("sync", "async")), rng.randint(1, 3), rng.randint(1, 4)
    seats = [f"server {r}" for r in range(servers)] + [f"worker {r}" for r in range(workers)]
    victim = rng.choice([*seats, "am"]) if seed % 2 else ""
    return Planned(mode, servers, workers, victim, rng.uniform(0.0, 1.0))


def expected(mode: str, workers: int) -> dict[str, Any]:
    """What each worker has to have seen."""
    total = workers * (workers + 1) / 2  # rank + 1, of all workers
    if mode == "async":
        # Of 0.3 five times two bits let three halves through, of 0.6 all; with one sign each.
        return {"sum": [1.5 * workers, 2.5 * workers, -2.5 * workers, 0.0]}
    sums = [[[total * (step + 1)] * 3] * 2 for step in range(3)]
    return {"sums": sums, "weights": [1.0 - 0.5 * total] * 4}


def write_job(folder: Path, planned: Planned, python: Path) -> Path:
    """The job file of a run; its workers write into `folder`."""
    size = {"memory": "512 MiB", "vcores": 1}
    files = {PROGRAM.name: str(PROGRAM)}
    script = f"exec {python} {PROGRAM.name} {planned.mode} {folder}"
    services = {
        "server": {"instances": planned.servers, "resources": size, "files": files},
        "worker": {
            "instances": planned.workers,
            "resources": size,
            "files": files,
            "script": script,
        },
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump({"services": services, "yarnps": {"runtime": "dmlc"}}))
    return file


def run(seed: int, cluster: str, python: Path) -> dict[str, Any]:
    """One run; a line about it."""
    planned = plan(seed)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="yarnps-drill-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        watched = Watched(submit(write_job(folder, planned, python), cluster), cluster)
        try:
            wrong = watch(watched, planned) or compare(folder, planned)
        finally:
            if not watched.ended:
                watched.view.kill("the drill is over")
            watched.view.close()
    return {
        "seed": seed,
        "revision": revision(),
        "application": watched.application,
        "size": f"{planned.mode}, {planned.servers} servers, {planned.workers} workers",
        "killed": planned.victim,
        "result": wrong or "right",
        "seconds": round(time.monotonic() - begun, 1),
    }


def submit(file: Path, cluster: str) -> str:
    """Start the job; its application id."""
    command = [sys.executable, "-m", "yarnps.client.main", "submit", str(file), "--detach"]
    done = subprocess.run(
        [*command, "--cluster", cluster], stdout=subprocess.PIPE, text=True, timeout=SUBMIT_LIMIT_S
    )
    if done.returncode != 0:
        raise SystemExit(f"drill: submit ended with {done.returncode}")
    return done.stdout.strip()


def watch(watched: Watched, planned: Planned) -> str:
    """Follow a job to its end and kill the victim on the way; what went wrong, if anything."""
    deadline = time.monotonic() + RUN_LIMIT_S
    kill_at = float("inf")
    victim: str | None = planned.victim
    while time.monotonic() < deadline:
        status = watched.look()
        if status is not None and status.outcome is not None:
            outcome = status.outcome
            return "" if outcome.state == "SUCCEEDED" else f"{outcome.state}: {outcome.cause}"
        met = any(event.kind == "complete" for event in watched.known.values())
        if met and victim:
            kill_at, victim = time.monotonic() + planned.after_s, None
        if time.monotonic() >= kill_at:
            kill_at = float("inf")
            kill(watched.application, planned.victim)
        time.sleep(POLL_S)
    waits = "; ".join(watched.status.waits) if watched.status is not None else ""
    return f"not at its end within {RUN_LIMIT_S:.0f} s: {waits}"


def kill(application: str, victim: str) -> None:
    """SIGKILL, if the victim is still there."""
    role, _, rank = victim.partition(" ")
    kind = "am" if role == "am" else "role"
    found = processes.find(application, kind, "" if kind == "am" else role, int(rank or -1))
    if found is not None:
        processes.send(found.pid, signal.SIGKILL)


def compare(folder: Path, planned: Planned) -> str:
    """What is wrong with the values that the workers have written."""
    right = expected(planned.mode, planned.workers)
    for rank in range(planned.workers):
        path = folder / f"{planned.mode}-{rank}.json"
        if not path.exists():
            return f"worker {rank} has written nothing"
        values = json.loads(path.read_text())
        for name, value in right.items():
            if values[name] != value:
                return f"worker {rank}: {name} is {values[name]} and not {value}"
    return ""


@contextmanager
def place(cluster: str) -> Iterator[None]:
    """Where the jobs run."""
    if cluster == "local":
        yield
        return
    with sandbox(AM_EXPIRY_S) as env:
        os.environ.update(env)
        yield


def report(lines: Sequence[dict[str, Any]], cluster: str) -> str:
    """The report as markdown."""
    wrong = sum(line["result"] != "right" for line in lines)
    revisions = ", ".join(dict.fromkeys(line["revision"] for line in lines))
    harmed = sum(bool(line["killed"]) for line in lines)
    rows = [
        f"| {line['seed']} | {line['size']} | {line['killed'] or 'nobody'} | {line['result']} | "
        f"{line['seconds']:.0f} |"
        for line in lines
    ]
    return "\n".join(
        [
            "# Drill of MXNet jobs",
            "",
            f"Revision {revisions}, cluster {cluster}, {time.strftime('%Y-%m-%d %H:%M')} UTC, "
            f"{os.cpu_count()} cores. {len(lines) - wrong} of {len(lines)} runs right; in {harmed} "
            "of them a process was killed with SIGKILL. Again: `python -m bench.drill_dmlc "
            f"--cluster {cluster} --runs {len(lines)} --seed {lines[0]['seed']}`.",
            "",
            "sync: `dist_sync`, a `row_sparse` pull, an optimizer on the servers, `kv._barrier`. "
            "async: `dist_async`, gradients of two bits, an optimizer on the servers, "
            "`kv._barrier`. Right: the job succeeds, and every worker has the values that it has "
            "to have.",
            "",
            "| seed | job | killed | result | seconds |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def kept(path: Path | None) -> dict[int, dict[str, Any]]:
    """The lines of earlier runs, by their seeds."""
    if path is None or not path.exists():
        return {}
    return {line["seed"]: line for line in map(json.loads, path.read_text().splitlines())}


def main(words: Sequence[str] | None = None) -> int:
    """Run the drill; 0 when every run was right."""
    parser = argparse.ArgumentParser(prog="python -m bench.drill_dmlc", description=__doc__)
    parser.add_argument("--python", type=Path, default=ROOT / ".data" / "mxnet" / "bin" / "python")
    parser.add_argument("--cluster", choices=("local", "sandbox"), default="local")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; then one more each")
    parser.add_argument("--keep", type=Path, help="a file for the runs' results")
    parser.add_argument("--report", type=Path, help="write the report here")
    options = parser.parse_args(words)
    target = "yarn" if options.cluster == "sandbox" else "local"
    lines = kept(options.keep)
    seeds = range(options.seed, options.seed + options.runs)
    with place(options.cluster), tempfile.TemporaryDirectory(prefix="yarnps-drill-") as home:
        os.environ.setdefault("YARNPS_HOME", home)
        for seed in seeds:
            if seed in lines:
                continue
            line = lines[seed] = run(seed, target, options.python)
            print(json.dumps(line), flush=True)
            if options.keep is not None:
                with options.keep.open("a") as file:
                    print(json.dumps(line), file=file)
    done = [lines[seed] for seed in seeds]
    if options.report is not None:
        options.report.write_text(report(done, options.cluster))
    wrong = sum(line["result"] != "right" for line in done)
    print(f"{options.runs} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
