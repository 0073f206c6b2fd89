"""`app: fm`: scores, gradients, features never seen, and prediction from a model's folder."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from model_folders import write_tables

from yarnps._errors import DataError
from yarnps.apps import fm
from yarnps.apps._features import BIAS
from yarnps.apps._fm_kernel import gradients, scores
from yarnps.apps._rows import Entries
from yarnps.apps.predict import predict
from yarnps.protocol.tables import Adagrad, Ftrl, Sgd, TableSpec
from yarnps.spec import FmParams

Doubles = npt.NDArray[np.float64]
ROWS, FEATURES = 40, 12


class Made:
    """Random rows, some of them empty, and a random model."""

    def __init__(self, dim: int) -> None:
        rng = np.random.default_rng(dim)
        shape = (ROWS, FEATURES)
        self.matrix = np.where(rng.random(shape) < 0.3, rng.normal(size=shape), 0)
        self.matrix[[0, 9]] = 0
        self.matrix = self.matrix.astype(np.float32).astype(np.float64)
        rows, places = np.nonzero(self.matrix)
        indptr = np.searchsorted(rows, np.arange(ROWS + 1))
        values = self.matrix[rows, places].astype(np.float32)
        self.entries = Entries(indptr, places.astype(np.int32), values)
        self.weights = rng.normal(size=FEATURES).astype(np.float32)
        self.factors = rng.normal(size=(FEATURES, dim)).astype(np.float32)
        self.labels = rng.normal(size=ROWS)

    def scores(self, weights: Doubles, factors: Doubles) -> Doubles:
        """By the definition: a sum over pairs."""
        found = self.matrix @ weights
        for i, j in combinations(range(FEATURES), 2):
            found += self.matrix[:, i] * self.matrix[:, j] * (factors[i] @ factors[j])
        return found


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_scores_are_sums_over_pairs(dim: int) -> None:
    made = Made(dim)
    found, sums = scores(made.entries, made.weights, made.factors)
    expected = made.scores(made.weights.astype(float), made.factors.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, made.matrix @ made.factors.astype(float), atol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_gradients_are_slopes_of_the_penalised_loss(dim: int) -> None:
    """Of the loss summed over the rows, for each feature divided by the entries that it has."""
    made = Made(dim)
    present = made.matrix != 0
    penalties = (0.3, 0.2)

    def loss(weights: Doubles, factors: Doubles) -> float:
        missed = made.scores(weights, factors) - made.labels
        sizes = penalties[0] * weights**2 + penalties[1] * (factors**2).sum(axis=1)
        return float((missed**2).sum() / 2 + (present @ sizes).sum() / 2)

    at, sums = scores(made.entries, made.weights, made.factors)
    errors = at - made.labels
    found = gradients(made.entries, errors, made.weights, made.factors, sums, penalties)
    w, v, step = made.weights.astype(float), made.factors.astype(float), 1e-5
    for feature in range(FEATURES):
        count = present[:, feature].sum()
        one = np.zeros(FEATURES)
        one[feature] = step
        slope = (loss(w + one, v) - loss(w - one, v)) / (2 * step) / count
        assert found.weights[feature] == pytest.approx(slope, rel=1e-4, abs=1e-4)
        for factor in range(dim):
            moved = np.zeros((FEATURES, dim))
            moved[feature, factor] = step
            slope = (loss(w, v + moved) - loss(w, v - moved)) / (2 * step) / count
            assert found.factors[feature, factor] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_the_bias_learns_from_the_mean_error() -> None:
    model = fm.Model(FmParams(dim=2))
    features = model.inputs.features(np.array([3, 5], np.int64))
    assert features.keys.tolist() == [BIAS, 3, 5]
    entries = Entries(np.array([0, 1, 2, 2]), features.places, np.ones(2, np.float32))
    known = fm.Parameters(np.array([0.5, 1, 2], np.float32), np.zeros((3, 2), np.float32))
    found, sums = model.scores(entries, known)
    assert found.tolist() == [1.5, 2.5, 0.5]
    errors = np.array([1.0, 2.0, 6.0])
    assert model.gradients(entries, known, sums, errors).weights.tolist() == [3, 1, 2]


def test_predictions_of_a_regression_stay_within_bounds() -> None:
    within = fm.Model(FmParams(task="regression", low=1, high=5))
    assert within.bounded(np.array([-3.0, 2.5, 9.0])).tolist() == [1, 2.5, 5]
    free = fm.Model(FmParams(task="regression"))
    assert free.bounded(np.array([-3.0, 9.0])).tolist() == [-3, 9]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sgd", (Sgd(0.3), Sgd(0.3))),
        ("adagrad", (Adagrad(0.3), Adagrad(0.3))),
        ("ftrl", (Ftrl(alpha=0.3, beta=2, l1=0.5), Adagrad(0.3))),
    ],
)
def test_optimizers(name: Any, expected: Any) -> None:
    params = FmParams(optimizer=name, learning_rate=0.3, beta=2, l1=0.5)
    assert fm.optimizers(params) == expected


# ---------------------------------------------------------------------- prediction

W = TableSpec("w", "sparse", (1,))
V = TableSpec("v", "sparse", (2,))
WEIGHTS = {BIAS: [3.0], 1: [0.5], 10: [-0.25]}
FACTORS = {1: [1.0, 2.0], 10: [0.5, -1.0], 11: [1.0, 1.0]}
INPUT = "4 1:1 10:1\n2 1:2 11:1 10:1\n3 999:1\n"
# Pairs (1, 10): 0.5 - 2; (1, 11): 1 + 2; (10, 11): 0.5 - 1
SCORES = [3 + 0.5 - 0.25 - 1.5, 3 + 1 - 0.25 + 2 * -1.5 + 2 * 3 - 0.5, 3.0]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    tables = [(W, WEIGHTS), (V, FACTORS)]
    write_tables(folder, tables, app="fm", params={"task": "regression", "dim": 2, "high": 5.5})
    return folder


def test_predicted_numbers(model: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "in.svm", tmp_path / "out"
    file.write_text(INPUT)
    done = predict(str(model), str(file), out=str(out))
    shown = [float(line) for line in out.read_text().splitlines()]
    expected = [min(score, 5.5) for score in SCORES]
    assert shown == pytest.approx(expected, abs=1e-6)
    missed = np.array(expected) - [4, 2, 3]
    assert done.metrics["rmse"] == pytest.approx(np.sqrt((missed**2).mean()), abs=1e-6)
    assert done.metrics["mae"] == pytest.approx(np.abs(missed).mean(), abs=1e-6)


def test_predicted_classes(model: Path, tmp_path: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["params"]["task"] = "classification"
    (model / "manifest.json").write_text(json.dumps(manifest))
    file, out = tmp_path / "in.svm", tmp_path / "out"
    file.write_text("1 1:1 10:1\n0 1:2 11:1 10:1\n")
    done = predict(str(model), str(file), out=str(out))
    shown = [float(line) for line in out.read_text().splitlines()]
    assert shown == pytest.approx([1 / (1 + np.exp(-s)) for s in SCORES[:2]], abs=1e-6)
    assert set(done.metrics) == {"auc", "logloss"}


def test_a_model_without_factors_is_not_one(model: Path, tmp_path: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["files"] = [file for file in manifest["files"] if file["table"] != "v"]
    (model / "manifest.json").write_text(json.dumps(manifest))
    file = tmp_path / "in.svm"
    file.write_text(INPUT)
    with pytest.raises(DataError, match="the model has no table v"):
        predict(str(model), str(file), out=str(tmp_path / "out"))
