"""Which shard a key or an element belongs to, and keys brought into the order of shards.

Sparse: the top bits of the key's mixed hash (the finaliser of splitmix64, Steele et al. 2014).
Dense: shard s of S holds the elements [n * s // S, n * (s + 1) // S).
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from yarnps._kernels import inlined, jit

Scalar = TypeVar("Scalar", bound=np.generic)

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Sections = NDArray[np.uint32]  # pairs (shard, number of keys)

_64 = (1 << 64) - 1


@inlined
def mix(key):  # type: ignore[no-untyped-def]
    """64-bit hash of a 64-bit number, both uint64. A bijection."""
    h = key + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@inlined
def unmix(h):  # type: ignore[no-untyped-def]
    """The number whose hash this is: the multipliers are the inverses of those in `mix`."""
    h = (h ^ (h >> np.uint64(31)) ^ (h >> np.uint64(62))) * np.uint64(0x319642B2D24D8EC3)
    h = (h ^ (h >> np.uint64(27)) ^ (h >> np.uint64(54))) * np.uint64(0x96DE1B173F119089)
    h = h ^ (h >> np.uint64(30)) ^ (h >> np.uint64(60))
    return h - np.uint64(0x9E3779B97F4A7C15)


@inlined
def shard_of(h, bits):  # type: ignore[no-untyped-def]
    """The top `bits` of a hash."""
    return h >> np.uint64(64 - bits)


@jit
def _count(keys, bits, position, slots, counts):  # type: ignore[no-untyped-def]
    for i in range(keys.shape[0]):
        h = mix(np.uint64(keys[i]))
        slot = position[shard_of(h, bits)]
        slots[i] = slot
        counts[slot] += 1


@jit
def _scatter(keys, slots, starts, out, order):  # type: ignore[no-untyped-def]
    for i in range(keys.shape[0]):
        slot = slots[i]
        j = starts[slot]
        starts[slot] = j + 1
        out[j] = keys[i]
        order[j] = i


@jit
def place_few(keys, bits, position, by_position, bounds):  # type: ignore[no-untyped-def]
    """Few keys in the order of their shards' positions, with all that their messages need.

    Parameters
    ----------
    keys
        Read-only, some dozens of them.
    by_position
        The shard at each position.
    bounds
        For each server where its positions end.

    Returns
    -------
    out, order
        ``out[j]`` is the key ``keys[order[j]]``.
    sections
        Pairs (shard, number of its keys).
    ends
        For each server where its sections end and where its keys end.
    """
    n = keys.shape[0]
    starts = np.zeros(position.shape[0] + 1, np.int64)
    for i in range(n):
        starts[position[shard_of(mix(np.uint64(keys[i])), bits)] + 1] += 1
    sections = np.empty((n, 2), np.uint32)
    ends = np.empty((bounds.shape[0], 2), np.int64)
    named, slot = 0, 0
    for server in range(bounds.shape[0]):
        while slot < bounds[server]:
            count = starts[slot + 1]
            if count:
                sections[named, 0] = by_position[slot]
                sections[named, 1] = count
                named += 1
            starts[slot + 1] += starts[slot]
            slot += 1
        ends[server, 0] = named
        ends[server, 1] = starts[slot]
    out, order = np.empty(n, np.int64), np.empty(n, np.int32)
    for i in range(n):
        slot = position[shard_of(mix(np.uint64(keys[i])), bits)]
        out[starts[slot]] = keys[i]
        order[starts[slot]] = i
        starts[slot] += 1
    return out, order, sections, ends


@jit
def _increasing(keys):  # type: ignore[no-untyped-def]
    wrong = 0
    for i in range(1, keys.shape[0]):
        wrong += keys[i] <= keys[i - 1]
    return wrong == 0


@jit
def look_over(sections, places):  # type: ignore[no-untyped-def]
    """What a message names: (highest shard, shards whose place is below 0, number of keys).

    The second is of use only where the first is a shard that there is.
    """
    highest, foreign, keys = 0, 0, 0
    for i in range(sections.shape[0]):
        shard = np.int64(sections[i, 0])
        highest = max(highest, shard)
        foreign += shard >= places.shape[0] or places[shard] < 0
        keys += np.int64(sections[i, 1])
    return highest, foreign, keys


@jit
def take_rows(values, order, out):  # type: ignore[no-untyped-def]
    """``out[j] = values[order[j]]``."""
    dim = values.shape[1]
    if dim == 1:
        for j in range(order.shape[0]):
            out[j, 0] = values[order[j], 0]
    else:
        for j in range(order.shape[0]):
            source, target = values[order[j]], out[j]
            for k in range(dim):
                target[k] = source[k]


@jit
def put_rows(values, order, out):  # type: ignore[no-untyped-def]
    """``out[order[j]] = values[j]``."""
    dim = values.shape[1]
    if dim == 1:
        for j in range(order.shape[0]):
            out[order[j], 0] = values[j, 0]
    else:
        for j in range(order.shape[0]):
            source, target = values[j], out[order[j]]
            for k in range(dim):
                target[k] = source[k]


@jit
def add_rows(values, order, out):  # type: ignore[no-untyped-def]
    """``out[order[j]] += values[j]``, in order."""
    for j in range(order.shape[0]):
        source, target = values[j], out[order[j]]
        for k in range(values.shape[1]):
            target[k] += source[k]


def shard_of_key(key: int, bits: int) -> int:
    """The shard of one key; for one, this is faster than a kernel."""
    h = (key + 0x9E3779B97F4A7C15) & _64
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & _64
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & _64
    return (h ^ (h >> 31)) >> (64 - bits)


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view: kernels are compiled for this kind of argument only."""
    view: NDArray[Scalar] = array.view()
    view.flags.writeable = False
    return view


def shard_bits(shards: int) -> int:
    """log2 of the number of shards, a power of two above 1 (an index needs one spare bit)."""
    bits = shards.bit_length() - 1
    if shards < 2 or shards != 1 << bits:
        raise ValueError(f"{shards} shards: not a power of two from 2 on")
    return bits


class Partition(NamedTuple):
    """Keys in the order of their shards' positions.

    Attributes
    ----------
    keys
        ``keys[j]`` is the given key number ``order[j]``.
    starts
        Position p's keys are ``keys[starts[p]:starts[p + 1]]``.
    """

    keys: Int64s
    order: Int32s
    starts: Int64s


def partition(keys: Int64s, bits: int, position: Int32s) -> Partition:
    """Order keys by the position of their shard, keeping their order within a shard."""
    n = len(keys)
    keys = frozen(keys)
    slots = np.empty(n, np.int32)
    counts = np.zeros(len(position) + 1, np.int64)
    _count(keys, bits, position, slots, counts[1:])
    starts = np.cumsum(counts)
    out, order = np.empty(n, np.int64), np.empty(n, np.int32)
    _scatter(keys, slots, starts.copy(), out, order)
    return Partition(out, order, starts)


def strictly_increasing(keys: Int64s) -> bool:
    """Sorted, and no key twice."""
    return bool(_increasing(frozen(keys)))


def shard_numbers(keys: Int64s, bits: int) -> Int32s:
    """The shard of each key."""
    n = len(keys)
    slots = np.empty(n, np.int32)
    size = 1 << bits
    _count(frozen(keys), bits, np.arange(size, dtype=np.int32), slots, np.zeros(size, np.int64))
    return slots


def dense_bounds(elements: int, shards: int) -> Int64s:
    """Where each shard's elements begin, and the end: shards + 1 numbers."""
    return np.array([elements * shard // shards for shard in range(shards + 1)], np.int64)
