"""Metrics of a file of scores against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from yarnps.apps._features import probabilities
from yarnps.apps._measure import ClassMeasure, exact_auc


@pytest.mark.parametrize("digits", [1, 3, 17])  # with few digits many rows are tied
def test_auc_is_exact(digits: int) -> None:
    rng = np.random.default_rng(digits)
    scores = np.round(rng.normal(size=5000), digits)
    positive = rng.random(5000) < probabilities(2 * scores)
    assert exact_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


def test_auc_of_one_class_is_not_defined() -> None:
    assert exact_auc(np.array([1.0, 2.0]), np.array([True, True])) is None
    assert exact_auc(np.zeros(0), np.zeros(0, np.bool_)) is None


@pytest.mark.parametrize(("exact_rows", "within"), [(10_000, 1e-12), (4_999, 1e-4)])
def test_batches_add_up(exact_rows: int, within: float) -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(size=5000)
    labels = np.where(rng.random(5000) < probabilities(scores), 1, -1).astype(np.float32)
    measure = ClassMeasure(exact_rows)
    for i in range(0, 5000, 700):
        measure.add(scores[i : i + 700], labels[i : i + 700])
    found = measure.metrics()
    assert measure.rows == 5000
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=within)
    assert found["logloss"] == pytest.approx(log_loss(labels, probabilities(scores)), abs=1e-9)


def test_rows_without_a_label_do_not_count() -> None:
    measure = ClassMeasure()
    measure.add(np.array([1.0, 5.0, -1.0]), np.array([1, np.nan, 0], np.float32))
    assert measure.rows == 2
    assert measure.metrics()["auc"] == 1.0
    assert measure.metrics()["logloss"] == pytest.approx(np.log1p(np.exp(-1)))


def test_no_label_at_all_is_no_metric() -> None:
    measure = ClassMeasure()
    measure.add(np.array([1.0]), np.array([np.nan], np.float32))
    assert (measure.metrics(), measure.note()) == ({}, "")


def test_labels_of_other_classes_are_said() -> None:
    measure = ClassMeasure()
    measure.add(np.array([1.0, 2.0]), np.array([0, 1], np.float32))
    measure.add(np.array([1.0, 2.0]), np.array([1, 3], np.float32))
    assert measure.metrics() == {}
    assert measure.note() == "no metrics: 3 is a label, and only 1, 0 and -1 name two classes"
