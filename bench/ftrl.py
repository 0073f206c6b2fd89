"""FTRL from text, through worker and server, beside Vowpal Wabbit on the same rows, in one run.

``python -m bench.ftrl [--rows N] [--repeats R] [--batch-rows B ...] [--folder DIR]``

Makes the file (1 M rows of 40 features out of 1 M), installs Vowpal Wabbit into an environment of
its own, and runs both in turn: Vowpal Wabbit's driver with its own parser thread, and a whole local
job of one worker and one server. `ftrl_default` is a job file that says nothing of batches; with
`--batch-rows`, `ftrl_B` is one that does, in the same rounds. Prints lines ``name value unit``:
medians, then their spread (highest over lowest), and the ratios last.

Rows per second count from the worker's first lease to its last commit, so without the start of the
processes but with everything that the first batch needs; Vowpal Wabbit's from the start of its
driver to the end of the pass. Processor time is that of all threads in this time, of worker and
server with their agents and the ApplicationMaster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench import jobs
from bench.jobs import show
from bench.zipf_rows import Made, make
from yarnps.apps._features import log_loss
from yarnps.apps._measure import exact_auc

PEER = "vowpalwabbit==9.11.9"
ALPHA, BETA = 0.1, 1.0
L1 = 0.0  # as Vowpal Wabbit's
LIMIT_S = 900.0
JOB = """
name: zipf
services:
  server: {{instances: 1, resources: {{memory: 2 GiB, vcores: 1}}}}
  worker: {{instances: 1, resources: {{memory: 2 GiB, vcores: 1}}}}
yarnps:
  app: ftrl
  params: {{alpha: {alpha}, beta: {beta}, l1: {l1}}}
  data: {{train: {train}, test: {test}, format: libsvm}}
  train: {{epochs: 1{batch_rows}}}
  model: {{path: {model}, overwrite: true}}
"""
# Run by the peer's interpreter. Its driver is the constructor, which goes through the file.
PEER_PROGRAM = """
import json, resource, sys, time
from vowpalwabbit import Workspace
train, test, model, scores, alpha, beta = sys.argv[1:]
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
begun, before = time.perf_counter(), cpu()
learner = Workspace(
    f"--ftrl --ftrl_alpha {alpha} --ftrl_beta {beta} --loss_function logistic -b 20 "
    f"-d {train} -f {model} --quiet")
learner.run_parser()
found = {"seconds": time.perf_counter() - begun, "cpu": cpu() - before}
learner.finish()
scorer = Workspace(f"-t -i {model} -d {test} -p {scores} --quiet")
scorer.run_parser()
scorer.finish()
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Run:
    """One pass over the rows; `parts`: processor seconds by kind of process."""

    seconds: float
    cpu: float
    auc: float
    logloss: float
    parts: dict[str, float] = field(default_factory=dict)


# ---------------------------------------------------------------------- the peer


def venv_with(package: str, folder: Path) -> Path:
    """The interpreter of an environment of its own that has a package."""
    python = folder / "bin" / "python"
    if not (folder / "READY").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
        (folder / "READY").touch()
    return python


def run_peer(python: Path, made: Made, folder: Path) -> Run:
    """Vowpal Wabbit learns the training rows and scores the test rows."""
    scores = folder / "vw.scores"
    words = [made.vw_train, made.vw_test, folder / "vw.model", scores, ALPHA, BETA]
    done = subprocess.run(
        [python, "-c", PEER_PROGRAM, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    said = json.loads(done.stdout)
    logits = np.loadtxt(scores)
    with made.test.open("rb") as file:
        positive = np.array([not line.startswith(b"-") for line in file])
    auc = exact_auc(logits, positive)
    assert auc is not None
    return Run(said["seconds"], said["cpu"], auc, log_loss(logits, positive) / len(logits))


# ---------------------------------------------------------------------- ours


def run_ours(made: Made, folder: Path, batch_rows: int | None) -> Run:
    """A whole local job; `batch_rows` None: its file says nothing of batches."""
    spec = folder / "zipf.yaml"
    said = "" if batch_rows is None else f", batch_rows: {batch_rows}"
    settings = {"alpha": ALPHA, "beta": BETA, "l1": L1, "batch_rows": said}
    spec.write_text(
        JOB.format(**settings, train=made.train, test=made.test, model=folder / "model")
    )
    ran = jobs.run(spec)
    training, metrics = ran.training(), ran.status.metrics
    found = metrics["test_auc"], metrics["test_logloss"]
    return Run(training.seconds, training.cpu, *found, training.parts)


# ---------------------------------------------------------------------- the report


def _show(name: str, runs: list[Run], rows: int, ceiling: float) -> None:
    show(f"{name}_rows", [rows / run.seconds for run in runs], "rows/s")
    show(f"{name}_rows_per_cpu", [rows / run.cpu for run in runs], "rows/CPU-s")
    show(f"{name}_auc", [run.auc for run in runs], f"(ceiling {ceiling:.4f})")
    show(f"{name}_logloss", [run.logloss for run in runs], "nats")


def main() -> int:
    """Run both in turn, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.ftrl", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--batch-rows", type=int, nargs="+", default=[], help="beside the default, in each round"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps the files and the peer's environment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yarnps-ftrl-") as temporary:
        folder = options.folder or Path(temporary)
        made = make(folder / f"zipf-{options.rows}", options.rows)
        python = venv_with(PEER, folder / "peer")
        run_ours(made, folder, None)  # compiles the kernels
        sizes = [None, *options.batch_rows]
        ours: dict[int | None, list[Run]] = {size: [] for size in sizes}
        peers = []
        for _ in range(options.repeats):
            peers.append(run_peer(python, made, folder))
            for size in sizes:
                ours[size].append(run_ours(made, folder, size))
    _show("vw", peers, options.rows, made.ceiling)
    for size, runs in ours.items():
        name = f"ftrl_{size or 'default'}"
        _show(name, runs, options.rows, made.ceiling)
        for kind in sorted({kind for run in runs for kind in run.parts}):
            show(f"{name}_cpu_{kind}", [run.parts.get(kind, 0.0) for run in runs], "CPU-s")
        pairs = list(zip(runs, peers, strict=True))
        show(f"{name}_over_vw_per_cpu", [peer.cpu / run.cpu for run, peer in pairs], "ratio")
        show(f"{name}_over_vw", [peer.seconds / run.seconds for run, peer in pairs], "ratio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
