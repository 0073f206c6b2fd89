"""FTRL from text, through worker and server, beside Vowpal Wabbit on the same rows, in one run.

``python -m bench.ftrl [--rows N] [--repeats R] [--batch-rows B] [--folder DIR]``

Makes the file (1 M rows of 40 features out of 1 M), installs Vowpal Wabbit into an environment of
its own, and runs both in turn: Vowpal Wabbit's driver with its own parser thread, and a whole local
job of one worker and one server. Prints lines ``name value unit``: medians, then their spread
(highest over lowest), and the ratio last.

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
from yarnps.protocol.settings import EngineSettings

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
  train: {{epochs: 1, batch_rows: {batch_rows}}}
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
    return Run(said["seconds"], said["cpu"], auc_of(np.loadtxt(scores), made.test))


def auc_of(scores: np.ndarray, test: Path) -> float:
    from yarnps.apps._measure import exact_auc

    with test.open("rb") as file:
        positive = np.array([not line.startswith(b"-") for line in file])
    found = exact_auc(scores.astype(np.float64), positive)
    assert found is not None
    return found


# ---------------------------------------------------------------------- ours


def run_ours(made: Made, folder: Path, batch_rows: int) -> Run:
    """A whole local job."""
    spec = folder / "zipf.yaml"
    settings = {"alpha": ALPHA, "beta": BETA, "l1": L1, "batch_rows": batch_rows}
    spec.write_text(
        JOB.format(**settings, train=made.train, test=made.test, model=folder / "model")
    )
    ran = jobs.run(spec)
    training = ran.training()
    return Run(training.seconds, training.cpu, ran.status.metrics["test_auc"], training.parts)


# ---------------------------------------------------------------------- the report


def main() -> int:
    """Run both in turn, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.ftrl", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--batch-rows", type=int, default=EngineSettings.batch_rows, help="as in any job file"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps the files and the peer's environment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yarnps-ftrl-") as temporary:
        folder = options.folder or Path(temporary)
        made = make(folder / f"zipf-{options.rows}", options.rows)
        python = venv_with(PEER, folder / "peer")
        run_ours(made, folder, options.batch_rows)  # compiles the kernels
        peers, ours = [], []
        for _ in range(options.repeats):
            peers.append(run_peer(python, made, folder))
            ours.append(run_ours(made, folder, options.batch_rows))
    print(f"ftrl_batch_rows {options.batch_rows} rows")
    for name, runs in (("vw", peers), ("ftrl", ours)):
        show(f"{name}_rows", [options.rows / run.seconds for run in runs], "rows/s")
        show(f"{name}_rows_per_cpu", [options.rows / run.cpu for run in runs], "rows/CPU-s")
        show(f"{name}_auc", [run.auc for run in runs], f"(ceiling {made.ceiling:.4f})")
    for kind in sorted({kind for run in ours for kind in run.parts}):
        show(f"ftrl_cpu_{kind}", [run.parts.get(kind, 0.0) for run in ours], "CPU-s")
    pairs = list(zip(ours, peers, strict=True))
    show("ftrl_over_vw_per_cpu", [peer.cpu / run.cpu for run, peer in pairs], "ratio")
    show("ftrl_over_vw", [peer.seconds / run.seconds for run, peer in pairs], "ratio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
