"""Where rows are is remembered between a pull and the push that follows, and never wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_values import places, sorted_by_shard, sparse

from yarnps.protocol.shards import frozen
from yarnps.protocol.tables import Add, Uniform
from yarnps.server import lookups
from yarnps.server.lookups import Lookups
from yarnps.server.sparse import SparseTable

KEYS = np.arange(1000, dtype=np.int64)
ROWS = KEYS * 16
SECTIONS = np.array([[0, 400], [1, 600]], np.uint32)
MOVES = np.array([3, 1], np.int64)


def kept(keys: Any = KEYS, sections: Any = SECTIONS, rows: Any = ROWS) -> Lookups:
    known = Lookups()
    known.keep(keys, sections, rows, MOVES)
    return known


def test_a_lookup_is_there_once() -> None:
    known = kept()
    found = known.take(KEYS.copy(), SECTIONS)
    assert found is not None
    assert found.rows.tolist() == ROWS.tolist()
    assert found.moves.tolist() == [3, 1]
    assert known.take(KEYS, SECTIONS) is None


def test_only_the_same_keys_find_it() -> None:
    other = KEYS.copy()
    other[500] = 7_000  # as many keys, with the same first and last one
    assert kept().take(other, SECTIONS) is None
    assert kept().take(KEYS[:-1], SECTIONS) is None


def test_shards_without_keys_make_no_difference_and_others_do() -> None:
    named = np.array([[0, 400], [5, 0], [1, 600], [9, 0]], np.uint32)
    assert kept().take(KEYS, named) is not None
    assert kept().take(KEYS, np.array([[0, 600], [1, 400]], np.uint32)) is None


def test_a_messages_memory_may_be_used_again() -> None:
    keys, sections = KEYS.copy(), SECTIONS.copy()
    known = kept(keys, sections)
    keys[:], sections[:] = 0, 0
    assert known.take(KEYS, SECTIONS) is not None


def test_few_keys_are_not_worth_it() -> None:
    few = np.array([[0, 100]], np.uint32)
    assert kept(KEYS[:100], few, ROWS[:100]).take(KEYS[:100], few) is None


def test_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_MOST_BYTES", 3 * 16 * 1000)
    known = Lookups()
    for first in range(4):
        known.keep(KEYS + first, SECTIONS, ROWS, MOVES)
    assert known.take(KEYS, SECTIONS) is None
    assert all(known.take(KEYS + first, SECTIONS) for first in range(1, 4))
    assert known.take(KEYS, SECTIONS) is None


def table() -> SparseTable:
    """One in which a row's first value is not zero: a row that is made anew would show."""
    return SparseTable(sparse(optimizer=Add(), init=Uniform(1, 2), dtype="float64"), places())


@pytest.mark.parametrize("seed", range(3))
def test_a_push_after_a_pull_goes_to_the_right_rows(seed: int) -> None:
    """Between the two others insert the same keys, and shards move."""
    rng = np.random.default_rng(seed)
    trained, fresh = table(), table()
    pushes: dict[int, float] = {}
    under_way: list[Any] = []
    for number in range(40):
        keys, sections, _ = sorted_by_shard(np.unique(rng.integers(0, 3000 + 500 * number, 900)))
        trained.pull(keys, sections)
        under_way.append((keys, sections))
        if len(under_way) < 3:
            continue
        pushed, named = under_way.pop(rng.integers(3))
        values = rng.normal(size=(len(pushed), 1))
        trained.push(pushed, named, frozen(values))
        for key, value in zip(pushed.tolist(), values[:, 0].tolist(), strict=True):
            pushes[key] = pushes.get(key, 0.0) + value
        assert trained.rows == len(pushes)
        every, of_all, _ = sorted_by_shard(np.fromiter(pushes, np.int64))
        expected = fresh.pull(every, of_all)[:, 0] + [pushes[key] for key in every.tolist()]
        np.testing.assert_allclose(
            trained.pull(every, of_all)[:, 0], expected, rtol=1e-12, atol=1e-12
        )


def test_nothing_is_remembered_of_rows_that_were_cleared() -> None:
    cleared, fresh = table(), table()
    keys, sections, _ = sorted_by_shard(KEYS)
    ones = frozen(np.ones((len(keys), 1)))
    cleared.push(keys, sections, ones)
    cleared.pull(keys, sections)
    cleared.clear()
    others, of_others, _ = sorted_by_shard(KEYS + 5_000)
    cleared.push(others, of_others, ones)  # its shards have moved as often as before
    cleared.push(keys, sections, ones)
    expected = fresh.pull(keys, sections) + 1
    np.testing.assert_allclose(cleared.pull(keys, sections), expected, rtol=1e-12, atol=1e-12)
    assert cleared.rows == 2 * len(KEYS)
