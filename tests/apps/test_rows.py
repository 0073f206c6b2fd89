"""Kernels over sparse rows against numpy."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest

from yarnps.apps._rows import Entries, Features, Uniquer, bucketed, gradient, logits

LOWEST, HIGHEST = -(2**63), 2**63 - 1
Ints = npt.NDArray[np.int64]


def drawn(seed: int, count: int, different: int) -> Ints:
    """`count` keys, some of them frequent, spread over all of int64."""
    rng = np.random.default_rng(seed)
    known = rng.integers(LOWEST, HIGHEST, different, endpoint=True)
    return known[rng.zipf(1.3, count) % different]


KEYS = {
    "none": np.zeros(0, np.int64),
    "one": np.array([7], np.int64),
    "the same again and again": np.full(5000, -3, np.int64),
    "the ends of int64": np.array([HIGHEST, LOWEST, 0, -1, HIGHEST, LOWEST], np.int64),
    "neighbours": np.arange(6000, dtype=np.int64)[::-1],
    "some are frequent": drawn(1, 20_000, 3000),
    "each once": np.unique(drawn(2, 9000, 10**6)),
}


@pytest.mark.parametrize("name", KEYS)
def test_distinct_keys_in_the_order_of_appearance(name: str) -> None:
    keys = KEYS[name]
    found = Uniquer()(keys)
    assert found.keys.dtype == np.int64 and found.places.dtype == np.int32
    assert_by_appearance(found, keys)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_is_first_whatever_comes(name: str) -> None:
    keys = KEYS[name]
    found = Uniquer()(keys, first=LOWEST)
    assert_by_appearance(found, np.concatenate([[LOWEST], keys]), first=1)
    assert (found.places == 0).sum() == (keys == LOWEST).sum()


def assert_by_appearance(found: Features, keys: Ints, first: int = 0) -> None:
    """Each key once, in the order of appearance; `first` entries are not in the batch."""
    expected = list(dict.fromkeys(keys.tolist()))
    assert found.keys.tolist() == expected
    np.testing.assert_array_equal(found.keys[found.places], keys[first:])


def test_one_batch_leaves_nothing_for_the_next() -> None:
    unique = Uniquer()
    for seed, (count, different) in enumerate(
        [(3000, 2900), (40, 9), (3000, 5), (60_000, 9000), (50_000, 49_000)]
    ):
        keys = drawn(seed, count, different)
        assert_by_appearance(unique(keys), keys)


def test_threads_do_not_meet_in_the_work_space() -> None:
    """A worker with several parts of a step reads each in a thread of its own."""
    unique = Uniquer()
    batches = [drawn(seed, 40_000, 9000) for seed in range(8)]
    begin = threading.Barrier(len(batches))

    def find(keys: Ints) -> list[Features]:
        begin.wait(30)
        return [unique(keys) for _ in range(20)]

    with ThreadPoolExecutor(len(batches)) as threads:
        for keys, found in zip(batches, threads.map(find, batches), strict=True):
            for one in found:
                assert_by_appearance(one, keys)


def test_buckets_are_the_same_for_ever() -> None:
    """A model is of no use when its features are hashed otherwise later."""
    keys = np.array([0, 1, 2, -1, LOWEST, HIGHEST], np.int64)
    assert bucketed(keys, 1000).tolist() == GOLDEN
    assert bucketed(keys, 1).tolist() == [0] * 6


# Worked out with Python's own integers from the definition of splitmix64's finaliser.
def by_definition(key: int, buckets: int) -> int:
    mask = 2**64 - 1
    h = (key + 0x9E3779B97F4A7C15) & mask
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & mask
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & mask
    return (h ^ (h >> 31)) % buckets


GOLDEN = [by_definition(key, 1000) for key in (0, 1, 2, -1, LOWEST, HIGHEST)]


def test_buckets_are_filled_evenly() -> None:
    counts = np.bincount(bucketed(np.arange(100_000, dtype=np.int64), 100), minlength=100)
    assert len(counts) == 100
    assert counts.min() > 850 and counts.max() < 1150


def test_logits_and_gradient_are_matrix_products() -> None:
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((50, 30)) < 0.2, rng.normal(size=(50, 30)), 0)
    matrix[[0, 7, 49]] = 0  # rows without a feature
    matrix = matrix.astype(np.float32).astype(np.float64)
    rows, places = np.nonzero(matrix)
    indptr = np.searchsorted(rows, np.arange(51))
    values = matrix[rows, places].astype(np.float32)
    weights, errors = rng.normal(size=30).astype(np.float32), rng.normal(size=50)
    entries = Entries(indptr, places.astype(np.int32), values)
    np.testing.assert_allclose(
        logits(entries, weights), matrix @ weights.astype(np.float64), rtol=1e-12
    )
    np.testing.assert_allclose(
        gradient(entries, errors, 30), matrix.T @ errors, rtol=1e-6, atol=1e-7
    )
