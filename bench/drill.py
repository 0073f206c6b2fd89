"""Long runs in which everything is killed, again and again: ``python -m bench.drill``.

Each run trains `specs/flights.yaml`, slowed down, while a plan drawn from its seed kills workers,
servers, their agents and the ApplicationMaster with SIGKILL; seed 0 kills nobody. A run is right
when it succeeds, its model is as good as an undisturbed one, and the rows that the servers have
counted are exactly the input's lines times the epochs. With `--mode bsp` all runs must have the
same model, too, to the last bit. The report names the revision, the seeds, every kill with the
time to recovery, and the results; the same seed gives the same plan. `--keep` makes it possible
to run them in pieces: what is in that file is not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from bench import processes
from bench.drill_report import Kill, Planned, Run, kept, report, revision, seconds
from specs.demo import put_input, sandbox
from yarnps.client import clusters
from yarnps.client import job as jobs
from yarnps.files import open_files
from yarnps.status import Event, Status

SPEC = Path(__file__).parents[1] / "specs" / "flights.yaml"
SERVERS, WORKERS, EPOCHS = 2, 3, 2
PACE_S = 0.2  # of 256 batches an epoch, a third for each worker: some 17 s
AUC_AT_LEAST = 0.765
KILLS = (3, 5)
# The supervisor takes three deaths of the AM within two minutes for a fault of the AM's own.
AM_KILLS_AT_MOST = 2
START_LIMIT_S, RUN_LIMIT_S, POLL_S = 180.0, 600.0, 0.2
# A machine that is busy with other work, too, must not be taken for a fault.
AM_EXPIRY_S = 60
NOBODY = 0  # the seed of a run that is left alone
ABOUT = (
    f"`specs/flights.yaml`, {EPOCHS} epochs, {SERVERS} servers, {WORKERS} workers, `train.pace` "
    f"{PACE_S} s. Right: SUCCEEDED, AUC at least {AUC_AT_LEAST}, rows counted by the servers "
    "exactly the input's"
)
SAME_MODEL = ", and (bsp) the same model in all runs, to the last bit"


def plan(seed: int) -> list[Planned]:
    """The kills of a run, in order of time."""
    kills: list[Planned] = []
    if seed == NOBODY:
        return kills
    rng = random.Random(seed)
    for _ in range(rng.randint(*KILLS)):
        after = rng.uniform(1.0, 28.0)
        kind = rng.choice(("worker", "worker", "server", "server", "agent", "am"))
        if kind == "am" and sum(k.kind == "am" for k in kills) < AM_KILLS_AT_MOST:
            kills.append(Planned(after, "am"))
            continue
        role = kind if kind in ("worker", "server") else rng.choice(("worker", "server"))
        rank = rng.randrange(WORKERS if role == "worker" else SERVERS)
        kills.append(Planned(after, "agent" if kind == "agent" else "role", role, rank))
    return sorted(kills, key=lambda k: k.after_s)


class Watched:
    """A running job, its event log and its processes."""

    def __init__(self, application: str, cluster: str) -> None:
        self.application = application
        self.view = jobs.find(clusters.choose_for_job(application, cluster), application)
        self.known: dict[int, Event] = {}
        self.status: Status | None = None

    def look(self) -> Status | None:
        """The newest status; its events are kept."""
        sight = self.view.look(max(self.known, default=0))
        if sight.status is not None:
            self.status = sight.status
            self.known |= {event.seq: event for event in sight.status.events}
        return self.status

    @property
    def ended(self) -> bool:
        """Whether the outcome is known."""
        return self.status is not None and self.status.outcome is not None

    def wait_for_training(self) -> float:
        """Until every worker has had a push acknowledged; the time."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            self.look()
            if len({e.rank for e in self.known.values() if e.kind == "first_push"}) == WORKERS:
                return time.time()
            time.sleep(POLL_S)
        raise SystemExit(f"drill: {self.application} does not train within {START_LIMIT_S:.0f} s")

    def recovered(self, kill: Kill) -> float | None:
        """Seconds from a kill until its victim was at work again."""
        what = {"am": "am_restart", "worker": "first_push", "server": "ready"}
        kind = what[kill.planned.role or "am"]
        for event in sorted(self.known.values(), key=lambda e: e.seq):
            same = kill.planned.kind == "am" or (event.role, event.rank) == (
                kill.planned.role,
                kill.planned.rank,
            )
            if event.kind == kind and same and event.time > kill.time:
                return event.time - kill.time
        return None


def drill(seed: int, cluster: str, sets: Sequence[str], lines: int) -> Run:
    """One run."""
    run = Run(seed, revision())
    begun = time.monotonic()
    run.application = submit(cluster, sets)
    watched = Watched(run.application, cluster)
    try:
        started = watched.wait_for_training()
        for planned in plan(seed):
            follow(watched, until=started + planned.after_s)
            if watched.ended:
                break
            victim = processes.find(run.application, planned.kind, planned.role, planned.rank)
            if victim is not None:
                run.kills.append(Kill(planned, time.time()))
                processes.send(victim.pid, signal.SIGKILL)
        follow(watched, until=time.time() + RUN_LIMIT_S)
        run.elapsed_s = time.monotonic() - begun
        judge(run, watched, lines)
    finally:
        if not watched.ended:
            watched.view.kill("the drill is over")
        watched.view.close()
    return run


def follow(watched: Watched, until: float) -> None:
    """Watch until a time, or until the job has ended."""
    while time.time() < until:
        watched.look()
        if watched.ended:
            return
        time.sleep(min(POLL_S, max(0.0, until - time.time())))


def submit(cluster: str, sets: Sequence[str]) -> str:
    """Start the job; its application id."""
    words = [word for value in sets for word in ("--set", value)]
    command = [sys.executable, "-m", "yarnps.client.main", "submit", str(SPEC), "--detach", *words]
    done = subprocess.run(
        [*command, "--cluster", cluster], stdout=subprocess.PIPE, text=True, timeout=300
    )
    if done.returncode != 0:
        raise SystemExit(f"drill: submit ended with {done.returncode}")
    return done.stdout.strip()


def judge(run: Run, watched: Watched, lines: int) -> None:
    """Compare the end with what it should be."""
    status = watched.status
    assert status is not None
    run.state = status.outcome.state if status.outcome else "not ended"
    run.auc = status.metrics.get("test_auc", 0.0)
    run.rows = status.rows_pushed
    if run.state == "SUCCEEDED":
        run.model = fingerprint(status.model)
    replays = [e for e in watched.known.values() if e.kind in ("replay", "rollback")]
    run.replayed = sum(int(e.data.get("rows", 0)) for e in replays)
    for kill in run.kills:
        kill.recovery_s = watched.recovered(kill)
    if run.state != "SUCCEEDED":
        cause = status.outcome.cause if status.outcome else f"not within {RUN_LIMIT_S:.0f} s"
        run.wrong.append(f"{run.state}: {cause}")
    if run.auc < AUC_AT_LEAST:
        run.wrong.append(f"AUC {run.auc:.4f}")
    if not run.rows == status.progress.rows == EPOCHS * lines:
        text = f"{run.rows} rows counted, {status.progress.rows} in the ledger"
        run.wrong.append(f"{text}, {EPOCHS * lines} expected")


def fingerprint(folder: str) -> str:
    """A model's tables in few letters: other ones if any bit of any value is another.

    Parts and rows may come in any order: it depends on who served what when.
    """
    files, path = open_files(folder)
    parts = [
        load(files.read_bytes(info.path))
        for info in files.list(path)
        if info.path.endswith(".safetensors")
    ]
    digest = hashlib.sha256()
    names = {key.removesuffix("/keys") for part in parts for key in part if key.endswith("/keys")}
    for name in sorted(names):
        keys = np.concatenate([part[f"{name}/keys"] for part in parts])
        values = np.concatenate([part[f"{name}/values"] for part in parts])
        order = np.argsort(keys)
        digest.update(name.encode() + keys[order].tobytes() + values[order].tobytes())
    return digest.hexdigest()[:8]


def compare(runs: Iterable[Run]) -> None:
    """BSP: all runs have the model of the first one, whatever was killed."""
    ended = [run for run in runs if run.model]
    for run in ended:
        text = f"another model than in the run of seed {ended[0].seed}"
        if run.model != ended[0].model and text not in run.wrong:
            run.wrong.append(text)


# ------------------------------------------------------------------ the command


def settings(data: Path, cluster: str, mode: str, folder: Path) -> list[str]:
    """What differs from the job file."""
    sets = [
        f"yarnps.train.epochs={EPOCHS}",
        f"yarnps.train.pace={PACE_S}",
        "yarnps.checkpoint.every=5 s",
        f"yarnps.sync.mode={mode}",
        "services.worker.max_restarts=20",
        "services.server.max_restarts=20",
    ]
    if cluster == "local":
        sets += [f"yarnps.data.{n}=file://{data.resolve()}/{n}/*" for n in ("train", "test")]
        sets += [f"yarnps.model.path={folder}/model-{{app}}"]
    return sets


@contextmanager
def place(data: Path, cluster: str) -> Iterator[None]:
    """Where the jobs run; a sandbox is started with the input in its HDFS."""
    if cluster == "local":
        yield
        return
    with sandbox(AM_EXPIRY_S) as env:
        put_input(data, env)
        os.environ.update(env)
        yield


def main(words: Sequence[str] | None = None) -> int:
    """Run the drill; 0 when every run was right."""
    parser = argparse.ArgumentParser(prog="python -m bench.drill", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".data/flights"), help="of `make data`")
    parser.add_argument("--cluster", choices=("local", "sandbox"), default="local")
    parser.add_argument("--mode", choices=("ssp", "bsp", "asp"), default="ssp", help="sync.mode")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; then one more each")
    parser.add_argument("--keep", type=Path, help="a file for the runs' results")
    parser.add_argument("--report", type=Path, help="write the report here, too")
    options = parser.parse_args(words)
    train = sorted((options.data / "train").glob("*"))
    if not train:
        parser.error(f"no input in {options.data}: run `make data`")
    lines = sum(path.read_bytes().count(b"\n") for path in train)
    runs = kept(options.keep)
    seeds = range(options.seed, options.seed + options.runs)
    missing = [seed for seed in seeds if seed not in runs]
    if missing:
        with place(options.data, options.cluster), own_home():
            runs |= run_all(missing, options, lines)
    done = [runs[seed] for seed in seeds]
    if options.mode == "bsp":
        compare(done)
    about = ABOUT + (SAME_MODEL if options.mode == "bsp" else "") + "."
    text = report(done, options.cluster, options.mode, about)
    if options.report is not None:
        options.report.write_text(text)
    print(text)
    return 0 if all(not run.wrong for run in done) else 1


def run_all(seeds: Iterable[int], options: argparse.Namespace, lines: int) -> dict[int, Run]:
    """The runs by their seeds; each is told of, and kept, as soon as it is done."""
    target = "yarn" if options.cluster == "sandbox" else "local"
    runs: dict[int, Run] = {}
    with tempfile.TemporaryDirectory(prefix="yarnps-drill-") as folder:
        sets = settings(options.data, target, options.mode, Path(folder))
        for seed in seeds:
            run = runs[seed] = drill(seed, target, sets, lines)
            print(json.dumps(summary(run)), flush=True)
            if options.keep is not None:
                with options.keep.open("a") as file:
                    print(run.to_json(), file=file)
    return runs


@contextmanager
def own_home() -> Iterator[None]:
    """A client's folder for these jobs only, unless the caller has named one."""
    if "YARNPS_HOME" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["YARNPS_HOME"] = home
        yield


def summary(run: Run) -> dict[str, Any]:
    """One line for each run while the drill goes on."""
    return {
        "seed": run.seed,
        "application": run.application,
        "result": run.result,
        "model": run.model,
        "kills": [f"{k.planned.name}: {seconds(k.recovery_s)}" for k in run.kills],
        "seconds": round(run.elapsed_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
