"""Marks: each shard applies each batch once, in whatever order they come."""

from __future__ import annotations

import numpy as np
import pytest

from yarnps.server.marks import Key, Marks, Recent

SHARDS = 8
ALL = np.arange(SHARDS)


def apply(marks: Marks, key: Key, batch: int, shards: np.ndarray) -> list[int]:
    fresh = marks.fresh(key, batch, shards)
    marks.record(key, batch, shards[fresh])
    applied: list[int] = shards[fresh].tolist()
    return applied


@pytest.mark.parametrize("seed", range(20))
def test_any_order_any_repetition_any_move(seed: int) -> None:
    rng = np.random.default_rng(seed)
    marks = Marks(SHARDS)
    done: set[tuple[Key, int, int]] = set()
    keys = [
        Key(epoch, split, push) for epoch in range(2) for split in range(2) for push in (0, 65535)
    ]
    for _ in range(600):
        key = keys[rng.integers(len(keys))]
        batch = int(rng.integers(12))
        shards = np.sort(rng.choice(SHARDS, rng.integers(1, SHARDS + 1), replace=False))
        expected = [s for s in shards.tolist() if (key, batch, s) not in done]
        assert apply(marks, key, batch, shards) == expected
        done.update((key, batch, s) for s in expected)
        if rng.random() < 0.05:  # all shards move to another process
            moved = Marks(SHARDS)
            for shard in range(SHARDS):
                moved.restore(shard, marks.of_shard(shard))
            marks = moved


def test_batches_in_order_leave_nothing_above() -> None:
    marks = Marks(SHARDS)
    for batch in range(100):
        assert apply(marks, Key(0, 5, 0), batch, ALL) == ALL.tolist()
    assert [mark.next for mark in marks.of_shard(3)] == [100]
    assert [mark.above for mark in marks.of_shard(3)] == [()]


def test_a_closed_split_takes_nothing_more() -> None:
    marks = Marks(SHARDS)
    apply(marks, Key(0, 5, 0), 0, ALL)
    apply(marks, Key(0, 6, 0), 0, ALL)
    apply(marks, Key(1, 5, 0), 0, ALL)
    marks.close(0, [5])
    assert set(marks.open_keys) == {Key(0, 6, 0), Key(1, 5, 0)}
    assert apply(marks, Key(0, 5, 0), 1, ALL) == []
    assert apply(marks, Key(0, 5, 3), 0, ALL) == []
    assert apply(marks, Key(0, 6, 0), 1, ALL) == ALL.tolist()
    marks.close(0, [])
    assert apply(marks, Key(0, 6, 0), 2, ALL) == []
    assert apply(marks, Key(1, 5, 0), 1, ALL) == ALL.tolist()
    restored = Marks(SHARDS)
    restored.restore_closed(marks.closed)
    assert apply(restored, Key(0, 99, 0), 0, ALL) == []
    assert apply(restored, Key(1, 99, 0), 0, ALL) == ALL.tolist()


def test_an_older_lease_token_is_stale() -> None:
    marks = Marks(SHARDS)
    assert not marks.token_is_stale(0, 5, 3)
    assert not marks.token_is_stale(0, 5, 3)
    assert not marks.token_is_stale(0, 6, 1)
    assert not marks.token_is_stale(0, 5, 7)
    assert marks.token_is_stale(0, 5, 3)
    restored = Marks(SHARDS)
    restored.restore_tokens(marks.tokens)
    assert restored.token_is_stale(0, 5, 6)
    assert not restored.token_is_stale(0, 5, 7)


def test_recent_requests_of_each_incarnation() -> None:
    recent = Recent()
    assert [recent.is_repeated(1, 5), recent.is_repeated(1, 5)] == [False, True]
    assert not recent.is_repeated(2, 5)
    recent.forget(1)
    assert not recent.is_repeated(1, 5)
    for request in range(10, 10 + 2 * Recent.LIMIT):
        assert not recent.is_repeated(1, request)
    assert recent.is_repeated(1, 9 + 2 * Recent.LIMIT)
