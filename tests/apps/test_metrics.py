"""Metrics against scikit-learn's, on the same scores, added up in any order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import roc_auc_score

from yarnps.apps.metrics import binary_sums, finish, squared_sums

ROWS = 40_000
Array = npt.NDArray[np.float64]


def add_up(scores: npt.ArrayLike, labels: npt.ArrayLike, batch: int = 2048) -> dict[str, Array]:
    scores, labels = np.asarray(scores), np.asarray(labels)
    total: dict[str, Array] = {}
    for i in range(0, len(scores), batch):
        for name, values in binary_sums(scores[i : i + batch], labels[i : i + batch]).items():
            total[name] = total[name] + values if name in total else values
    return total


def drawn() -> tuple[Array, Array]:
    """Normal scores, and labels that go with them."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=ROWS)
    labels = np.where(rng.random(ROWS) < 1 / (1 + np.exp(1.2 - 1.2 * scores)), 1.0, -1.0)
    return scores, labels


SHAPES = {
    "well spread": lambda u, rng: 1.2 * u - 1.2,
    "wide": lambda u, rng: 20 * u,
    "within a hundredth": lambda u, rng: 1.17 + 0.002 * np.clip(u, -2.5, 2.5),
    "within a hundredth, float32": lambda u, rng: np.float32(1.17 + 0.002 * np.clip(u, -2.5, 2.5)),
    "within a hundred-thousandth": lambda u, rng: -1.17 + 1e-6 * u,
    "extreme": lambda u, rng: 5 * np.sinh(2.5 * u),
    "beyond where a probability is 1": lambda u, rng: 1e6 * u,
    "narrow with far outliers": lambda u, rng: np.where(
        rng.random(len(u)) < 0.01, 30 * u, 0.002 * u
    ),
    "two narrow heaps": lambda u, rng: np.where(rng.random(len(u)) < 0.5, 3, -1) + 0.002 * u,
    "three values": lambda u, rng: np.round(u),
    "two values": lambda u, rng: np.where(u > 0.3, 2.0, -1.0),
    "many ties": lambda u, rng: np.round(u, 1),
    "ties with some noise": lambda u, rng: (
        np.round(u, 1) + np.where(rng.random(len(u)) < 0.3, 1e-4 * u, 0.0)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [64, 2048])
def test_auc_is_within_a_ten_thousandth_of_sklearns(shape: str, batch: int) -> None:
    base, labels = drawn()
    scores = SHAPES[shape](base, np.random.default_rng(6))
    expected = roc_auc_score(labels > 0, scores)
    assert finish(add_up(scores, labels, batch))["auc"] == pytest.approx(expected, abs=1e-4)


def test_all_scores_equal_is_half_and_a_perfect_order_is_one() -> None:
    _, labels = drawn()
    assert finish(add_up(np.full(ROWS, 0.7), labels))["auc"] == 0.5
    assert finish(add_up(labels, labels))["auc"] == 1.0
    assert finish(add_up(-labels, labels))["auc"] == 0.0


def test_log_loss_is_exact_and_does_not_overflow() -> None:
    logits = [0.0, 2.0, -3.0, 800.0, -800.0, 1e6]
    labels = [1, 0, 1, 1, 1, 0]
    parts = [np.log(2), np.log1p(np.exp(2)), np.log1p(np.exp(3)), 0.0, 800.0, 1e6]
    assert finish(binary_sums(logits, labels))["logloss"] == pytest.approx(
        sum(parts) / 6, rel=1e-15
    )


def test_infinite_logits_give_finite_metrics() -> None:
    metrics = finish(binary_sums([np.inf, -np.inf, 0.0], [1, -1, -1]))
    assert metrics["auc"] == 1.0
    assert metrics["logloss"] == pytest.approx(np.log(2) / 3)


def test_both_kinds_of_labels_mean_the_same() -> None:
    scores, labels = drawn()
    assert finish(add_up(scores, labels)) == finish(add_up(scores, (labels > 0).astype(int)))


def test_a_diverged_model_is_counted_and_not_measured() -> None:
    total = add_up([0.5, np.nan, 0.1, np.nan], [1, 0, 1, 0], batch=1)
    assert finish(total) == {"nan_rows": 2.0}


def test_what_is_not_defined_is_left_out() -> None:
    assert "auc" not in finish(binary_sums([0.1, 0.2], [1, 1]))
    assert finish(binary_sums([], [])) == {}
    own = {"mine": [6.0, 4.0], "none": [0.0, 0.0], "rows": [3.0], "long": [1.0, 2.0, 3.0]}
    assert finish(own) == {"mine": 1.5, "rows": 3.0}


def test_sums_stay_small() -> None:
    scores, labels = drawn()
    for shape in SHAPES:
        total = add_up(SHAPES[shape](scores, np.random.default_rng(6)), labels)
        assert sum(values.nbytes for values in total.values()) < 1 << 20, shape


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 logits for 1 labels"):
        binary_sums([0.0, 1.0], [1])


def test_errors_of_a_regression_add_up() -> None:
    rng = np.random.default_rng(4)
    labels = rng.normal(size=1000)
    predictions = labels + rng.normal(size=1000)
    total: dict[str, Array] = {}
    for part in np.array_split(np.arange(1000), 7):
        for name, values in squared_sums(predictions[part], labels[part]).items():
            total[name] = total[name] + values if name in total else values
    missed = predictions - labels
    assert finish(total) == pytest.approx(
        {"rmse": np.sqrt((missed**2).mean()), "mae": np.abs(missed).mean()}, rel=1e-12
    )


def test_errors_of_no_rows_are_not_defined() -> None:
    assert finish(squared_sums([], [])) == {}
