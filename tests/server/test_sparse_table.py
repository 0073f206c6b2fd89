"""The hash table against a dict, and initial values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, places, sorted_by_shard, sparse

from yarnps.protocol import wire
from yarnps.protocol.shards import frozen, shard_numbers
from yarnps.protocol.tables import Adagrad, Add, Ftrl, Normal, Uniform
from yarnps.server.segments import TableFull
from yarnps.server.sparse import SparseTable


def push(table: SparseTable, keys: Any, values: Any) -> None:
    ordered, sections, order = sorted_by_shard(keys)
    rows = np.asarray(values, table.dtype).reshape(len(ordered), table.dim)[order]
    table.push(ordered, sections, frozen(rows))


def pull(table: SparseTable, keys: Any) -> Any:
    ordered, sections, order = sorted_by_shard(keys)
    out = np.empty((len(ordered), table.dim), table.dtype)
    out[order] = table.pull(ordered, sections)
    return out


# Rows of 4 and 24 bytes lie apart from their tags, those of 8 and 16 beside them.
@pytest.mark.parametrize(
    ("dtype", "dim"), [("float32", 1), ("float64", 1), ("float64", 2), ("float64", 3)]
)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_a_dict(seed: int, dtype: str, dim: int) -> None:
    rng = np.random.default_rng(seed)
    table = SparseTable(sparse(dim=dim, optimizer=Add(), dtype=dtype), places())
    close = {"rtol": 1e-13} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
    known: dict[int, Any] = {}
    # Keys of every kind: small, huge, negative, the extremes, and many that repeat.
    domain = np.unique(
        np.concatenate(
            [
                rng.integers(-(2**63), 2**63 - 1, 3000),
                np.arange(-500, 500),
                np.arange(500) << 40,
                [-(2**63), 2**63 - 1, 0, -1],
            ]
        )
    )
    for _ in range(30):
        keys = rng.choice(domain, rng.integers(1, 700), replace=False)
        values = rng.normal(size=(len(keys), dim))
        push(table, keys, values)
        for key, value in zip(keys.tolist(), values, strict=True):
            known[key] = known.get(key, np.zeros(dim)) + value
        asked = rng.choice(domain, 300)
        expected = np.array([known.get(key, np.zeros(dim)) for key in asked.tolist()])
        np.testing.assert_allclose(pull(table, asked), expected, **close)
        assert table.rows == len(known)  # a pull makes no rows
    found: dict[int, Any] = {}
    for shard in range(SHARDS):
        rows = table.copy_shard(shard)
        assert (shard_numbers(rows.keys, 4) == shard).all()
        found.update(zip(rows.keys.tolist(), rows.states, strict=True))
    assert set(found) == set(known)
    assert all(np.allclose(found[key], known[key], **close) for key in known)


def test_a_table_holds_only_its_own_shards() -> None:
    table = SparseTable(sparse(optimizer=Add()), places([3, 9]))
    keys = np.arange(5000)
    mine = keys[np.isin(shard_numbers(keys, 4), [3, 9])]
    ordered, sections, _ = sorted_by_shard(mine)
    kept = frozen(sections[sections[:, 1] > 0])
    table.push(ordered, kept, frozen(np.ones((len(mine), 1), np.float32)))
    assert table.rows == len(mine)
    assert len(table.copy_shard(3).keys) + len(table.copy_shard(9).keys) == len(mine)
    assert (table.pull(ordered, kept) == 1).all()


def test_a_key_sent_for_another_shard_is_refused() -> None:
    table = SparseTable(sparse(optimizer=Add()), places())
    ordered, sections, _ = sorted_by_shard(np.arange(100))
    lying = sections.copy()
    lying[:, 0] = np.roll(lying[:, 0], 1)
    with pytest.raises(wire.WireError, match="not of the shard"):
        table.push(ordered, frozen(lying), frozen(np.ones((100, 1), np.float32)))
    assert table.rows == 0


@pytest.mark.parametrize("init", [Uniform(-0.5, 0.25), Normal(0.1)])
@pytest.mark.parametrize("optimizer", [Add(), Adagrad(initial=0.5)])
def test_initial_values_depend_on_seed_table_and_key_only(init: Any, optimizer: Any) -> None:
    keys = np.random.default_rng(1).permutation(np.arange(-2000, 2000))
    one = SparseTable(sparse(dim=5, optimizer=optimizer, init=init), places())
    other = SparseTable(sparse(dim=5, optimizer=optimizer, init=init), places())
    before = pull(one, keys)
    push(one, keys, np.zeros((4000, 5)))
    for part in np.array_split(np.sort(keys), 7):
        push(other, part, np.zeros((len(part), 5)))
    np.testing.assert_array_equal(pull(one, keys), before)
    np.testing.assert_array_equal(pull(other, keys), before)
    assert len(np.unique(before)) > 19_900
    for spec in (
        sparse("v", dim=5, optimizer=optimizer, init=init),
        sparse(dim=5, optimizer=optimizer, init=init, seed=2),
    ):
        assert not np.isclose(pull(SparseTable(spec, places()), keys), before).any(axis=1).all()


def test_initial_values_have_the_distribution_that_was_asked_for() -> None:
    keys = np.arange(50_000)
    uniform = pull(SparseTable(sparse(init=Uniform(2.0, 3.0)), places()), keys)
    assert uniform.min() >= 2 and uniform.max() < 3
    np.testing.assert_allclose(np.histogram(uniform, 10, (2, 3))[0], 5000, rtol=0.06)
    normal = pull(SparseTable(sparse(init=Normal(2.0), dtype="float64"), places()), keys)
    assert abs(normal.mean()) < 0.04 and abs(normal.std() - 2) < 0.03
    assert abs((abs(normal) < 2).mean() - 0.6827) < 0.01


def test_a_full_table_refuses_new_rows_and_serves_the_old() -> None:
    table = SparseTable(sparse(dim=16, optimizer=Ftrl()), places())
    push(table, np.arange(200), np.ones((200, 16)))
    ordered, sections, _ = sorted_by_shard(np.arange(100_000))
    with pytest.raises(TableFull, match="table w: 99800 new rows need"):
        table.push(ordered, sections, frozen(np.ones((100_000, 16), np.float32)), room=1_000_000)
    assert table.rows == 200
    ordered, sections, _ = sorted_by_shard(np.arange(200))
    table.push(ordered, sections, frozen(np.ones((200, 16), np.float32)), room=0)


def test_clear_forgets_rows_and_their_states() -> None:
    table = SparseTable(sparse(optimizer=Adagrad(learning_rate=1.0)), places())
    push(table, np.arange(1000), np.full(1000, 3.0))
    first = pull(table, np.arange(1000))
    table.clear()
    assert table.rows == 0 and not pull(table, np.arange(1000)).any()
    push(table, np.arange(1000), np.full(1000, 3.0))
    np.testing.assert_array_equal(pull(table, np.arange(1000)), first)


def test_memory_per_row_stays_near_the_rows_own() -> None:
    """Index and slack together: keys of 8 bytes, z and n of 4 each."""
    table = SparseTable(sparse(optimizer=Ftrl()), places())
    keys = np.random.default_rng(0).integers(-(2**62), 2**62, 1_000_000)
    for part in np.array_split(np.unique(keys), 100):
        push(table, part, np.ones(len(part)))
    assert 1.15 * 16 < table.nbytes / table.rows < 1.4 * 16
