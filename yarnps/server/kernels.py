"""The hash index of a sparse table, and the initial values of rows.

The index keeps one segment of `capacity` slots per owned shard. A key's home in its segment is
``(f * capacity) >> 32`` where f are the 32 hash bits below the shard's, so that keys in the order
of their shards walk through memory, and a larger index is filled by reading the old one from
front to back. A slot is ``f << 32 | row``; row 0 means: empty. Row 0 of a table therefore belongs
to no key; it holds zeros, and a key that has no row is gathered from it.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import inlined, jit
from yarnps.protocol.shards import mix, shard_of

_ROW = np.uint64(0xFFFFFFFF)
_H32 = np.uint64(32)

# Initial values: kinds of distribution.
ZEROS, UNIFORM, NORMAL = 0, 1, 2


@jit
def find(keys, sections, places, slots, capacity, row_keys, bits, rows):  # type: ignore[no-untyped-def]
    """Look keys up; ``rows[i]`` becomes the row, or 0.

    Returns (number of keys without a row, number of keys that are not of the stated shard).
    """
    missing = 0
    wrong = 0
    i = 0
    size = np.uint64(capacity)
    for s in range(sections.shape[0]):
        shard = np.uint64(sections[s, 0])
        base = places[sections[s, 0]] * capacity
        for _ in range(sections[s, 1]):
            key = keys[i]
            h = mix(np.uint64(key))
            wrong += shard_of(h, bits) != shard
            f = (h << np.uint64(bits)) >> _H32
            at = np.int64((f * size) >> _H32)
            row = np.int64(0)
            while True:
                slot = slots[base + at]
                if slot == 0:
                    missing += 1
                    break
                if (slot >> _H32) == f and row_keys[np.int64(slot & _ROW)] == key:
                    row = np.int64(slot & _ROW)
                    break
                at += 1
                if at == capacity:
                    at = 0
            rows[i] = row
            i += 1
    return missing, wrong


@jit
def insert(keys, sections, places, slots, capacity, row_keys, bits, rows, used, next_row):  # type: ignore[no-untyped-def]
    """Give every key whose row is 0 the next row. There must be room. Returns the next free row."""
    i = 0
    size = np.uint64(capacity)
    for s in range(sections.shape[0]):
        place = places[sections[s, 0]]
        base = place * capacity
        for _ in range(sections[s, 1]):
            if rows[i] == 0:
                key = keys[i]
                h = mix(np.uint64(key))
                f = (h << np.uint64(bits)) >> _H32
                at = np.int64((f * size) >> _H32)
                while True:
                    slot = slots[base + at]
                    if slot == 0:
                        slots[base + at] = (f << _H32) | np.uint64(next_row)
                        row_keys[next_row] = key
                        rows[i] = next_row
                        used[place] += 1
                        next_row += 1
                        break
                    if (slot >> _H32) == f and row_keys[np.int64(slot & _ROW)] == key:
                        rows[i] = np.int64(slot & _ROW)
                        break
                    at += 1
                    if at == capacity:
                        at = 0
            i += 1
    return next_row


@jit
def missing_of(rows, sections, counts):  # type: ignore[no-untyped-def]
    """How many keys of each section have no row."""
    i = 0
    for s in range(sections.shape[0]):
        n = 0
        for _ in range(sections[s, 1]):
            n += rows[i] == 0
            i += 1
        counts[s] = n


@jit
def rebuild(old, old_capacity, new, capacity, places):  # type: ignore[no-untyped-def]
    """Fill a larger index (zeros) from a smaller one."""
    size = np.uint64(capacity)
    for place in range(places):
        base = place * capacity
        for j in range(place * old_capacity, (place + 1) * old_capacity):
            slot = old[j]
            if slot != 0:
                at = np.int64(((slot >> _H32) * size) >> _H32)
                while new[base + at] != 0:
                    at += 1
                    if at == capacity:
                        at = 0
                new[base + at] = slot


@jit
def rows_of_segment(slots, start, end, out):  # type: ignore[no-untyped-def]
    """The rows that a segment points to; returns how many."""
    n = 0
    for j in range(start, end):
        if slots[j] != 0:
            out[n] = np.int64(slots[j] & _ROW)
            n += 1
    return n


@inlined
def _unit(h):  # type: ignore[no-untyped-def]
    """A float64 in [0, 1) of a hash."""
    return np.float64(h >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def initial(keys, seed, kind, a, b, out):  # type: ignore[no-untyped-def]
    """Rows' values before the first push: a function of (seed, key, column).

    `seed` mixes the job's seed and the table. UNIFORM: in [a, b). NORMAL: standard deviation a
    (Box and Muller 1958).
    """
    for i in range(keys.shape[0]):
        base = mix(np.uint64(keys[i]) ^ seed)
        for j in range(out.shape[1]):
            h = mix(base + np.uint64(j))
            u = _unit(h)
            if kind == UNIFORM:
                out[i, j] = a + (b - a) * u
            else:
                v = _unit(mix(h))
                out[i, j] = a * np.sqrt(-2.0 * np.log(1.0 - u)) * np.cos(2.0 * np.pi * v)
