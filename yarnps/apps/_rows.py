"""Kernels over sparse rows: each feature once, logits, gradients.

All arrays that are only read come as read-only views, so each kernel is compiled once.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import jit
from yarnps.protocol.shards import frozen, mix

Floats = NDArray[np.float32]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

_FREE = -1
# 2**64 divided by the golden ratio: the top bits of a product with it are spread evenly even for
# keys that follow one another or share their low bits (Knuth, TAOCP 3, 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_LEAST_BITS = 12


class Features(NamedTuple):
    """The features of a batch.

    Attributes
    ----------
    keys
        int64, each feature once, in the order in which they first appear. Read-only: so a table
        need bring them into the order of its shards only once.
    places
        int32, one for each entry of the batch: its feature is ``keys[place]``.
    """

    keys: Int64s
    places: Int32s


class Entries(NamedTuple):
    """The entries of a batch's rows.

    Attributes
    ----------
    indptr, values
        As in `Rows`.
    places
        int32: which of the batch's features each entry has.
    """

    indptr: Int64s
    places: Int32s
    values: Floats


class Uniquer:
    """Finds the distinct keys of a batch; keeps its work space between batches, for each thread.

    A hash table finds them in one pass over the entries. It is as large as the distinct keys need,
    not the entries: rows share most of their features, so that it stays in a core's cache.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def __call__(self, keys: Int64s, first: int | None = None) -> Features:
        """The distinct keys, and where each entry's key is among them.

        Parameters
        ----------
        keys
            The batch's.
        first
                A key that comes before all others, whether an entry has it or not.
        """
        table: Int32s | None = getattr(self._of_thread, "table", None)
        if table is None:
            table = np.empty(1 << _LEAST_BITS, np.int32)
        keys = _frozen(keys)
        numbers, found = np.empty(len(keys), np.int32), np.empty(len(keys) + 1, np.int64)
        done = count = 0
        if first is not None:
            found[0], count = first, 1
        while True:
            table.fill(_FREE)
            _enter(found, count, table)
            done, count = _number(keys, done, count, table, numbers, found)
            if done == len(keys):
                self._of_thread.table = table
                return Features(frozen(found[:count]), numbers)
            table = np.empty(4 * len(table), np.int32)  # it was half full


def bucketed(keys: Int64s, buckets: int) -> Int64s:
    """Feature ids hashed into the numbers 0 to `buckets` - 1. The same ones everywhere."""
    out = np.empty(len(keys), np.int64)
    _bucket(_frozen(keys), np.uint64(buckets), out)
    return out


def logits(entries: Entries, weights: Floats) -> NDArray[np.float64]:
    """Sum of value times weight, row by row."""
    out = np.empty(len(entries.indptr) - 1, np.float64)
    _logits(*(_frozen(array) for array in (*entries, weights)), out)
    return out


def gradient(entries: Entries, errors: NDArray[np.float64], count: int) -> Floats:
    """Sum over the rows of error times value, for each of `count` features."""
    out = np.zeros(count, np.float64)
    _gradient(*(_frozen(array) for array in (*entries, errors)), out)
    return out.astype(np.float32)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    return frozen(np.ascontiguousarray(array))


@jit
def _shift(table):  # type: ignore[no-untyped-def]
    """By how much a hash is shifted, so that its top bits are a slot."""
    shift = np.uint64(64)
    size = np.uint64(table.shape[0])
    while size > _ONE:
        size >>= _ONE
        shift -= _ONE
    return shift


@jit
def _enter(found, count, table):  # type: ignore[no-untyped-def]
    """Put keys that are all different into an empty table, each with its place."""
    shift, last = _shift(table), np.uint64(table.shape[0] - 1)
    for number in range(count):
        slot = (np.uint64(found[number]) * _GOLDEN) >> shift
        while table[slot] >= 0:
            slot = (slot + _ONE) & last
        table[slot] = number


@jit
def _number(keys, start, count, table, numbers, found):  # type: ignore[no-untyped-def]
    """Number the keys from `start` on by their first appearance; `count` have a number already.

    Stops where the table is half full. Returns the place then, and the number of distinct keys.
    """
    shift, last = _shift(table), np.uint64(table.shape[0] - 1)
    most = table.shape[0] // 2
    for i in range(np.uint64(start), np.uint64(keys.shape[0])):
        key = keys[i]
        slot = (np.uint64(key) * _GOLDEN) >> shift
        number = table[slot]
        while number >= 0 and found[np.uint64(number)] != key:
            slot = (slot + _ONE) & last
            number = table[slot]
        if number < 0:
            if count >= most:
                return np.int64(i), count
            number = np.int32(count)
            table[slot] = number
            found[np.uint64(count)] = key
            count += 1
        numbers[i] = number
    return np.int64(keys.shape[0]), count


@jit
def _bucket(keys, buckets, out):  # type: ignore[no-untyped-def]
    for i in range(keys.shape[0]):
        out[i] = np.int64(mix(np.uint64(keys[i])) % buckets)


@jit
def _logits(indptr, places, values, weights, out):  # type: ignore[no-untyped-def]
    for row in range(indptr.shape[0] - 1):
        total = 0.0
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            total += np.float64(values[i]) * np.float64(weights[np.uint64(places[i])])
        out[row] = total


@jit
def _gradient(indptr, places, values, errors, out):  # type: ignore[no-untyped-def]
    for row in range(indptr.shape[0] - 1):
        error = errors[row]
        for i in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            out[np.uint64(places[i])] += error * np.float64(values[i])
