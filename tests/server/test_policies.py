"""Full tables, late admission, expiry: what is kept, what is lost, and that it is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, Peer, places, service, sorted_by_shard, sparse

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.shards import frozen
from yarnps.protocol.tables import Adagrad, Adam, Add, TableSpec
from yarnps.protocol.wire import Code, Op, table_id
from yarnps.server.loading import load_shards
from yarnps.server.memory import Watch, table_limit
from yarnps.server.saving import Save
from yarnps.server.segments import TableFull
from yarnps.server.sparse import SparseTable
from yarnps.server.store import Store


def push(table: SparseTable, keys: Any, value: float = 1.0, **more: Any) -> None:
    ordered, sections, _ = sorted_by_shard(keys)
    grads = np.full((len(ordered), table.dim), value, table.dtype)
    table.push(ordered, sections, frozen(grads), **more)


def pull(table: SparseTable, keys: Any) -> Any:
    ordered, sections, order = sorted_by_shard(keys)
    out = np.empty((len(ordered), table.dim), table.dtype)
    out[order] = table.pull(ordered, sections)
    return out[:, 0]


def contains(table: SparseTable, keys: Any) -> Any:
    ordered, sections, order = sorted_by_shard(keys)
    out = np.empty(len(ordered), bool)
    out[order] = table.contains(ordered, sections)
    return out


# ---------------------------------------------------------------------- full


def test_a_full_table_that_ignores_serves_what_it_has() -> None:
    table = SparseTable(sparse(optimizer=Add(), when_full="ignore"), places())
    push(table, np.arange(2000))
    before, size = table.rows, table.nbytes
    push(table, np.arange(10_000), room=0)
    assert table.nbytes == size
    there = contains(table, np.arange(10_000))
    assert there[:2000].all() and before <= there.sum() == table.rows < 2600
    assert table.losses.ignored == 10_000 - table.rows
    np.testing.assert_array_equal(pull(table, np.arange(2000)), 2)
    np.testing.assert_array_equal(pull(table, np.arange(2000, 10_000)), there[2000:])
    push(table, [99_999], room=1 << 20)
    assert contains(table, [99_999]).all()


@pytest.mark.parametrize("dim", [1, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_full_table_that_evicts_forgets_the_oldest_of_each_shard(dim: int, dtype: str) -> None:
    spec = sparse(dim=dim, dtype=dtype, optimizer=Adagrad(0.5), when_full="evict")
    table = SparseTable(spec, places())
    for clock in range(20):
        push(table, np.arange(clock * 100, clock * 100 + 100), clock=clock)
    push(table, np.arange(300), clock=30)  # the oldest but for this
    size, kept = table.nbytes, pull(table, np.arange(300))
    clock = 30
    while table.losses.evicted <= 300 and clock < 60:  # it has room for some more at first
        clock += 1
        push(table, np.arange(clock * 100, clock * 100 + 100), clock=clock, room=0)
        assert contains(table, np.arange(3100, clock * 100 + 100)).all()
    assert table.nbytes == size and table.losses.ignored == 0
    assert table.rows == 2000 + (clock - 30) * 100 - table.losses.evicted
    assert 300 < table.losses.evicted < 600
    there = contains(table, np.arange(300, 2000))
    # Within a shard nothing younger went before something older.
    _, sections, order = sorted_by_shard(np.arange(300, 2000))
    ends = np.cumsum(sections[:, 1])
    for end, count in zip(ends, sections[:, 1], strict=True):
        members = order[end - count : end]
        ages = members // 100
        gone, left = ages[~there[members]], ages[there[members]]
        if len(gone) and len(left):
            assert gone.max() <= left.min()
    np.testing.assert_array_equal(pull(table, np.arange(300)), kept)
    # A row that was forgotten begins anew.
    lost = np.flatnonzero(~there)[:5] + 300
    push(table, lost, clock=60, room=1 << 20)
    np.testing.assert_allclose(pull(table, lost), -0.5, rtol=1e-6)


def test_the_rows_of_a_push_are_not_evicted_for_its_new_keys() -> None:
    table = SparseTable(sparse(optimizer=Add(), when_full="evict"), places())
    push(table, np.arange(1000), clock=1)
    push(table, np.arange(2000), clock=1, room=0)
    assert contains(table, np.arange(1000)).all()
    assert table.losses.evicted == 0 and table.losses.ignored == 2000 - table.rows
    push(table, np.arange(1000), clock=1, room=0)
    np.testing.assert_array_equal(pull(table, np.arange(1000)), 3)


def test_a_refused_push_changes_nothing() -> None:
    table = SparseTable(sparse(optimizer=Adam(0.1)), places())
    push(table, np.arange(1000))
    before, steps = pull(table, np.arange(1000)), table.steps.copy()
    with pytest.raises(
        TableFull, match="give the servers more memory, or open the table with when_f"
    ):
        push(table, np.arange(50_000), room=1000)
    np.testing.assert_array_equal(pull(table, np.arange(1000)), before)
    np.testing.assert_array_equal(table.steps, steps)


def test_table_memory_is_what_all_tables_take_together() -> None:
    served = service()
    peer = Peer(served)
    fails, ignores = (
        sparse("fails", optimizer=Add()),
        sparse("i", optimizer=Add(), when_full="ignore"),
    )
    dense = TableSpec("d", "dense", (1000,), optimizer=Add())
    for spec in (fails, ignores, dense):
        peer.open(spec)
    peer.push(fails, np.arange(1000), np.ones(1000))
    peer.push(ignores, np.arange(1000), np.ones(1000))
    served.store.memory_limit = sum(t.nbytes for t in served.store.tables.values()) + 100
    refused = peer.push(fails, np.arange(20_000), np.ones(20_000))
    assert refused.header.code == Code.TABLE_FULL
    assert peer.push(ignores, np.arange(20_000), np.ones(20_000)).header.op == Op.OK
    (of_fails, of_ignores, _) = served.table_stats()
    assert (of_fails.rows, of_fails.ignored) == (1000, 0)
    assert of_ignores.ignored == 20_000 - of_ignores.rows > 18_000
    assert (peer.pull(fails, np.arange(1000)) == 1).all()
    # A table that does not fit is refused when it is opened, not killed when it is filled.
    large = peer.open(TableSpec("large", "dense", (1_000_000,), optimizer=Add()))
    assert (
        large.header.code == Code.TABLE_FULL and "4,000,000 bytes" in bytes(large.values).decode()
    )


def test_what_is_said_before_memory_is_used_up() -> None:
    table: Any = SparseTable(sparse(optimizer=Add(), when_full="ignore"), places())
    watch = Watch()
    push(table, np.arange(5000))
    assert watch.look([table], None) == []
    assert watch.look([table], table.nbytes * 2) == []
    (first,) = watch.look([table], int(table.nbytes / 0.85))
    assert "tables take 85% of the" in first and "then table w ignores new keys" in first
    (second,) = watch.look([table], int(table.nbytes / 0.95))
    assert "95%" in second
    push(table, np.arange(50_000), room=0)
    (third,) = watch.look([table], table.nbytes)
    assert third == "table w: new keys get no row any more: the memory for tables is used up"
    assert watch.look([table], table.nbytes) == []


def test_a_small_container_leaves_room_for_the_process_itself() -> None:
    gib, mib = 1 << 30, 1 << 20
    assert table_limit(4 * gib, 0.7, 150 * mib) == int(0.7 * 4 * gib)
    assert table_limit(400 * mib, 0.7, 150 * mib) == 186 * mib
    assert table_limit(100 * mib, 0.7, 150 * mib) == 0


# ---------------------------------------------------------------------- admission, expiry


def test_a_key_gets_a_row_at_its_third_push() -> None:
    table = SparseTable(sparse(optimizer=Add(), admit=3), places())
    push(table, np.arange(1000))
    push(table, np.arange(500))
    assert (table.rows, table.waiting) == (0, 1000)
    assert not pull(table, np.arange(1000)).any()
    push(table, np.arange(250), 7.0)
    assert table.rows == 250
    np.testing.assert_array_equal(pull(table, np.arange(300)), [7.0] * 250 + [0.0] * 50)
    push(table, np.arange(1000))
    np.testing.assert_array_equal(
        pull(table, np.arange(1000)), [8.0] * 250 + [1.0] * 250 + [0.0] * 500
    )
    # An assignment is no sight: it sets what it says.
    ordered, sections, _ = sorted_by_shard([5000])
    table.assign(ordered, sections, np.ones((1, 1), np.float32))
    assert pull(table, [5000]).tolist() == [1.0]


def test_a_counted_key_takes_little_memory() -> None:
    wide = SparseTable(sparse(dim=64, optimizer=Adam(), admit=2), places())
    push(wide, np.arange(100_000))
    assert wide.rows == 0 and wide.nbytes < 100_000 * 17


def test_rows_expire_when_their_time_is_over() -> None:
    table = SparseTable(sparse(optimizer=Add(), expire=100), places())
    push(table, np.arange(1000), clock=0)
    push(table, np.arange(100), clock=90)
    for clock in range(95, 101):
        push(table, [5000], clock=clock)
    assert contains(table, np.arange(1000)).all()  # not before its time
    for clock in range(101, 130):
        push(table, [5000], clock=clock)
    assert contains(table, np.arange(100)).all()
    assert not contains(table, np.arange(100, 1000)).any()
    assert table.losses.expired == 900 and table.rows == 101


def test_counts_of_keys_expire_too() -> None:
    table = SparseTable(sparse(optimizer=Add(), admit=2, expire=10), places())
    push(table, np.arange(100), clock=0)
    for clock in range(1, 30):
        push(table, [5000], clock=clock)
    push(table, np.arange(100), clock=30)
    assert not contains(table, np.arange(100)).any()
    push(table, np.arange(100), clock=31)
    assert contains(table, np.arange(100)).all()


# ---------------------------------------------------------------------- over a restart


def test_a_loaded_shard_goes_on_where_it_was(tmp_path: Path) -> None:
    """Clocks of rows, counts of keys and numbers of steps are kept with the shard."""
    spec = sparse("p", dim=2, optimizer=Adam(0.1), when_full="evict", admit=2, expire=50)
    dense = TableSpec("d", "dense", (100,), "float64", optimizer=Adam(0.1))
    half = [list(range(8)), list(range(8, SHARDS))]
    one, low, high = (Store(owned, SHARDS) for owned in (list(range(SHARDS)), *half))
    tables: Any = {}

    def step(store: Store, clock: int, keys: Any) -> None:
        table, other = tables[id(store)]
        ordered, sections, _ = sorted_by_shard(keys)
        mine = np.isin(sections[:, 0], store.owned)
        kept = np.repeat(mine, sections[:, 1])
        grads = np.sin(ordered + clock)[:, np.newaxis].repeat(2, axis=1).astype(np.float32)
        named = frozen(sections[mine])
        table.push(frozen(ordered[kept]), named, frozen(grads[kept]), clock=clock)
        stretches = other.whole(named)
        count = sum(s.end - s.start for s in stretches)
        other.push(named, stretches, frozen(np.full(count, 0.1 * clock)), clock=clock)

    tables[id(one)] = one.open(spec), one.open(dense)
    for clock in range(10):
        step(one, clock, np.arange(clock * 10, clock * 10 + 25))
    one.clock = 9
    task = Save(one, 0, str(tmp_path), 0, pb.Incarnation(id=1))
    while not task.finished:
        if task.can_step:
            task.step()
    done = task.report().save_done
    assert done.error == ""
    for store in (low, high):
        load_shards(store, pb.Load(cut=0, path=str(tmp_path), files=done.files))
        tables[id(store)] = store.tables[table_id("p")], store.tables[table_id("d")]
        assert store.clock == 9
    for clock in range(10, 80):
        for store in (one, low, high):
            step(store, clock, np.arange(clock * 3, clock * 3 + 25))
    for store in (low, high):
        for shard in store.owned:
            for before, after in zip(tables[id(one)], tables[id(store)], strict=True):
                mine, theirs = before.copy_shard(shard), after.copy_shard(shard)
                if isinstance(after, SparseTable):
                    assert alive(mine) == alive(theirs)
                    assert mine.steps == theirs.steps == 80
                else:
                    np.testing.assert_array_equal(mine, theirs)
                    assert before.steps_of(shard) == after.steps_of(shard) == 80
    assert tables[id(one)][0].losses.expired > 0


def alive(rows: Any, before: int = 29) -> tuple[dict[int, Any], dict[int, Any]]:
    """Rows and counts that have not expired. When the others go depends on the servers."""
    counts = rows.candidates
    return (
        {
            key: (int(stamp), states.tolist())
            for key, stamp, states in zip(rows.keys, rows.stamps, rows.states, strict=True)
            if stamp >= before
        },
        {
            key: (int(stamp), int(seen))
            for key, stamp, seen in zip(counts.keys, counts.stamps, counts.seen, strict=True)
            if stamp >= before
        },
    )
