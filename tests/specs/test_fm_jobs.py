"""`app: fm` end to end: MovieLens by `specs/fm.yaml`, and two classes on the reduced flights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from jobs import count_lines, labels, predict, scores, submit
from sklearn.metrics import roc_auc_score


def test_fm(specs: Path, movielens: Path, tmp_path: Path) -> None:
    (specs / "movielens").symlink_to(movielens)
    done = submit(specs / "fm.yaml", ["train.epochs=5", f"model.path={tmp_path}/model"])
    assert done.outcome["state"] == "SUCCEEDED"
    assert done.outcome["rows"] == 5 * count_lines(movielens / "train")
    # The whole task comes to 0.900; biases alone, without factors, to 0.94.
    assert done.metrics["test_rmse"] < 0.925
    rmse = done.per_epoch("test_rmse")
    assert rmse == sorted(rmse, reverse=True)
    said = predict(done.model, movielens / "test", tmp_path / "scores")
    assert said["metrics"]["rmse"] == pytest.approx(done.metrics["test_rmse"], abs=1e-6)
    assert said["metrics"]["mae"] == pytest.approx(done.metrics["test_mae"], abs=1e-6)
    found, stars = scores(tmp_path / "scores"), labels(movielens / "test")
    exact = np.sqrt(np.mean((found - stars) ** 2))
    assert said["metrics"]["rmse"] == pytest.approx(exact, abs=1e-9)
    assert found.min() >= 1 and found.max() <= 5


def test_fm_of_two_classes(specs: Path, tmp_path: Path) -> None:
    """The reduced flights again, with the optimizer that makes weights 0."""
    text = (specs / "flights.yaml").read_text()
    document = yaml.safe_load(text)
    document["yarnps"]["app"] = "fm"
    document["yarnps"]["params"] = {"dim": 4, "optimizer": "ftrl", "l1": 0.02, "init_std": 0.01}
    (specs / "flights-fm.yaml").write_text(yaml.safe_dump(document))
    done = submit(specs / "flights-fm.yaml", [f"model.path={tmp_path}/model"])
    assert done.metrics["test_auc"] > 0.68
    said = predict(done.model, specs / "flights" / "test", tmp_path / "scores")
    assert said["metrics"]["logloss"] == pytest.approx(done.metrics["test_logloss"], abs=1e-6)
    truth, found = labels(specs / "flights" / "test"), scores(tmp_path / "scores")
    assert said["metrics"]["auc"] == pytest.approx(roc_auc_score(truth, found), abs=1e-9)
