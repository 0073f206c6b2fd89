"""What the parts of a step pushed to a table, added up in the order of the parts.

Sums are made in float64, whatever the table holds, so that the order of the shards and the number
of servers change nothing, and the number of parts costs no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.shards import (
    Int64s,
    Sections,
    dense_bounds,
    frozen,
    partition,
    shard_bits,
)
from yarnps.protocol.wire import DTYPE_OF, Flag, Header, Message, Op
from yarnps.server.contents import Gradient
from yarnps.server.steps import Contribution
from yarnps.server.store import Store

_KEPT_FLAGS = int(Flag.WHOLE | Flag.RANGES | Flag.PICKED)


class Weighted(NamedTuple):
    """The k-th push of one part to a table, in the pieces that came, and its factor in the sum."""

    factor: float
    pieces: list[Message]


def apply_step(store: Store, contributions: Sequence[Contribution], step: int) -> None:
    """Change every table as a single process would have done with the union of the batches.

    The k-th pushes of all parts to a table are one push: their sum, or (`TableSpec.combine`) their
    mean weighted by rows. Assignments are made one after another.

    Raises
    ------
    WireError
        A table refuses it (it is full, or numbers have become infinite).
    """
    rows = sum(contribution.rows for contribution in contributions)
    for (table, _, op), pushes in sorted(_grouped(contributions).items()):
        if op == Op.ASSIGN:
            for _, messages in pushes:
                for message in messages:
                    store.apply(_plain(message, step))
            continue
        sums = store.tables[table].spec.sums
        shares = [Weighted(1.0 if sums else w / max(rows, 1), m) for w, m in pushes]
        if len(shares) == 1 and shares[0].factor == 1.0:
            for message in shares[0].pieces:
                store.apply(_plain(message, step))
            continue
        store.apply(_plain(_summed(store, shares), step))


def _grouped(
    contributions: Sequence[Contribution],
) -> dict[tuple[int, int, int], list[tuple[int, list[Message]]]]:
    """(table, which of a part's pushes to it, operation) -> (rows, pieces) of each part."""
    groups: dict[tuple[int, int, int], list[tuple[int, list[Message]]]] = {}
    for contribution in contributions:
        pieces: dict[tuple[int, int], list[Message]] = {}
        for message in contribution.pushes:
            key = (message.header.table, message.header.push)
            pieces.setdefault(key, []).append(message)
        nth: dict[int, int] = {}
        for (table, _), messages in sorted(pieces.items(), key=lambda item: item[0]):
            k = nth[table] = nth.get(table, -1) + 1
            group = groups.setdefault((table, k, messages[0].header.op), [])
            group.append((contribution.rows, messages))
    return groups


def _plain(message: Message, step: int) -> Message:
    """As a push outside of a batch, which no marks are kept for."""
    header = message.header
    flags = header.flags & _KEPT_FLAGS
    return message._replace(header=header._replace(flags=flags, clock=step))


def _summed(store: Store, shares: Sequence[Weighted]) -> Message:
    """One message with the sum."""
    gradients = [
        (share.factor, store.gradient(message)) for share in shares for message in share.pieces
    ]
    first = shares[0].pieces[0].header
    if store.tables[first.table].spec.kind == "sparse":
        return _sum_sparse(store, first, gradients)
    return _sum_dense(store, first, gradients)


# ---------------------------------------------------------------------- sparse


def _sum_sparse(store: Store, header: Header, gradients: list[tuple[float, Gradient]]) -> Message:
    """Every key once, with the sum of its rows."""
    every = np.concatenate([gradient.keys for _, gradient in gradients])
    unique, places = np.unique(every, return_inverse=True)
    total = np.zeros((len(unique), header.dim), np.float64)
    first = 0
    for factor, gradient in gradients:
        end = first + len(gradient.keys)
        total[places[first:end]] += factor * gradient.values.astype(np.float64)
        first = end
    position = np.arange(store.shards, dtype=np.int32)
    parted = partition(unique, shard_bits(store.shards), position)
    counts = np.diff(parted.starts)[store.owned]
    sections = np.stack([np.array(store.owned), counts], axis=1).astype(np.uint32)
    dtype = store.tables[header.table].dtype
    return _message(header, sections, parted.keys, total[parted.order].astype(dtype))


# ---------------------------------------------------------------------- dense


def _sum_dense(store: Store, header: Header, gradients: list[tuple[float, Gradient]]) -> Message:
    """Every element that a part has pushed; others see no step of the optimizer."""
    table = store.tables[header.table]
    bounds = dense_bounds(table.spec.elements, store.shards)
    owned = np.array(store.owned, np.int64)
    sizes = bounds[owned + 1] - bounds[owned]
    starts = np.zeros(store.shards, np.int64)
    starts[owned] = np.cumsum(sizes) - sizes
    total = np.zeros(int(sizes.sum()), np.float64)
    touched = np.zeros(len(total), bool)
    for factor, gradient in gradients:
        shards = gradient.sections[:, 0]
        if not len(gradient.keys) and (np.diff(store.places[shards]) == 1).all():
            # The usual case, whole neighbouring shards: their elements are neighbours here, too.
            first = int(starts[shards[0]]) if len(shards) else 0
            part = slice(first, first + len(gradient.values))
            total[part] += factor * gradient.values
            touched[part] = True
            continue
        at = 0
        for shard, low, high in gradient.ranges(bounds):
            place = int(starts[shard] + low - bounds[shard])
            part = slice(place, place + high - low)
            total[part] += factor * gradient.values[at : at + high - low]
            touched[part] = True
            at += high - low
    if touched.all():
        sections = np.stack([owned, np.zeros_like(owned)], axis=1).astype(np.uint32)
        whole = header._replace(flags=int(Flag.WHOLE))
        return _message(whole, sections, None, total.astype(table.dtype))
    return _touched_ranges(header, owned, bounds, starts, total.astype(table.dtype), touched)


def _touched_ranges(
    header: Header,
    owned: Int64s,
    bounds: Int64s,
    starts: Int64s,
    total: NDArray[Any],
    touched: NDArray[np.bool_],
) -> Message:
    """A message with the ranges of elements that are touched, within their shards."""
    sections = np.zeros((len(owned), 2), np.uint32)
    keys: list[int] = []
    for row, shard in enumerate(owned.tolist()):
        size = int(bounds[shard + 1] - bounds[shard])
        mine = touched[starts[shard] : starts[shard] + size]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mine, [False]])))
        sections[row] = shard, len(edges) // 2
        keys += (edges + bounds[shard]).tolist()
    ranges = header._replace(flags=int(Flag.RANGES))
    return _message(ranges, sections, np.array(keys, np.int64), total[touched])


def _message(
    header: Header, sections: Sections, keys: Int64s | None, values: NDArray[Any]
) -> Message:
    # The parts' pushes may have had a shorter form on the wire; their sum has the table's own.
    plain = header._replace(op=int(Op.PUSH), dtype=int(DTYPE_OF[values.dtype.name]), code=0)
    return Message(
        plain,
        frozen(sections),
        b"" if keys is None else frozen(keys),
        frozen(np.ascontiguousarray(values)),
    )
