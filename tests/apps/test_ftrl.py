"""Features, labels and the gradient of `app: ftrl`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from yarnps._errors import DataError
from yarnps.apps._features import BIAS, FeatureMap, Labels, probabilities
from yarnps.apps._rows import Entries
from yarnps.apps.ftrl import Model, optimizer
from yarnps.spec import FtrlParams

PLACE = "split 3, batch 5 of the train input"


def labels(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


@pytest.mark.parametrize("negative", [0, -1])
def test_both_ways_to_label(negative: int) -> None:
    check = Labels("ftrl")
    assert check.positive(labels(1, negative, 1), PLACE).tolist() == [True, False, True]
    assert check.positive(labels(negative, negative), PLACE).tolist() == [False, False]
    assert check.positive(labels(1, 1), PLACE).tolist() == [True, True]


@pytest.mark.parametrize("bad", [2, 0.5, -2, float("nan"), float("inf")])
@pytest.mark.parametrize("before", [(), (0, 1), (-1, 1)])
def test_a_wrong_label_is_named_with_its_place(bad: float, before: tuple[float, ...]) -> None:
    check = Labels("ftrl")
    if before:
        check.positive(labels(*before), PLACE)
    with pytest.raises(DataError) as caught:
        check.positive(labels(1, *before, bad), PLACE)
    assert caught.value.what == f"{bad:g} is no label for ftrl: {PLACE}"
    assert "0 and 1, or -1 and 1" in caught.value.remedy


def test_0_and_minus_1_do_not_go_together() -> None:
    check = Labels("ftrl")
    check.positive(labels(0, 1), PLACE)
    with pytest.raises(DataError, match="labels 0 and -1 are both in the input"):
        check.positive(labels(1, -1), PLACE)


KEYS = np.array([9, -4, 9, 0], np.int64)
INDPTR = np.array([0, 2, 2, 4], np.int64)
VALUES = np.array([1, 2, 0.5, -1], np.float32)


def entries_of(model: Model) -> tuple[list[int], Entries]:
    features = model.inputs.features(KEYS)
    return features.keys.tolist(), Entries(INDPTR, features.places, VALUES)


def test_the_bias_is_a_key_of_its_own() -> None:
    model = Model(FtrlParams())
    keys, entries = entries_of(model)
    assert keys == [BIAS, 9, -4, 0]
    weights = np.array([0.25, 1000, 10, 100], np.float32)
    scores = model.scores(entries, weights)
    assert scores.tolist() == [1000 + 20 + 0.25, 0.25, 500 - 100 + 0.25]
    errors = np.array([0.5, -0.25, 1.0])
    assert model.gradient(entries, errors, 4).tolist() == [1.25, 1.0, 1.0, -1.0]


def test_without_a_bias() -> None:
    model = Model(FtrlParams(bias=False))
    keys, entries = entries_of(model)
    assert keys == [9, -4, 0]
    scores = model.scores(entries, np.array([1000, 10, 100], np.float32))
    assert scores.tolist() == [1020, 0, 400]


def test_hashed_ids_are_buckets_and_meet_in_them() -> None:
    features = FeatureMap("ftrl", 2, bias=True).features(np.arange(100, dtype=np.int64))
    assert features.keys.tolist() == [BIAS, 1, 0]


def test_a_feature_cannot_be_the_bias() -> None:
    keys = np.array([3, BIAS], np.int64)
    with pytest.raises(DataError, match=f"feature id {BIAS} is in the input"):
        FeatureMap("ftrl", None, bias=True).features(keys)
    assert FeatureMap("ftrl", None, bias=False).features(keys).keys.tolist() == [3, BIAS]
    hashed = FeatureMap("ftrl", 10, bias=True).features(keys).keys
    assert hashed[0] == BIAS and (hashed[1:] >= 0).all()


def test_the_gradient_is_that_of_the_summed_log_loss() -> None:
    model = Model(FtrlParams())
    _, entries = entries_of(model)
    positive = np.array([True, False, False])
    weights = np.array([0.3, -0.7, 0.2, 0.4], np.float32)

    def loss(w: npt.NDArray[np.float64]) -> float:
        scores = model.scores(entries, w)
        return float(np.logaddexp(0, np.where(positive, -scores, scores)).sum())

    errors = probabilities(model.scores(entries, weights)) - positive
    found = model.gradient(entries, errors, 4)
    step = 1e-6
    for i, slope in enumerate(found):
        moved = np.zeros(4)
        moved[i] = step
        exact = (loss(weights + moved) - loss(weights - moved)) / (2 * step)
        assert slope == pytest.approx(exact, abs=1e-5)


def test_probabilities_at_both_ends() -> None:
    found = probabilities(np.array([-1e4, -800, -1.0, 0.0, 1.0, 800, 1e4]))
    assert found[0] == 0 and found[-1] == 1 and found[3] == 0.5
    assert found[2] + found[4] == pytest.approx(1, abs=1e-15)
    assert found[4] == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-15)


def test_the_optimizer_has_the_parameters_of_the_job() -> None:
    found = optimizer(FtrlParams(alpha=0.3, beta=2.0, l1=0.25, l2=0.125))
    assert (found.alpha, found.beta, found.l1, found.l2) == (0.3, 2.0, 0.25, 0.125)
