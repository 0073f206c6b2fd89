"""The hash index of a sparse table, and the initial values of rows.

The index keeps one segment of `capacity` slots per owned shard. A key's hash is a bijection of the
key, and its top bits are the shard's, so a slot's tag (the other bits, and a 1 that says: taken)
is the key itself, and finding a key touches no other memory than its segment. A key's home is
``(t * capacity) >> 32`` where t are the tag's top 32 bits: keys in the order of their shards walk
through memory, and a larger index is filled by reading the old one from front to back.

`rows` has the row of each slot. Row 0 of a table belongs to no key; it holds zeros, and a key that
has no row is gathered from it.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import inlined, jit
from yarnps.protocol.shards import mix, shard_of, unmix

_H32 = np.uint64(32)
_ONE = np.uint64(1)

# Initial values: kinds of distribution.
ZEROS, UNIFORM, NORMAL = 0, 1, 2


@jit
def find(keys, sections, places, tags, rows_of, capacity, bits, rows):  # type: ignore[no-untyped-def]
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
            h = mix(np.uint64(keys[i]))
            wrong += shard_of(h, bits) != shard
            tag = (h << np.uint64(bits)) | _ONE
            at = np.int64(((tag >> _H32) * size) >> _H32)
            row = np.int64(0)
            while True:
                found = tags[base + at]
                if found == tag:
                    row = np.int64(rows_of[base + at])
                    break
                if found == 0:
                    missing += 1
                    break
                at += 1
                if at == capacity:
                    at = 0
            rows[i] = row
            i += 1
    return missing, wrong


@jit
def insert(keys, sections, places, tags, rows_of, capacity, bits, rows, used, next_row):  # type: ignore[no-untyped-def]
    """Give every key whose row is 0 the next row. There must be room. Returns the next free row."""
    i = 0
    size = np.uint64(capacity)
    for s in range(sections.shape[0]):
        place = places[sections[s, 0]]
        base = place * capacity
        for _ in range(sections[s, 1]):
            if rows[i] == 0:
                tag = (mix(np.uint64(keys[i])) << np.uint64(bits)) | _ONE
                at = np.int64(((tag >> _H32) * size) >> _H32)
                while tags[base + at] != 0 and tags[base + at] != tag:
                    at += 1
                    if at == capacity:
                        at = 0
                if tags[base + at] == 0:
                    tags[base + at] = tag
                    rows_of[base + at] = next_row
                    used[place] += 1
                    next_row += 1
                rows[i] = np.int64(rows_of[base + at])
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
def rebuild(tags, rows_of, old_capacity, new_tags, new_rows, capacity, places):  # type: ignore[no-untyped-def]
    """Fill a larger index (zeros) from a smaller one."""
    size = np.uint64(capacity)
    for place in range(places):
        base = place * capacity
        for j in range(place * old_capacity, (place + 1) * old_capacity):
            tag = tags[j]
            if tag != 0:
                at = np.int64(((tag >> _H32) * size) >> _H32)
                while new_tags[base + at] != 0:
                    at += 1
                    if at == capacity:
                        at = 0
                new_tags[base + at] = tag
                new_rows[base + at] = rows_of[j]


@jit
def read_segment(tags, rows_of, start, end, shard, bits, keys, rows):  # type: ignore[no-untyped-def]
    """The keys and rows of a shard's segment; returns how many."""
    n = 0
    top = np.uint64(shard) << np.uint64(64 - bits)
    for j in range(start, end):
        tag = tags[j]
        if tag != 0:
            keys[n] = np.int64(unmix(top | ((tag ^ _ONE) >> np.uint64(bits))))
            rows[n] = np.int64(rows_of[j])
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
