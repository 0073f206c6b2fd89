"""Cutting a call into requests: one or more for each server, keys in the order of shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.codecs import form_of_places
from yarnps.protocol.shards import (
    Int64s,
    Partition,
    Sections,
    dense_bounds,
    frozen,
    partition,
    place_few,
    shard_bits,
    shard_of_key,
    take_rows,
)
from yarnps.protocol.tables import TableSpec

# A request longer than this is cut between shards: one piece is worked on while the next is on its
# way, all of them in memory that the processor's cache holds, and a server answers others between.
PART_BYTES = 1 << 20

# Of so many read-only arrays of keys the order is kept: those of the batch that is worked on, and
# of the few that are read ahead.
KNOWN_ORDERS = 12

_FIRST = np.zeros(1, np.int32)


class Part(NamedTuple):
    """The piece of a call that goes to one server in one request.

    Attributes
    ----------
    sections
        Its shards and how many keys (dense with ranges: ranges) each has.
    keys
        None where the operation has none.
    values
        What is pushed or assigned; None otherwise.
    places
        Where the answer's rows go: sparse: numbers of the caller's keys; dense: pairs (first
        element, end) in the order of the answer.
    picked
        Where only some of the elements are pushed: which of the request's elements `values` are.
    """

    server: int
    sections: Sections
    keys: NDArray[Any] | None
    values: NDArray[Any] | None
    places: NDArray[Any] | None
    picked: NDArray[Any] | None = None

    @property
    def nbytes(self) -> int:
        arrays = (self.keys, self.values, self.picked)
        return self.sections.nbytes + sum(array.nbytes for array in arrays if array is not None)


class Router:
    """Who has which shard, by one version of the routes."""

    def __init__(self, routes: pb.Routes) -> None:
        self.version = routes.version
        self.generation = routes.generation
        self.servers = [server.server_rank for server in routes.servers]
        ranks = np.array(self.servers, np.int64)
        self.owner = ranks[np.array(routes.owner, np.int64)]
        self.shards = len(self.owner)
        self.bits = shard_bits(self.shards)
        # Shards in the order of their servers, so that each server's keys end up side by side.
        self._order = np.lexsort((np.arange(self.shards), self.owner)).astype(np.int64)
        self._position = np.empty(self.shards, np.int32)
        # The newest first. Replaced as a whole: threads may share a router.
        self._known: tuple[tuple[Int64s, Partition], ...] = ()
        self._position[self._order] = np.arange(self.shards, dtype=np.int32)
        # The same for every call: by number of elements and their size.
        self._dense: dict[tuple[int, int], list[Part]] = {}
        owners = self.owner[self._order]
        # The servers in the order of their positions, and where those of each end.
        self._in_order = sorted(self.servers)
        self._bounds = np.searchsorted(owners, self._in_order, side="right")
        self._slices = {
            server: (int(np.searchsorted(owners, server)), int(np.searchsorted(owners, server + 1)))
            for server in self.servers
        }

    def shards_of(self, server: int) -> Int64s:
        """The shards of a server, in the order of its messages."""
        a, b = self._slices[server]
        return self._order[a:b]

    def all_sections(self, server: int) -> Sections:
        """All shards of a server, without keys."""
        shards = self.shards_of(server)
        return np.stack([shards, np.zeros_like(shards)], axis=1).astype(np.uint32)

    # ------------------------------------------------------------------ sparse

    def sparse(
        self, keys: Int64s, values: NDArray[Any] | None, row_bytes: int, *, announce: bool
    ) -> Iterator[Part]:
        """Requests for keys.

        Parameters
        ----------
        values
            One row for each key, or None.
        row_bytes
            Bytes of a row in either direction: longer requests are cut.
        announce
            Name every shard of every server, also those without keys, so that marks move on.
        """
        return self._parts_of(self.parted(keys), values, row_bytes, announce)

    def _parts_of(
        self, parted: Partition, values: NDArray[Any] | None, row_bytes: int, announce: bool
    ) -> Iterator[Part]:
        if values is not None:
            ordered = np.empty_like(values)
            take_rows(frozen(values), parted.order, ordered)
            values = ordered
        for server in self.servers:
            a, b = self._slices[server]
            for low, high in _cuts(parted.starts, a, b, 8 + row_bytes):
                first, end = int(parted.starts[low]), int(parted.starts[high])
                if end > first or (announce and high > low):
                    yield Part(
                        server,
                        self._sections(parted, low, high, announce),
                        parted.keys[first:end],
                        None if values is None else values[first:end],
                        parted.order[first:end],
                    )

    def parted(self, keys: Int64s) -> Partition:
        """The keys by shard. The same read-only array again, as for the push of what has just been
        pulled, is not brought into order twice."""
        for known, parted in self._known:
            if known is keys:
                return parted
        parted = partition(keys, self.bits, self._position)
        if not keys.flags.writeable:
            self._known = ((keys, parted), *self._known[: KNOWN_ORDERS - 1])
        return parted

    def _sections(self, parted: Partition, low: int, high: int, announce: bool) -> Sections:
        counts = np.diff(parted.starts[low : high + 1])
        sections = np.empty((high - low, 2), np.uint32)
        sections[:, 0] = self._order[low:high]
        sections[:, 1] = counts
        return sections if announce else sections[counts > 0]

    def small(self, keys: Int64s, values: NDArray[Any] | None, spec: TableSpec) -> list[Part]:
        """Requests for few keys, which may be repeated: each row is applied on its own.

        Keys and values are read-only arrays.
        """
        if len(keys) == 1:
            shard = shard_of_key(keys.item(0), self.bits)
            sections = np.array([[shard, 1]], np.uint32)
            return [Part(self.owner.item(shard), sections, keys, values, _FIRST)]
        placed = place_few(keys, self.bits, self._position, self._order, self._bounds)
        ordered, order, sections, ends = placed
        rows = None
        if values is not None:
            rows = np.empty_like(values)
            take_rows(values, order, rows)
        found, first, begin = [], 0, 0
        for server, (last, end) in zip(self._in_order, ends.tolist(), strict=True):
            if end > begin:
                part = slice(begin, end)
                mine = None if rows is None else rows[part]
                found.append(Part(server, sections[first:last], ordered[part], mine, order[part]))
            first, begin = last, end
        return found

    # ------------------------------------------------------------------ dense

    def dense(self, spec: TableSpec, values: NDArray[Any] | None) -> Iterator[Part]:
        """Requests for all elements; `values` is flat."""
        key = (spec.elements, spec.itemsize)
        blocks = self._dense.get(key)
        if blocks is None:
            blocks = self._dense[key] = list(self._dense_blocks(spec))
        for block in blocks:
            assert block.places is not None
            yield (
                block if values is None else block._replace(values=_elements(values, block.places))
            )

    def _dense_blocks(self, spec: TableSpec) -> Iterator[Part]:
        """The requests for a whole dense table, without values."""
        bounds = dense_bounds(spec.elements, self.shards)
        for server in self.servers:
            shards = self.shards_of(server)
            sizes = np.concatenate([[0], np.cumsum(bounds[shards + 1] - bounds[shards])])
            for low, high in _cuts(sizes, 0, len(shards), spec.itemsize):
                named = shards[low:high]
                places = _joined(bounds[named], bounds[named + 1])
                sections = np.stack([named, np.zeros_like(named)], axis=1).astype(np.uint32)
                yield Part(server, sections, None, None, places)

    def ranges(
        self, spec: TableSpec, first: int, end: int, values: NDArray[Any] | None, *, announce: bool
    ) -> Iterator[Part]:
        """Requests for the elements [first, end); `values` begins with element `first`.

        Places are relative to `first`.
        """
        bounds = dense_bounds(spec.elements, self.shards)
        for server in self.servers:
            shards = self.shards_of(server)
            low = np.clip(bounds[shards], first, end)
            high = np.clip(bounds[shards + 1], first, end)
            sizes = np.concatenate([[0], np.cumsum(np.maximum(high - low, 0))])
            for a, b in _cuts(sizes, 0, len(shards), spec.itemsize):
                touched = high[a:b] > low[a:b]
                if not (announce or touched.any()):
                    continue
                sections = np.stack([shards[a:b], touched], axis=1).astype(np.uint32)
                kept = sections if announce else sections[touched]
                pairs = np.stack([low[a:b], high[a:b]], axis=1)[touched].astype(np.int64)
                places = pairs - first
                yield Part(server, kept, pairs.reshape(-1), _elements(values, places), places)

    # ------------------------------------------------------------------ routes that changed

    def again(self, part: Part, spec: TableSpec) -> Iterator[Part]:
        """The same request for the servers that have its shards now."""
        owners = self.owner[part.sections[:, 0].astype(np.int64)]
        if len(owners) and (owners == owners[0]).all():
            yield part._replace(server=int(owners[0]))
            return
        for server in np.unique(owners):
            yield _pick(part, owners == server, spec, self.shards)._replace(server=int(server))


def some_of(parts: Iterable[Part], values: NDArray[Any], chosen: Int64s) -> Iterator[Part]:
    """Requests for a dense table, with those of their elements that are chosen.

    Parameters
    ----------
    values
        The chosen elements.
    chosen
        Which ones they are, as the requests' places count, in increasing order.
    """
    for part in parts:
        assert part.places is not None
        first, end = part.places[:, 0], part.places[:, 1]
        # From such a place to one among the request's elements.
        shifts = np.cumsum(end - first) - end
        bounds = np.searchsorted(chosen, part.places).tolist()
        mine = [chosen[a:b] + shift for (a, b), shift in zip(bounds, shifts, strict=True)]
        picked = np.concatenate([chosen[:0], *mine])
        yield part._replace(
            values=np.concatenate([values[:0], *(values[a:b] for a, b in bounds)]),
            picked=picked.astype(form_of_places(int((end - first).sum()))),
        )


def _pick(part: Part, mine: NDArray[np.bool_], spec: TableSpec, shards: int) -> Part:
    """What a request has of some of its shards."""
    sections, places = part.sections[mine], part.places
    keys = part.keys
    if keys is not None and keys.dtype == np.uint8:  # a function's text is the same for all
        return part._replace(sections=sections)
    if spec.kind == "dense" and keys is None:
        bounds = dense_bounds(spec.elements, shards)
        named = part.sections[:, 0].astype(np.int64)
        chosen = np.repeat(mine, bounds[named + 1] - bounds[named])
        if places is not None:
            places = _joined(bounds[named[mine]], bounds[named[mine] + 1])
    else:
        chosen = np.repeat(mine, part.sections[:, 1].astype(np.int64))
        if keys is not None:
            per_key = 2 if spec.kind == "dense" else 1
            keys = keys[np.repeat(chosen, per_key)]
        if places is not None:
            lengths = places[:, 1] - places[:, 0] if spec.kind == "dense" else None
            places = places[chosen]
            chosen = chosen if lengths is None else np.repeat(chosen, lengths)
    values, picked = part.values, part.picked
    if picked is not None and values is not None:
        stays = chosen[picked]
        moved = np.cumsum(chosen)[picked[stays]] - 1
        values, picked = values[stays], moved.astype(form_of_places(int(chosen.sum())))
    elif values is not None:
        values = values[chosen]
    return part._replace(sections=sections, keys=keys, values=values, places=places, picked=picked)


def _cuts(starts: Int64s, a: int, b: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut the positions [a, b) so that no piece has more than `PART_BYTES`, if that can be."""
    most = PART_BYTES // row_bytes
    if int(starts[b] - starts[a]) <= most:
        yield a, b
        return
    low = a
    while low < b:
        high = int(np.searchsorted(starts[: b + 1], starts[low] + most, side="right")) - 1
        high = min(max(high, low + 1), b)
        yield low, high
        low = high


def _joined(first: Int64s, end: Int64s) -> Int64s:
    """Ranges as pairs, neighbours joined."""
    if not len(first):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(first[1:] != end[:-1])
    starts = first[np.concatenate([[0], breaks + 1])]
    ends = end[np.concatenate([breaks, [len(end) - 1]])]
    return np.stack([starts, ends], axis=1)


def _elements(values: NDArray[Any] | None, places: Int64s) -> NDArray[Any] | None:
    """The elements of ranges, one after another; a view where there is one range."""
    if values is None:
        return None
    if len(places) == 1:
        return values[places[0, 0] : places[0, 1]]
    return np.concatenate([values[first:end] for first, end in places] or [values[:0]])
