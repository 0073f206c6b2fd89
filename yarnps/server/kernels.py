"""The hash index of a sparse table, and the initial values of rows.

Every owned shard has a segment of its own: `capacity` slots, each a tag and a row beside it. A
key's hash is a bijection of the key, and its top bits are the shard's, so a slot's tag (the other
bits, and a 1 that says: taken) is the key itself, and finding a key touches no other memory than
its segment. A key's home is ``(t * capacity) >> 32`` where t are the tag's top 32 bits: keys in
the order of their shards walk through memory, and a larger segment is filled by reading the old
one from front to back.

Segments lie anywhere in memory: `tags_at` and `rows_at` have their addresses, by place. To the
other kernels a row is its address, too. A key that has no row is given that of a row of zeros.
Rows are moved as words of 4 bytes, so that these kernels are compiled once for all dtypes.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import inlined, jit, row_at
from yarnps.protocol.shards import mix, shard_of, unmix

_H32 = np.uint64(32)
_ONE = np.uint64(1)

# Initial values: kinds of distribution.
ZEROS, UNIFORM, NORMAL = 0, 1, 2


@inlined
def _home(tag, size):  # type: ignore[no-untyped-def]
    return np.int64(((tag >> _H32) * size) >> _H32)


@inlined
def _row_of(wanted, tags, size, first, row_bytes, none):  # type: ignore[no-untyped-def]
    """The address of the row with a tag, or `none`."""
    at = _home(wanted, size)
    capacity = tags.shape[0]
    while True:
        found = tags[at]
        if found == wanted:
            return first + at * row_bytes
        if found == 0:
            return none
        at += 1
        if at == capacity:
            at = 0


@jit
def find(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, tag, row_bytes, bits, none, rows
):
    """Look keys up; ``rows[i]`` becomes the row's address, or `none`.

    `tag` is any array of tags, for its dtype. Returns (number of keys without a row, number of
    keys that are not of the stated shard).
    """
    missing = 0
    wrong = 0
    i = 0
    for s in range(sections.shape[0]):
        shard = np.uint64(sections[s, 0])
        place = places[sections[s, 0]]
        capacity = sizes[place]
        size = np.uint64(capacity)
        tags = row_at(tags_at[place], capacity, tag)
        first = rows_at[place]
        for _ in range(sections[s, 1]):
            h = mix(np.uint64(keys[i]))
            wrong += shard_of(h, bits) != shard
            row = _row_of((h << np.uint64(bits)) | _ONE, tags, size, first, row_bytes, none)
            missing += row == none
            rows[i] = row
            i += 1
    return missing, wrong


@jit
def find_moved(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, tag, row_bytes, bits, none, moved, rows
):
    """Look those keys up again whose segments have moved; `moved` is by place."""
    i = 0
    for s in range(sections.shape[0]):
        place = places[sections[s, 0]]
        end = i + np.int64(sections[s, 1])
        if moved[place]:
            size = np.uint64(sizes[place])
            tags = row_at(tags_at[place], sizes[place], tag)
            for j in range(i, end):
                wanted = (mix(np.uint64(keys[j])) << np.uint64(bits)) | _ONE
                rows[j] = _row_of(wanted, tags, size, rows_at[place], row_bytes, none)
        i = end


@jit
def insert(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, tag, row_bytes, bits, none, rows, used, limits
):
    """Give every key whose row is `none` one, as long as its segment is not at its limit."""
    i = 0
    for s in range(sections.shape[0]):
        place = places[sections[s, 0]]
        capacity = sizes[place]
        size = np.uint64(capacity)
        tags = row_at(tags_at[place], capacity, tag)
        for _ in range(sections[s, 1]):
            if rows[i] == none and used[place] < limits[place]:
                wanted = (mix(np.uint64(keys[i])) << np.uint64(bits)) | _ONE
                at = _home(wanted, size)
                while tags[at] != 0 and tags[at] != wanted:
                    at += 1
                    if at == capacity:
                        at = 0
                if tags[at] == 0:
                    tags[at] = wanted
                    used[place] += 1
                rows[i] = rows_at[place] + at * row_bytes
            i += 1


@jit
def count(sections, places, counts):  # type: ignore[no-untyped-def]
    """One more for every shard that is named."""
    for s in range(sections.shape[0]):
        counts[places[sections[s, 0]]] += 1


@jit
def missing_of(rows, none, sections, counts):  # type: ignore[no-untyped-def]
    """How many keys of each section have no row."""
    i = 0
    for s in range(sections.shape[0]):
        n = 0
        for _ in range(sections[s, 1]):
            n += rows[i] == none
            i += 1
        counts[s] = n


@jit
def rebuild(tags, words, kept, new_tags, new_words):  # type: ignore[no-untyped-def]
    """Fill a segment (zeros) with the kept slots of another. Returns how many."""
    capacity = new_tags.shape[0]
    size = np.uint64(capacity)
    width = words.shape[1]
    count = 0
    for j in range(tags.shape[0]):
        tag = tags[j]
        if tag != 0 and kept[j]:
            at = _home(tag, size)
            while new_tags[at] != 0:
                at += 1
                if at == capacity:
                    at = 0
            new_tags[at] = tag
            for k in range(width):
                new_words[at, k] = words[j, k]
            count += 1
    return count


@jit
def keys_of(tags, shard, bits, keys):  # type: ignore[no-untyped-def]
    """The keys in a segment, in the order of its slots."""
    n = 0
    top = np.uint64(shard) << np.uint64(64 - bits)
    for j in range(tags.shape[0]):
        tag = tags[j]
        if tag != 0:
            keys[n] = np.int64(unmix(top | ((tag ^ _ONE) >> np.uint64(bits))))
            n += 1


@jit
def write_rows(rows, words):  # type: ignore[no-untyped-def]
    """Set rows, word by word."""
    width = words.shape[1]
    for i in range(rows.shape[0]):
        row = row_at(rows[i], width, words)
        for k in range(width):
            row[k] = words[i, k]


@jit
def stamp_rows(rows, offset, none, clocks, clock):  # type: ignore[no-untyped-def]
    """Note the clock, a uint32 `offset` bytes into each row; `clocks` is any array of them."""
    for i in range(rows.shape[0]):
        if rows[i] != none:
            row_at(rows[i] + offset, 1, clocks)[0] = clock


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
