"""Calls cut into requests, and requests cut anew when shards have moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.codecs import spread
from yarnps.protocol.shards import Partition, dense_bounds, partition, shard_numbers
from yarnps.protocol.tables import TableSpec
from yarnps.worker import routing
from yarnps.worker.routing import Part, Router

SHARDS = 16


def router(owner: list[int], version: int = 1) -> Router:
    routes = pb.Routes(version=version, generation=1, owner=owner)
    for rank in range(max(owner) + 1):
        routes.servers.add(server_rank=rank, address="tcp://x", incarnation=rank + 1)
    return Router(routes)


BEFORE = router([0] * 6 + [1] * 10)
SCATTERED = router([shard * 7 % 3 for shard in range(SHARDS)])
SPEC = TableSpec("w", "sparse", (2,))
DENSE = TableSpec("d", "dense", (10, 9))


def check_sparse(parts: list[Part], by: Router, keys: Any, values: Any) -> None:
    """Every key once, at its shard's server, with its values, in the order of the sections."""
    seen = np.zeros(len(keys), int)
    for part in parts:
        assert part.keys is not None and part.places is not None and part.values is not None
        stated = np.repeat(part.sections[:, 0], part.sections[:, 1])
        np.testing.assert_array_equal(shard_numbers(part.keys, 4), stated)
        assert (by.owner[part.sections[:, 0].astype(int)] == part.server).all()
        np.testing.assert_array_equal(keys[part.places], part.keys)
        np.testing.assert_array_equal(values[part.places], part.values)
        seen[part.places] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("by", [BEFORE, SCATTERED])
@pytest.mark.parametrize("part_bytes", [1 << 20, 300])
def test_sparse(by: Router, part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    keys = np.random.default_rng(0).permutation(500) - 250
    values = np.random.default_rng(1).normal(size=(500, 2))
    parts = list(by.sparse(keys, values, 8, announce=False))
    check_sparse(parts, by, keys, values)
    assert len(parts) == len(by.servers) or part_bytes == 300


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("part_bytes", [1 << 20, 300])
def test_a_push_of_a_batch_names_every_shard_once(
    count: int, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    parts = list(SCATTERED.sparse(np.arange(count), np.ones((count, 1)), 4, announce=True))
    named = np.concatenate([part.sections[:, 0] for part in parts])
    assert sorted(named.tolist()) == list(range(SHARDS))
    assert {part.server for part in parts} == {0, 1, 2}


def test_sparse_again_after_shards_have_moved() -> None:
    keys = np.random.default_rng(0).permutation(500)
    values = np.random.default_rng(1).normal(size=(500, 2))
    parts = [
        again
        for part in BEFORE.sparse(keys, values, 8, announce=True)
        for again in SCATTERED.again(part, SPEC)
    ]
    check_sparse(parts, SCATTERED, keys, values)
    named = np.concatenate([part.sections[:, 0] for part in parts])
    assert sorted(named.tolist()) == list(range(SHARDS))


def check_dense(parts: list[Part], by: Router, values: Any, first: int, end: int) -> None:
    seen = np.zeros(end - first, int)
    bounds = dense_bounds(DENSE.elements, SHARDS)
    for part in parts:
        assert part.places is not None and part.values is not None
        shards = part.sections[:, 0].astype(int)
        assert (by.owner[shards] == part.server).all()
        at = 0
        for low, high in part.places.tolist():
            np.testing.assert_array_equal(part.values[at : at + high - low], values[low:high])
            seen[low:high] += 1
            at += high - low
        assert at == len(part.values)
        if part.keys is not None:
            pairs = part.keys.reshape(-1, 2)
            stated = np.repeat(shards, part.sections[:, 1])
            assert (bounds[stated] <= pairs[:, 0]).all() and (
                pairs[:, 1] <= bounds[stated + 1]
            ).all()
            np.testing.assert_array_equal(pairs - first, part.places)
    assert (seen == 1).all()


@pytest.mark.parametrize("part_bytes", [1 << 20, 40])
def test_dense(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    values = np.arange(90.0, dtype=np.float32)
    for by in (BEFORE, SCATTERED):
        check_dense(list(by.dense(DENSE, values)), by, values, 0, 90)
    moved = [a for part in BEFORE.dense(DENSE, values) for a in SCATTERED.again(part, DENSE)]
    check_dense(moved, SCATTERED, values, 0, 90)


@pytest.mark.parametrize(("first", "end"), [(0, 90), (13, 71), (13, 14), (20, 20)])
@pytest.mark.parametrize("part_bytes", [1 << 20, 40])
def test_ranges(first: int, end: int, part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    values = np.arange(90.0, dtype=np.float32)[first:end]
    parts = list(BEFORE.ranges(DENSE, first, end, values, announce=True))
    check_dense(parts, BEFORE, values, first, end)
    assert max(part.values.nbytes for part in parts if part.values is not None) <= part_bytes
    quiet = list(BEFORE.ranges(DENSE, first, end, values, announce=False))
    check_dense(quiet, BEFORE, values, first, end)
    assert all(part.sections[:, 1].all() and len(part.sections) for part in quiet)
    moved = [again for part in parts for again in SCATTERED.again(part, DENSE)]
    check_dense(moved, SCATTERED, values, first, end)
    assert sorted(np.concatenate([p.sections[:, 0] for p in moved]).tolist()) == list(range(SHARDS))


@pytest.mark.parametrize("rows", [None, (13, 71), (20, 20)])
@pytest.mark.parametrize("part_bytes", [1 << 20, 40])
def test_some_of_the_elements(
    rows: tuple[int, int] | None, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request holds what the same request of all elements does, with 0 for the others."""
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    first, end = rows or (0, 90)
    values = np.arange(1.0, end - first + 1)
    chosen = np.flatnonzero(np.random.default_rng(2).random(len(values)) < 0.3)
    plain = np.zeros(len(values))
    plain[chosen] = values[chosen]
    for by in (BEFORE, SCATTERED):
        empty = by.ranges(DENSE, first, end, None, announce=True) if rows else by.dense(DENSE, None)
        some = list(routing.some_of(empty, values[chosen], chosen))
        check_dense([spread_out(part) for part in some], by, plain, first, end)
        assert sum(len(part.values) for part in some if part.values is not None) == len(chosen)
        moved = [again for part in some for again in SCATTERED.again(part, DENSE)]
        check_dense([spread_out(part) for part in moved], SCATTERED, plain, first, end)


def spread_out(part: Part) -> Part:
    """The request as the server understands it."""
    assert part.values is not None and part.picked is not None and part.places is not None
    elements = int((part.places[:, 1] - part.places[:, 0]).sum())
    section = part.values.tobytes() + part.picked.tobytes()
    return part._replace(values=spread(section, elements, part.values.dtype))


def test_a_view_of_the_callers_array_is_sent_where_a_servers_shards_are_neighbours() -> None:
    values = np.arange(90.0, dtype=np.float32)
    for part in BEFORE.dense(DENSE, values):
        assert part.values is not None and part.values.base is values


def test_read_only_keys_are_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    by = router([0] * 6 + [1] * 10)
    calls = []

    def counted(*arguments: Any) -> Partition:
        calls.append(1)
        return partition(*arguments)

    monkeypatch.setattr("yarnps.worker.routing.partition", counted)
    keys, values = np.arange(300), np.ones((300, 2))
    keys.flags.writeable = False
    list(by.sparse(keys, None, 8, announce=False))
    check_sparse(list(by.sparse(keys, values, 8, announce=True)), by, keys, values)
    assert len(calls) == 1
    others = keys + 5  # of the same length, and not the same
    others.flags.writeable = False
    check_sparse(list(by.sparse(others, values, 8, announce=True)), by, others, values)
    check_sparse(list(by.sparse(keys, values, 8, announce=True)), by, keys, values)
    assert len(calls) == 2
    for start in range(routing.KNOWN_ORDERS):  # in their place
        others = np.arange(start, start + 9)
        others.flags.writeable = False
        by.parted(others)
    check_sparse(list(by.sparse(keys, values, 8, announce=True)), by, keys, values)
    assert len(calls) == 3 + routing.KNOWN_ORDERS


def test_keys_that_the_caller_may_change_are_looked_at_each_time() -> None:
    by = router([0] * 6 + [1] * 10)
    keys, values = np.arange(300), np.ones((300, 2))
    list(by.sparse(keys, None, 8, announce=False))
    keys += 1000
    check_sparse(list(by.sparse(keys, values, 8, announce=True)), by, keys, values)
