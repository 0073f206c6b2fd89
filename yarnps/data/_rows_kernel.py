# mypy: disallow_untyped_defs=False, disallow_untyped_decorators=False, disallow_untyped_calls=False
"""Entries of rows moved about, compiled. Import it late: numba takes a third of a second."""

from __future__ import annotations

import numpy as np

from yarnps._kernels import jit


@jit
def take_entries(indptr, keys, values, order, to_keys, to_values):
    """The entries of the rows named by `order`, one row after the other.

    Indices are unsigned: for signed ones each access would first look whether it counts from the
    end, and the loops would not become copies of whole vectors.
    """
    at = np.uint64(0)
    for place in range(len(order)):
        row = order[place]
        first = np.uint64(indptr[row])
        count = np.uint64(indptr[row + 1]) - first
        for i in range(count):
            to_keys[at + np.uint64(i)] = keys[first + np.uint64(i)]
        for i in range(count):
            to_values[at + np.uint64(i)] = values[first + np.uint64(i)]
        at += count


@jit
def put_entries(indptr, keys, values, places, to_keys, to_values):
    """The entries of row i to `places[i]` and after, for all rows."""
    for row in range(len(places)):
        at, first = np.uint64(places[row]), np.uint64(indptr[row])
        count = np.uint64(indptr[row + 1]) - first
        for i in range(count):
            to_keys[at + np.uint64(i)] = keys[first + np.uint64(i)]
        for i in range(count):
            to_values[at + np.uint64(i)] = values[first + np.uint64(i)]
