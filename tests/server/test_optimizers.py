"""Optimizers against their formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_values import places, sorted_by_shard, sparse

from yarnps._errors import InputError
from yarnps.protocol.shards import frozen
from yarnps.protocol.tables import Adagrad, Add, Ftrl, Normal, Sgd, TableSpec
from yarnps.server.dense import DenseTable
from yarnps.server.sparse import SparseTable

STEPS = 40


def ftrl(grads: Any, o: Ftrl) -> Any:
    """McMahan et al. 2013, algorithm 1, as it is printed there."""
    z, n = np.zeros_like(grads[0]), np.zeros_like(grads[0])

    def weights() -> Any:
        free = (np.sign(z) * o.l1 - z) / ((o.beta + np.sqrt(n)) / o.alpha + o.l2)
        return np.where(np.abs(z) <= o.l1, 0.0, free)

    for g in grads:
        w = weights()
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / o.alpha
        z = z + g - sigma * w
        n = n + g * g
    return weights()


def adagrad(grads: Any, o: Adagrad) -> Any:
    w, a = np.zeros_like(grads[0]), np.full_like(grads[0], o.initial)
    for g in grads:
        a = a + g * g
        w = w - o.learning_rate * g / (np.sqrt(a) + o.epsilon)
    return w


CASES: list[tuple[Any, Any]] = [
    (Ftrl(alpha=0.3, beta=1.0, l1=0.7, l2=0.2), ftrl),
    (Ftrl(alpha=0.05, beta=0.5), ftrl),
    (Ftrl(alpha=0.1, beta=0.0, l1=1.0, l2=0.1), ftrl),
    (Adagrad(learning_rate=0.2, epsilon=1e-8, initial=0.1), adagrad),
    (Sgd(0.3), lambda grads, o: -o.learning_rate * np.sum(grads, axis=0)),
    (Add(), lambda grads, o: np.sum(grads, axis=0)),
]


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-5)])
@pytest.mark.parametrize("dim", [1, 7])
def test_sparse(optimizer: Any, formula: Any, dtype: str, tolerance: float, dim: int) -> None:
    rng = np.random.default_rng(3)
    keys = rng.permutation(200)
    table = SparseTable(sparse(dim=dim, optimizer=optimizer, dtype=dtype), places())
    grads = rng.normal(size=(STEPS, 200, dim)).astype(dtype)
    ordered, sections, order = sorted_by_shard(keys)
    for g in grads:
        table.push(ordered, sections, frozen(g[order]))
    expected = formula(grads.astype(np.float64), optimizer)[order]
    got = table.pull(ordered, sections)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    if isinstance(optimizer, Ftrl) and optimizer.l1:
        assert ((got == 0) == (expected == 0)).all() and (expected == 0).any()


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_dense(optimizer: Any, formula: Any) -> None:
    rng = np.random.default_rng(4)
    spec = TableSpec("d", "dense", (50, 3), "float64", optimizer=optimizer)
    table = DenseTable(spec, places())
    sections = np.stack([np.arange(16), np.zeros(16)], axis=1).astype(np.uint32)
    grads = rng.normal(size=(STEPS, 150))
    for g in grads:
        table.push(sections, table.whole(sections), frozen(g))
    np.testing.assert_allclose(
        table.pull(table.whole(sections)), formula(grads, optimizer), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("optimizer", [case[0] for case in CASES])
def test_assigned_weights_are_pulled_again(optimizer: Any) -> None:
    table = SparseTable(sparse(dim=2, optimizer=optimizer, dtype="float64"), places())
    ordered, sections, _ = sorted_by_shard(np.arange(100))
    weights = np.random.default_rng(5).normal(size=(100, 2))
    weights[::7] = 0
    table.assign(ordered, sections, weights)
    np.testing.assert_allclose(table.pull(ordered, sections), weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ftrl(alpha=0),
        lambda: Ftrl(beta=0, l2=0),
        lambda: Sgd(-1),
        lambda: Adagrad(epsilon=0),
        lambda: sparse(optimizer=Ftrl(), init=Normal()),
        lambda: sparse(dtype="float16"),
        lambda: sparse(dim=0),
        lambda: sparse("a/b"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.remedy
