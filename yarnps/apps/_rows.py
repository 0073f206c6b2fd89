"""Kernels over sparse rows: each feature once, logits, gradients.

All arrays that are only read come as read-only views, so each kernel is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import jit
from yarnps.protocol.shards import frozen, mix

Floats = NDArray[np.float32]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_FREE = -1


class Features(NamedTuple):
    """The features of a batch.

    Attributes
    ----------
    keys
        int64, increasing: each feature once.
    places
        int32, one for each entry of the batch: its feature is ``keys[place]``.
    """

    keys: Int64s
    places: Int32s


class Uniquer:
    """Finds the distinct keys of a batch; keeps its work space between batches.

    A hash table finds them in one pass over the entries, and only the distinct ones are sorted:
    rows share most of their features, so that is far less work than sorting the entries.
    """

    def __init__(self) -> None:
        self._table = np.full(1 << 12, _FREE, np.int32)

    def __call__(self, keys: Int64s) -> Features:
        """The distinct keys, in order, and where each entry's key is among them."""
        if len(self._table) < 2 * len(keys):
            self._table = np.full(1 << (2 * len(keys) - 1).bit_length(), _FREE, np.int32)
        numbers, found = np.empty(len(keys), np.int32), np.empty(len(keys), np.int64)
        count = _number(_frozen(keys), self._table, numbers, found)
        order = np.argsort(found[:count])
        ranks = np.empty(count, np.int32)
        ranks[order] = np.arange(count, dtype=np.int32)
        places = np.empty(len(keys), np.int32)
        _renumber(numbers, ranks, places)
        return Features(found[:count][order], places)


def bucketed(keys: Int64s, buckets: int) -> Int64s:
    """Feature ids hashed into the numbers 0 to `buckets` - 1. The same ones everywhere."""
    out = np.empty(len(keys), np.int64)
    _bucket(_frozen(keys), np.uint64(buckets), out)
    return out


def logits(indptr: Int64s, places: Int32s, values: Floats, weights: Floats) -> NDArray[np.float64]:
    """Sum of value times weight, row by row."""
    out = np.empty(len(indptr) - 1, np.float64)
    _logits(_frozen(indptr), _frozen(places), _frozen(values), _frozen(weights), out)
    return out


def gradient(
    indptr: Int64s, places: Int32s, values: Floats, errors: NDArray[np.float64], count: int
) -> Floats:
    """Sum over the rows of error times value, for each of `count` features."""
    out = np.zeros(count, np.float64)
    _gradient(_frozen(indptr), _frozen(places), _frozen(values), _frozen(errors), out)
    return out.astype(np.float32)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    return frozen(np.ascontiguousarray(array))


@jit
def _number(keys, table, numbers, found):  # type: ignore[no-untyped-def]
    """Number the keys by first appearance; leaves the table as it was: all free."""
    last = np.uint64(table.shape[0] - 1)
    count = 0
    for i in range(keys.shape[0]):
        key = keys[i]
        slot = mix(np.uint64(key)) & last
        while table[slot] != _FREE and found[table[slot]] != key:
            slot = (slot + np.uint64(1)) & last
        if table[slot] == _FREE:
            table[slot] = count
            found[count] = key
            count += 1
        numbers[i] = table[slot]
    if 8 * count > table.shape[0]:
        table[:] = _FREE
    else:
        # In the reverse order of insertion every key is still where its search ends.
        for number in range(count - 1, -1, -1):
            slot = mix(np.uint64(found[number])) & last
            while table[slot] != number:
                slot = (slot + np.uint64(1)) & last
            table[slot] = _FREE
    return count


@jit
def _renumber(numbers, ranks, places):  # type: ignore[no-untyped-def]
    for i in range(numbers.shape[0]):
        places[i] = ranks[numbers[i]]


@jit
def _bucket(keys, buckets, out):  # type: ignore[no-untyped-def]
    for i in range(keys.shape[0]):
        out[i] = np.int64(mix(np.uint64(keys[i])) % buckets)


@jit
def _logits(indptr, places, values, weights, out):  # type: ignore[no-untyped-def]
    for row in range(indptr.shape[0] - 1):
        total = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[i]) * np.float64(weights[places[i]])
        out[row] = total


@jit
def _gradient(indptr, places, values, errors, out):  # type: ignore[no-untyped-def]
    for row in range(indptr.shape[0] - 1):
        error = errors[row]
        for i in range(indptr[row], indptr[row + 1]):
            out[places[i]] += error * np.float64(values[i])
