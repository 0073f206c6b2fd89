"""Cuts and models: written while requests come, read by any number of servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, Peer, service, sorted_by_shard, sparse
from safetensors.numpy import load_file

from yarnps._errors import DataError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.shards import frozen, shard_numbers
from yarnps.protocol.tables import Adagrad, Add, Ftrl, TableSpec, Uniform
from yarnps.protocol.wire import Flag
from yarnps.server.loading import load_shards
from yarnps.server.marks import Key
from yarnps.server.saving import Export, Save, Task
from yarnps.server.store import Store

KEYS = np.arange(-3000, 3000, 7)
FTRL = sparse("f", dim=3, optimizer=Ftrl(alpha=0.1, l1=0.5), dtype="float64")
DENSE = TableSpec("d", "dense", (40, 5), "float32", optimizer=Adagrad(), init=Uniform())


def run(task: Task) -> Any:
    while not task.finished:
        if task.can_step:
            task.step()
    return task.report()


def filled(owned: list[int]) -> Store:
    """A store with rows in two tables, and marks."""
    store = Store(owned, SHARDS)
    table: Any = store.open(FTRL)
    dense: Any = store.open(DENSE)
    mine = KEYS[np.isin(shard_numbers(KEYS, 4), owned)]
    ordered, sections, _ = sorted_by_shard(mine)
    named = frozen(sections[owned])
    rng = np.random.default_rng(1)
    for _ in range(3):
        grads = np.stack([ordered, ordered * 0.5, np.sin(ordered)], axis=1)
        table.push(ordered, named, frozen(grads + rng.normal()))
        stretches = dense.whole(named)
        count = sum(s.end - s.start for s in stretches)
        dense.push(named, stretches, frozen(np.full(count, 0.5, np.float32)))
    store.marks.record(Key(1, 2, 0), 0, np.array(owned))
    store.marks.record(Key(1, 2, 0), 4, np.array(owned[:2]))
    store.marks.close(0, [])
    store.marks.token_is_stale(1, 2, 9)
    return store


def _of(store: Store, table: str) -> Any:
    return store.tables[wire.table_id(table)]


def contents(stores: list[Store]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Rows of the sparse and the dense table by key and by shard, states included."""
    rows: dict[int, Any] = {}
    pieces: dict[int, Any] = {}
    for store in stores:
        for shard in store.owned:
            table: Any = store.tables[wire.table_id("f")]
            copy = table.copy_shard(shard)
            rows.update(zip(copy.keys.tolist(), copy.states.tolist(), strict=True))
            pieces[shard] = _of(store, "d").copy_shard(shard).tolist()
    return rows, pieces


def save(stores: list[Store], folder: Path) -> list[pb.SavedFile]:
    files = []
    for rank, store in enumerate(stores):
        done = run(Save(store, 3, str(folder), rank, pb.Incarnation(id=rank + 1))).save_done
        assert (done.cut, done.error) == (3, "")
        files += list(done.files)
    return files


EVEN, ODD = list(range(0, SHARDS, 2)), list(range(1, SHARDS, 2))
THIRDS = [list(range(5)), list(range(5, 11)), list(range(11, 16))]


@pytest.mark.parametrize("after", [[EVEN, ODD], THIRDS, [list(range(SHARDS))]])
def test_a_cut_comes_back_on_any_servers(tmp_path: Path, after: list[list[int]]) -> None:
    before = [filled(EVEN), filled(ODD)]
    files = save(before, tmp_path)
    assert sum(f.rows for f in files if f.table == "f") == len(KEYS)
    assert sum(f.rows for f in files if f.table == "d") == 200
    stores = [Store(owned, SHARDS) for owned in after]
    for store in stores:
        load = pb.Load(cut=3, path=str(tmp_path), files=files)
        assert load_shards(store, load) == 3
    assert contents(stores) == contents(before)
    for store in stores:
        for shard in store.owned:
            original = next(b for b in before if shard in b.owned)
            assert store.marks.of_shard(shard) == original.marks.of_shard(shard)
        assert store.marks.closed == [(0, -1)]
        assert store.marks.token_is_stale(1, 2, 8)


def test_every_shard_is_saved_with_the_marks_it_had_then(tmp_path: Path) -> None:
    """Pushes go on between the shards' copies: rows and marks of each shard still agree."""
    served = service()
    spec = sparse("n", optimizer=Add(), dtype="float64")
    peer = Peer(served)
    peer.open(spec)
    task = Save(served.store, 0, str(tmp_path), 0, pb.Incarnation(id=1))
    keys = np.arange(400)
    batch = 0
    while not task.finished:
        leased = {"flags": int(Flag.LEASED), "token": 1, "batch": batch}
        assert peer.push(spec, keys, np.ones(400), **leased).header.op == wire.Op.OK
        batch += 1
        if task.can_step:
            task.step()
    assert task.report().save_done.error == ""
    restored = Store(list(range(SHARDS)), SHARDS)
    files = task.report().save_done.files
    load_shards(restored, pb.Load(cut=0, path=str(tmp_path), files=files))
    counts = set()
    for shard in range(SHARDS):
        marks = restored.marks.of_shard(shard)
        rows = _of(restored, "n").copy_shard(shard)
        applied = marks[0].next if marks else 0
        assert set(rows.states[:, 0].tolist()) == {float(applied)}
        counts.add(applied)
    assert len(counts) == SHARDS  # each shard was copied at another moment


def test_a_model_is_plain_safetensors(tmp_path: Path) -> None:
    stores = [filled(EVEN), filled(ODD)]
    for rank, store in enumerate(stores):
        done = run(Export(store, str(tmp_path), rank, [], text=True)).export_done
        assert done.error == ""
        assert {f.name for f in done.files} >= {f"part-{rank}.safetensors", f"part-{rank}-f.txt"}
    parts = [load_file(tmp_path / f"part-{rank}.safetensors") for rank in range(2)]
    keys = np.concatenate([part["f/keys"] for part in parts])
    assert sorted(keys.tolist()) == KEYS.tolist()
    values = np.concatenate([part["f/values"] for part in parts])
    lines = "".join((tmp_path / f"part-{rank}-f.txt").read_text() for rank in range(2))
    table = {int(k): [float(v) for v in vs] for k, *vs in map(str.split, lines.splitlines())}
    nonzero = {k: v.tolist() for k, v in zip(keys.tolist(), values, strict=True) if v.any()}
    assert table == nonzero and len(nonzero) > 0


@pytest.mark.parametrize("after", [[list(range(SHARDS))], THIRDS])
def test_a_new_job_starts_from_a_model(tmp_path: Path, after: list[list[int]]) -> None:
    before = [filled(EVEN), filled(ODD)]
    for rank, store in enumerate(before):
        run(Export(store, str(tmp_path), rank, [], text=False))
    stores = [Store(owned, SHARDS) for owned in after]
    for store in stores:
        assert load_shards(store, pb.Load(cut=-1, init_from=str(tmp_path))) == -1
        store.open(FTRL)
        store.open(DENSE)
        assert not store.marks.open_keys
    assert contents(stores) == contents(before)


def test_a_new_job_with_another_optimizer_starts_with_the_same_weights(tmp_path: Path) -> None:
    before = filled(list(range(SHARDS)))
    run(Export(before, str(tmp_path), 0, [], text=False))
    store = Store(list(range(SHARDS)), SHARDS)
    load_shards(store, pb.Load(cut=-1, init_from=str(tmp_path)))
    other = sparse("f", dim=3, optimizer=Ftrl(alpha=0.7, l1=0.1, l2=1.0), dtype="float64")
    ordered, sections, _ = sorted_by_shard(KEYS)
    store.open(other)
    weights = _of(store, "f").pull(ordered, sections)
    expected = _of(before, "f").pull(ordered, sections)
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-14)
    assert (expected != 0).any()


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    run(Export(filled(list(range(SHARDS))), str(tmp_path), 0, [], text=False))
    store = Store(list(range(SHARDS)), SHARDS)
    load_shards(store, pb.Load(cut=-1, init_from=str(tmp_path)))
    with pytest.raises(DataError, match=r"\(3,\).*\(4,\)"):
        store.open(sparse("f", dim=4, optimizer=Ftrl(), dtype="float64"))


@pytest.mark.parametrize("harm", ["cut short", "garbage", "gone", "empty"])
def test_a_broken_cut_is_named(tmp_path: Path, harm: str) -> None:
    files = save([filled(list(range(SHARDS)))], tmp_path)
    path = tmp_path / files[0].name
    data = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut short": data[:-500], "garbage": b"\xff" * 900, "empty": b""}[harm])
    with pytest.raises(DataError) as raised:
        load = pb.Load(cut=3, path=str(tmp_path), files=files)
        load_shards(Store(list(range(SHARDS)), SHARDS), load)
    assert path.name in str(raised.value)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    task = Save(filled(EVEN), 0, str(tmp_path / "file" / "cut"), 0, pb.Incarnation(id=1))
    assert "file" in run(task).save_done.error


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model"):
        load_shards(Store(EVEN, SHARDS), pb.Load(cut=-1, init_from=str(tmp_path)))
