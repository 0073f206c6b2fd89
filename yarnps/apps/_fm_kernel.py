"""Kernels of factorization machines over sparse rows.

All arrays that are only read come as read-only views, so each kernel is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import jit
from yarnps.apps._rows import Entries, Floats
from yarnps.protocol.shards import frozen

Doubles = NDArray[np.float64]


class Gradients(NamedTuple):
    """For each feature the mean of the gradients of the entries that have it.

    Attributes
    ----------
    weights
        float32, shape (features,).
    factors
        float32, shape (features, dim).
    """

    weights: Floats
    factors: Floats


def scores(entries: Entries, weights: Floats, factors: Floats) -> tuple[Doubles, Doubles]:
    """``sum w x + 1/2 sum_f ((sum v_f x)^2 - sum v_f^2 x^2)`` for each row.

    Returns
    -------
    scores
        float64, shape (rows,).
    sums
        float64, shape (rows, dim): ``sum v_f x``, which the gradient needs, too.
    """
    rows, dim = len(entries.indptr) - 1, factors.shape[1]
    out, sums = np.empty(rows, np.float64), np.zeros((rows, dim), np.float64)
    _scores(*_frozen(*entries, weights, factors), out, sums)
    return out, sums


def gradients(
    entries: Entries,
    errors: Doubles,
    weights: Floats,
    factors: Floats,
    sums: Doubles,
    penalties: tuple[float, float],
) -> Gradients:
    """The gradients of a batch.

    Parameters
    ----------
    errors
        Derivative of each row's loss by its score.
    sums
        From `scores`.
    penalties
        L2 of weights and of factors: half of it times the square is added to each row's loss, for
        each of its entries.
    """
    count, dim = factors.shape
    by_weight, by_factor = np.zeros(count, np.float64), np.zeros((count, dim), np.float64)
    read = _frozen(*entries, weights, factors, errors, sums)
    _gradients(*read, *map(np.float64, penalties), by_weight, by_factor)
    return Gradients(by_weight.astype(np.float32), by_factor.astype(np.float32))


def _frozen(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    return [frozen(np.ascontiguousarray(array)) for array in arrays]


@jit
def _scores(indptr, places, values, weights, factors, out, sums):  # type: ignore[no-untyped-def]
    dim = factors.shape[1]
    for row in range(indptr.shape[0] - 1):
        linear = 0.0
        squares = 0.0
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            place, x = np.uint64(places[i]), np.float64(values[i])
            linear += np.float64(weights[place]) * x
            for f in range(dim):
                product = np.float64(factors[place, f]) * x
                sums[row, f] += product
                squares += product * product
        pairs = 0.0
        for f in range(dim):
            pairs += sums[row, f] * sums[row, f]
        out[row] = linear + 0.5 * (pairs - squares)


@jit
def _gradients(  # type: ignore[no-untyped-def]
    indptr, places, values, weights, factors, errors, sums, l2, l2_factors, by_weight, by_factor
):
    dim = factors.shape[1]
    counts = np.zeros(weights.shape[0], np.int64)
    for row in range(indptr.shape[0] - 1):
        error = errors[row]
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            place, x = np.uint64(places[i]), np.float64(values[i])
            counts[place] += 1
            by_weight[place] += error * x + l2 * np.float64(weights[place])
            for f in range(dim):
                v = np.float64(factors[place, f])
                by_factor[place, f] += error * x * (sums[row, f] - v * x) + l2_factors * v
    for place in range(weights.shape[0]):
        share = 1.0 / max(counts[place], 1)
        by_weight[place] *= share
        for f in range(dim):
            by_factor[place, f] *= share
