"""The hash index of a sparse table, and the initial values of rows.

Every owned shard has a segment of its own: `capacity` slots, each a tag and a row beside it. A
key's hash is a bijection of the key, and its top bits are the shard's, so a slot's tag (the other
bits, and a 1 that says: taken) is the key itself, and finding a key touches no other memory than
its segment. A key's home is ``(t * capacity) >> 32`` where t are the tag's top 32 bits: keys in
the order of their shards walk through memory, and a larger segment is filled by reading the old
one from front to back.

Segments lie anywhere in memory: `tags_at` and `rows_at` have the addresses of their first tag and
row, by place; from one tag to the next it is `tag_step` bytes, from row to row `row_step`. To the
other kernels a row is its address, too. A key that has no row is given that of a row of zeros.
Rows are moved as words of 4 bytes, so that these kernels are compiled once for all dtypes.

A table is larger than a core's cache, and a key's slot may be anywhere in its segment. So while
the keys of one section are looked up, the homes of the next one's are on their way already.
"""

from __future__ import annotations

import numpy as np

from yarnps._kernels import fetch, inlined, jit, row_at
from yarnps.protocol.shards import mix, shard_of, unmix

_H32 = np.uint64(32)
_ONE = np.uint64(1)

# Rows of at most so many bytes that are not beside their tag are fetched with it: the row of a key
# is then in the same cache line as its home's, or the next. Wider ones lie too far from it.
_NARROW = 16

# Initial values: kinds of distribution.
ZEROS, UNIFORM, NORMAL = 0, 1, 2


@inlined
def _home(tag, size):  # type: ignore[no-untyped-def]
    return np.int64(((tag >> _H32) * size) >> _H32)


@inlined
def _row_of(wanted, tags_at, rows_at, capacity, steps, tag, none):  # type: ignore[no-untyped-def]
    """The address of the row with a tag, or `none`."""
    tag_step, row_step = steps
    at = _home(wanted, np.uint64(capacity))
    while True:
        found = row_at(tags_at + at * tag_step, 1, tag)[0]
        if found == wanted:
            return rows_at + at * row_step
        if found == 0:
            return none
        at += 1
        if at == capacity:
            at = 0


@inlined
def _fetch_homes(keys, first, end, tags_at, rows_at, capacity, steps, bits):  # type: ignore[no-untyped-def]
    """Have the homes of keys brought into the cache, without waiting for them."""
    tag_step, row_step = steps
    apart = row_step <= _NARROW and row_step != tag_step
    for i in range(first, end):
        at = _home((mix(np.uint64(keys[i])) << np.uint64(bits)) | _ONE, np.uint64(capacity))
        fetch(tags_at + at * tag_step)
        if apart:
            fetch(rows_at + at * row_step)


@jit
def find(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, steps, tag, bits, none, rows
):
    """Look keys up; ``rows[i]`` becomes the row's address, or `none`.

    `steps` is (tag_step, row_step); `tag` any array of tags, for its dtype. Returns (number of
    keys without a row, number of keys that are not of the stated shard).
    """
    missing = 0
    wrong = 0
    i = fetched = 0
    for s in range(sections.shape[0] + 1):
        if s < sections.shape[0]:
            begin, fetched = fetched, fetched + np.int64(sections[s, 1])
            p = places[sections[s, 0]]
            _fetch_homes(keys, begin, fetched, tags_at[p], rows_at[p], sizes[p], steps, bits)
        if s > 0:
            shard = np.uint64(sections[s - 1, 0])
            p = places[sections[s - 1, 0]]
            first_tag, first_row, capacity = tags_at[p], rows_at[p], sizes[p]
            for _ in range(sections[s - 1, 1]):
                h = mix(np.uint64(keys[i]))
                wrong += shard_of(h, bits) != shard
                wanted = (h << np.uint64(bits)) | _ONE
                row = _row_of(wanted, first_tag, first_row, capacity, steps, tag, none)
                missing += row == none
                rows[i] = row
                i += 1
    return missing, wrong


@jit
def find_again(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, steps, tag, bits, none, moved, absent, rows
):
    """Look those keys up again whose segments have moved (`moved` is by place), and with `absent`
    those that had no row. Returns the number of keys without a row."""
    missing = 0
    i = 0
    for s in range(sections.shape[0]):
        p = places[sections[s, 0]]
        first_tag, first_row, capacity = tags_at[p], rows_at[p], sizes[p]
        for _ in range(sections[s, 1]):
            if moved[p] or (absent and rows[i] == none):
                wanted = (mix(np.uint64(keys[i])) << np.uint64(bits)) | _ONE
                rows[i] = _row_of(wanted, first_tag, first_row, capacity, steps, tag, none)
            missing += rows[i] == none
            i += 1
    return missing


@jit
def insert(  # type: ignore[no-untyped-def]
    keys, sections, places, tags_at, rows_at, sizes, steps, tag, bits, none, rows, used, limits
):
    """Give every key whose row is `none` one, as long as its segment is not at its limit."""
    tag_step, row_step = steps
    i = 0
    for s in range(sections.shape[0]):
        p = places[sections[s, 0]]
        capacity = sizes[p]
        for _ in range(sections[s, 1]):
            if rows[i] == none and used[p] < limits[p]:
                wanted = (mix(np.uint64(keys[i])) << np.uint64(bits)) | _ONE
                at = _home(wanted, np.uint64(capacity))
                slot = row_at(tags_at[p] + at * tag_step, 1, tag)
                while slot[0] != 0 and slot[0] != wanted:
                    at += 1
                    if at == capacity:
                        at = 0
                    slot = row_at(tags_at[p] + at * tag_step, 1, tag)
                if slot[0] == 0:
                    slot[0] = wanted
                    used[p] += 1
                rows[i] = rows_at[p] + at * row_step
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
