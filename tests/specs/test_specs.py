"""Every job file in `specs/` runs as it is, on the local cluster."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import xgboost
from conftest import SPECS
from jobs import Done, count_lines, submit, yarnps
from sklearn.metrics import roc_auc_score

from yarnps.data import DataSettings, Rows, read_file

RUN_HERE = {"flights.yaml", "own_program.yaml", "csv.yaml", "warm_start.yaml"}
RUN_HERE |= {"xgboost.yaml", "digits.yaml"}
MXNET = {"mxnet-sync.yaml", "mxnet-async.yaml"}
RUN_HERE |= MXNET
RUN_ELSEWHERE = {"word2vec.yaml", "fm.yaml"}  # in a module of their own


def test_no_job_file_is_left_out() -> None:
    assert {path.name for path in SPECS.glob("*.y*ml")} == RUN_HERE | RUN_ELSEWHERE


@pytest.mark.parametrize("name", sorted(RUN_HERE | RUN_ELSEWHERE))
def test_job_files_are_valid(name: str) -> None:
    yarnps("validate", str(SPECS / name), "--cluster", "local")


def test_flights(specs: Path, first: Done) -> None:
    lines = count_lines(specs / "flights" / "train")
    assert first.outcome["state"] == "SUCCEEDED"
    assert first.outcome["rows"] == 3 * lines
    assert first.model == specs / "flights" / "model"
    # The servers have counted what was pushed to them.
    counted = f"the servers have counted {3 * lines:,} rows, as many as the ledger: {3 * lines:,}"
    assert counted in first.log
    # Far from the whole task's 0.773, and far from knowing nothing.
    assert first.metrics["test_auc"] > 0.68
    assert first.metrics["test_logloss"] < 0.53
    manifest = json.loads((first.model / "manifest.json").read_text())
    assert manifest["metrics"]["test_auc"] == first.metrics["test_auc"]


def test_own_program(specs: Path) -> None:
    done = submit(specs / "own_program.yaml")
    assert done.outcome["state"] == "SUCCEEDED"
    assert done.outcome["rows"] == 2 * count_lines(specs / "flights" / "train")
    late = 0.237  # the share of late flights: what a guess without any feature would reach
    assert done.metrics["test_accuracy"] >= 1 - late
    assert done.metrics["test_logloss"] < 0.54
    manifest = json.loads((done.model / "manifest.json").read_text())
    assert {file["table"] for file in manifest["files"]} == {"bias", "w", "v"}
    # What the program itself reports is there to be seen.
    shown = json.loads(yarnps("status", done.outcome["application"], "-o", "json").stdout)
    assert 0.3 < shown["metrics"]["train_loss"] < 0.8


def test_csv(specs: Path) -> None:
    done = submit(specs / "csv.yaml")
    assert done.outcome["state"] == "SUCCEEDED"
    assert done.metrics["test_auc"] > 0.62
    # The best model by the log loss is the one kept, whatever the last epoch was like.
    measured = done.per_epoch("test_logloss")
    assert done.metrics["test_logloss"] == min(measured)
    for line in (done.model / "part-0.txt").read_text().splitlines():
        assert re.fullmatch(r"-?\d+ -?\d+\.\d+(e-?\d+)?", line)


def test_warm_start(specs: Path, first: Done) -> None:
    done = submit(specs / "warm_start.yaml")
    assert done.outcome["state"] == "SUCCEEDED"
    assert done.outcome["rows"] == count_lines(specs / "flights" / "train")
    # A single epoch from nothing is far from where three epochs have led; from their model not.
    after_one = first.per_epoch("test_logloss")[0]
    assert done.metrics["test_logloss"] < after_one - 0.005
    assert done.metrics["test_auc"] > first.per_epoch("test_auc")[0]
    parts = {path.name for path in done.model.glob("*.safetensors")}
    assert parts == {"part-0.safetensors", "part-1.safetensors", "part-2.safetensors"}
    assert np.isfinite(list(done.metrics.values())).all()


def test_xgboost(flights: Path) -> None:
    """On the whole flights: better than the linear model's 0.773."""
    done = submit(SPECS / "xgboost.yaml")
    assert done.outcome["state"] == "SUCCEEDED"
    folder = Path(str(done.outcome["job_dir"]).removeprefix("file://"))
    model = xgboost.Booster(model_file=folder / "model.json")
    assert model.num_boosted_rounds() == 16
    settings = DataSettings(batch_rows=100_000)
    files = sorted((flights / "test").iterdir())
    rows = Rows.concat([b.rows for f in files for b in read_file(str(f), settings)])
    parts = (rows.values, rows.keys, rows.indptr)
    matrix = scipy.sparse.csr_matrix(parts, shape=(len(rows), model.num_features()))
    late = model.predict(xgboost.DMatrix(matrix))
    assert roc_auc_score(rows.labels, late) > 0.775
    # What the tracker was told to print is in the ApplicationMaster's output.
    printed = (folder / "am" / "stderr").read_text()
    assert "[15]\ttest-auc:0.7" in printed


def last_accuracy(output: str) -> float:
    return float(output.split()[-1])


@pytest.fixture(scope="module")
def on_one_machine(mxnet: Path, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """The accuracy of the same network without servers and workers."""
    command = [str(mxnet), str(SPECS / "mxnet_digits.py"), "--data", str(digits)]
    folder = tmp_path_factory.mktemp("digits")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=True
    )
    return last_accuracy(done.stdout)


@pytest.mark.parametrize("name", sorted(MXNET))
def test_mxnet(name: str, specs: Path, on_one_machine: float) -> None:
    done = submit(specs / name)
    assert done.outcome["state"] == "SUCCEEDED"
    folder = Path(str(done.outcome["job_dir"]).removeprefix("file://"))
    log = (folder / "containers" / "worker_0" / "worker-0-0.log").read_text()
    assert log.splitlines()[-1].startswith("epoch 10 accuracy")
    assert on_one_machine > 0.93
    assert last_accuracy(log) > on_one_machine - 0.03


def test_digits(specs: Path) -> None:
    done = submit(specs / "digits.yaml")
    assert done.outcome["state"] == "SUCCEEDED"
    assert done.metrics["test_accuracy"] > 0.93
    losses = done.per_epoch("test_loss")
    assert len(losses) == 8 and losses[-1] < losses[0] / 3
