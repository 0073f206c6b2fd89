"""Factorization machines on MovieLens-100k, beside others on the same split, in one run.

``python -m bench.fm [--data DIR] [--seeds N] [--folder DIR]``

Runs `specs/fm.yaml` as a whole local job, the same model in one process (one row after the other,
as libFM does), and myFM, a Bayesian factorization machine that averages over many models.
Prints lines ``name value unit``: root mean squared error on the test ratings, medians of the
seeds, then their spread (highest over lowest); less is better. The ratio to the peers comes last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from bench.ftrl import venv_with
from bench.jobs import show
from specs.movielens_data import make
from yarnps._kernels import jit

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "specs" / "fm.yaml"
PEER = "myfm==0.4.0"
LIMIT_S = 900.0
# Run by the peer's interpreter. Users and films get columns without gaps, and a group each: unused
# columns and one group for all would spoil what it learns about their spread.
PEER_PROGRAM = """
import sys, json, numpy as np, scipy.sparse as sp, myfm
train, test, dim, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
(pairs, y), (test_pairs, yt) = ((f["pairs"], f["stars"]) for f in map(np.load, (train, test)))
groups = [np.unique(np.concatenate([pairs, test_pairs])[:, side]) for side in (0, 1)]
def matrix(pairs):
    users, films = (np.searchsorted(known, pairs[:, i]) for i, known in enumerate(groups))
    places = np.stack([users, len(groups[0]) + films], axis=1).ravel()
    rows = np.repeat(np.arange(len(pairs)), 2)
    shape = (len(pairs), sum(map(len, groups)))
    return sp.csr_matrix((np.ones(len(places)), (rows, places)), shape=shape)
x, xt, shapes = matrix(pairs), matrix(test_pairs), [len(known) for known in groups]
errors = []
for seed in seeds:
    model = myfm.MyFMRegressor(rank=dim, random_seed=seed)
    model.fit(x, y, n_iter=200, n_kept_samples=150, group_shapes=shapes)
    found = np.clip(model.predict(xt), 1, 5)
    errors.append(float(np.sqrt(np.mean((found - yt) ** 2))))
print(json.dumps(errors))
"""


def ratings(folder: Path) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of features, and stars, of the files of a folder."""
    lines = [line.split() for path in sorted(folder.iterdir()) for line in path.open()]
    pairs = [[int(word.partition(":")[0]) for word in line[1:]] for line in lines]
    return np.array(pairs), np.array([float(line[0]) for line in lines])


def of_job(data: Path, folder: Path, seed: int) -> float:
    """A whole local job."""
    sets = [f"train={data}/train/*", f"test={data}/test/*"]
    words = [word for value in sets for word in ("--set", f"yarnps.data.{value}")]
    words += ["--set", f"yarnps.train.seed={seed}", "--set", f"yarnps.model.path={folder}/{seed}"]
    command = [sys.executable, "-m", "yarnps.client.main", "submit", str(SPEC), "-o", "json"]
    done = subprocess.run(
        [*command, "--cluster", "local", *words], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S
    )
    if done.returncode != 0:
        raise SystemExit(f"fm: the job ended with {done.returncode}")
    return float(json.loads(done.stdout)["metrics"]["test_rmse"])


def of_peer(python: Path, data: Path, folder: Path, dim: int, seeds: list[int]) -> list[float]:
    for part in ("train", "test"):
        pairs, stars = ratings(data / part)
        np.savez(folder / part, pairs=pairs, stars=stars)
    files = [str(folder / "train.npz"), str(folder / "test.npz")]
    command = [str(python), "-c", PEER_PROGRAM, *files, str(dim), json.dumps(seeds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise SystemExit(f"fm: myFM ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---------------------------------------------------------------------- the same in one process


def of_one_process(data: Path, params: dict[str, Any], epochs: int, seed: int) -> float:
    """Adagrad, one rating after the other."""
    (pairs, stars), (test_pairs, test_stars) = ratings(data / "train"), ratings(data / "test")
    rng = np.random.default_rng(seed)
    features = int(max(pairs.max(), test_pairs.max())) + 1
    weights = np.zeros(features)
    factors = rng.normal(0, params["init_std"], (features, params["dim"]))
    sums = np.zeros_like(weights), np.zeros_like(factors)
    bias = np.array([stars.mean()])
    rate, l2, l2_factors = params["learning_rate"], params["l2"], params["l2_factors"]
    for _ in range(epochs):
        order = rng.permutation(len(stars))
        _one_by_one(pairs[order], stars[order], bias, weights, factors, *sums, rate, l2, l2_factors)
    u, v = test_pairs.T
    found = bias[0] + weights[u] + weights[v] + (factors[u] * factors[v]).sum(axis=1)
    missed = np.clip(found, params["low"], params["high"]) - test_stars
    return float(np.sqrt((missed * missed).mean()))


@jit
def _one_by_one(  # type: ignore[no-untyped-def]
    pairs, stars, bias, weights, factors, weight_sums, factor_sums, rate, l2, l2_factors
):
    for row in range(len(stars)):
        a, b = pairs[row, 0], pairs[row, 1]
        error = bias[0] + weights[a] + weights[b] - stars[row]
        for f in range(factors.shape[1]):
            error += factors[a, f] * factors[b, f]
        for one in (a, b):
            slope = error + l2 * weights[one]
            weight_sums[one] += slope * slope
            weights[one] -= rate * slope / (np.sqrt(weight_sums[one]) + 1e-10)
        for f in range(factors.shape[1]):
            x, y = factors[a, f], factors[b, f]
            by_x, by_y = error * y + l2_factors * x, error * x + l2_factors * y
            factor_sums[a, f] += by_x * by_x
            factor_sums[b, f] += by_y * by_y
            factors[a, f] = x - rate * by_x / (np.sqrt(factor_sums[a, f]) + 1e-10)
            factors[b, f] = y - rate * by_y / (np.sqrt(factor_sums[b, f]) + 1e-10)


def main() -> int:
    """Run all, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.fm", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / ".data" / "movielens")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps the peer's environment")
    options = parser.parse_args()
    make(options.data)
    block = yaml.safe_load(SPEC.read_text())["yarnps"]
    params, epochs = block["params"], block["train"]["epochs"]
    seeds = list(range(1, options.seeds + 1))
    with tempfile.TemporaryDirectory(prefix="yarnps-fm-") as temporary:
        folder = Path(temporary)
        python = venv_with(PEER, (options.folder or folder) / "myfm")
        peer = of_peer(python, options.data, folder, params["dim"], seeds)
        one = [of_one_process(options.data, params, epochs, seed) for seed in seeds]
        ours = [of_job(options.data, folder, seed) for seed in seeds]
    show("myfm_rmse", peer, "stars")
    show("one_process_rmse", one, "stars")
    show("fm_rmse", ours, "stars")
    show("fm_over_one_process", [a / b for a, b in zip(ours, one, strict=True)], "ratio")
    show("fm_over_myfm", [a / b for a, b in zip(ours, peer, strict=True)], "ratio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
