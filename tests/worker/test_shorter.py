"""Shorter forms on the wire: what arrives, what is kept for later, and what is refused."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_harness import client_of_servers

from yarnps._errors import InputError, ServerRefused
from yarnps.protocol.keylists import KeyLists
from yarnps.protocol.tables import Add, Ftrl, Optimizer, TableSpec, Wire
from yarnps.worker import routing
from yarnps.worker.client import Client
from yarnps.worker.connection import Connection
from yarnps.worker.residuals import SparseResiduals
from yarnps.worker.shorter import DensePushes, SparsePushes
from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable


class World:
    """Servers, and a client of this process."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def sparse(
        self, name: str, wire: Wire, dim: int = 1, optimizer: Optimizer | None = None
    ) -> SparseTable:
        spec = TableSpec(name, "sparse", (dim,), "float32", optimizer or Add(), wire=wire)
        self.client.open(spec)
        return SparseTable(self.client, spec, CurrentBatch())

    def dense(self, name: str, wire: Wire, *shape: int, dtype: str = "float32") -> DenseTable:
        spec = TableSpec(name, "dense", shape, dtype, Add(), wire=wire)
        self.client.open(spec)
        return DenseTable(self.client, spec, CurrentBatch())


@pytest.fixture(scope="module")
def world(tmp_path_factory: Any) -> Iterator[World]:
    with client_of_servers(tmp_path_factory.mktemp("shorter"), 2) as client:
        yield World(client)


KEYS = np.arange(0, 4000, 4)
VALUES = np.random.default_rng(0).normal(size=(len(KEYS), 3)).astype(np.float32)

# Relative precision of a form; int8's is of the largest number.
PRECISION = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_two_bytes_keep_their_digits(world: World, form: Any) -> None:
    table = world.sparse(f"push {form}", Wire(push=form), dim=3)
    table.push(KEYS, VALUES).wait()
    got = table.pull(KEYS).wait()
    assert not np.array_equal(got, VALUES)
    np.testing.assert_allclose(got, VALUES, rtol=PRECISION[form], atol=1e-7)
    dense = world.dense(f"dense {form}", Wire(push=form, pull=form), *VALUES.shape)
    dense.push(VALUES).wait()
    np.testing.assert_allclose(dense.pull().wait(), VALUES, rtol=PRECISION[form], atol=1e-7)


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_pulls_in_two_bytes(world: World, form: Any) -> None:
    table = world.sparse(f"pull {form}", Wire(pull=form), dim=3)
    table.push(KEYS, VALUES).wait()
    got = table.pull(KEYS).wait()
    np.testing.assert_allclose(got, VALUES, rtol=PRECISION[form], atol=1e-7)
    assert not np.array_equal(got, VALUES)
    np.testing.assert_allclose(table.pull(KEYS[:2]).wait(), got[:2])  # shares a message
    _, exact = table.export().wait()
    np.testing.assert_array_equal(exact, VALUES)


@pytest.mark.parametrize("wire", [Wire(push="int8"), Wire(push="topk", keep=0.25)])
def test_what_a_push_leaves_out_comes_with_the_next(world: World, wire: Wire) -> None:
    """The sum of many pushes is off by no more than one of them, not by all."""
    table = world.sparse(f"feedback {wire.push}", wire, dim=3)
    for _ in range(40):
        table.push(KEYS, VALUES).wait()
    got = table.pull(KEYS).wait()
    assert not np.array_equal(got, 40 * VALUES)
    worst = np.abs(got - 40 * VALUES).max()
    if wire.push == "int8":
        assert worst <= 2 * np.abs(VALUES).max() / 127
    else:  # each row goes at least every few pushes
        np.testing.assert_allclose(got.sum(), 40 * VALUES.sum(), rtol=0.2)
        assert np.abs(got).sum() > 0.8 * 40 * np.abs(VALUES).sum()


def test_dense_int8_feeds_back_by_element(world: World) -> None:
    table = world.dense("dense int8", Wire(push="int8"), *VALUES.shape)
    for _ in range(10):
        table.push(VALUES).wait()
        table.push(VALUES[100:300], rows=(100, 300)).wait()
    expected = 10 * VALUES
    expected[100:300] *= 2
    assert np.abs(table.pull().wait() - expected).max() <= 2 * np.abs(VALUES).max() / 127


def test_topk_sends_the_largest_rows(world: World) -> None:
    table = world.sparse("largest", Wire(push="topk", keep=0.1))
    values = np.zeros(100, np.float32)
    values[[5, 50, 77]] = [3.0, -9.0, 2.0]
    values[0:100:11] += 0.001
    table.push(np.arange(100), values).wait()
    assert table.size().wait()[0] == 10
    assert table.pull([5, 50, 77]).wait().tolist() == pytest.approx([3.0, -9.0, 2.001], abs=1e-6)


def sizes_sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each message that is sent from now on."""
    sent: list[int] = []
    write = Connection.write

    def counted(self: Connection, buffers: list[Any]) -> None:
        sent.append(sum(memoryview(buffer).nbytes for buffer in buffers))
        write(self, buffers)

    monkeypatch.setattr(Connection, "write", counted)
    return sent


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("part_bytes", [1 << 20, 2000])
def test_topk_of_a_dense_table_sends_its_largest_numbers(
    world: World, dtype: str, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers, so that all sums are exact: what has arrived and what waits are all of it."""
    monkeypatch.setattr(routing, "PART_BYTES", part_bytes)
    wire = Wire(push="topk", keep=0.1)
    table = world.dense(f"topk {dtype} {part_bytes}", wire, 300, 10, dtype=dtype)
    rng = np.random.default_rng(5)
    expected = np.zeros((300, 10))
    for first, end in [(0, 300), (17, 200), (0, 300), (299, 300), (5, 5), (0, 300)]:
        values = rng.integers(-1000, 1000, (end - first, 10))
        before = table.pull().wait()
        pushed = table.push(values) if end - first == 300 else table.push(values, (first, end))
        pushed.wait()
        expected[first:end] += values
        moved = table.pull().wait() != before
        assert 0 < moved.sum() <= np.ceil(0.1 * values.size) or not values.size
        assert not moved[:first].any() and not moved[end:].any()
    left = (expected - table.pull().wait()).reshape(-1)
    assert table._pushes is not None and table._pushes._residuals is not None
    np.testing.assert_array_equal(table._pushes._residuals.part(0, 3000), left)
    assert np.count_nonzero(left) > 2000


def test_topk_of_a_dense_table_costs_what_it_sends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.dense("topk bytes", Wire(push="topk", keep=0.01), 100_000)
    sent = sizes_sent(monkeypatch)
    table.push(np.random.default_rng(6).normal(size=100_000)).wait()
    # Two servers with 128 shards each; 1,000 numbers of 4 bytes, each with a place of 2.
    assert sum(sent) <= 2 * (104 + 128 * 8 + 8) + 1000 * (4 + 2)
    assert np.count_nonzero(table.pull().wait()) == 1000


def test_kkt_leaves_out_what_would_stay_at_zero(world: World) -> None:
    optimizer = Ftrl(alpha=0.1, l1=1.0)
    table = world.sparse("kkt", Wire(push="kkt", kkt=0.5), optimizer=optimizer)
    keys = np.arange(20)
    grads = np.where(keys < 10, 0.2, 5.0).astype(np.float32)
    table.pull(keys).wait()
    table.push(keys, grads).wait()
    assert table.size().wait()[0] == 10  # only those that matter
    table.pull(keys).wait()
    table.push(keys, grads).wait()
    assert table.size().wait()[0] == 10
    table.pull(keys).wait()
    table.push(keys, grads).wait()  # 0.6 has come together
    assert table.size().wait()[0] == 20
    other = np.arange(100, 120)
    table.push(other, grads).wait()  # nothing is known about these: all go
    assert table.size().wait()[0] == 40


def test_lists_of_keys_travel_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.sparse("lists", Wire(key_lists=True), dim=3)
    sent = sizes_sent(monkeypatch)
    first = table.pull(KEYS)
    first.wait()
    with_keys, named = sum(sent), []
    for _ in range(3):
        sent.clear()
        table.push(KEYS, VALUES).wait()
        named.append(sum(sent) - VALUES.nbytes)
    np.testing.assert_allclose(table.pull(KEYS).wait(), 3 * VALUES, rtol=1e-6)
    assert with_keys > KEYS.nbytes
    assert max(named) < with_keys - KEYS.nbytes + 200  # the keys are gone, a name came


def test_a_list_that_the_server_has_forgotten_is_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.sparse("forgotten", Wire(key_lists=True), dim=3)
    table.push(KEYS, VALUES).wait()
    other = KEYS + 1
    with monkeypatch.context() as patch:
        # As if they had been sent: the worker names lists that no server has seen.
        patch.setattr(KeyLists, "find", lambda self, name: b"")
        future = table.push(other, VALUES)
    future.wait()
    np.testing.assert_allclose(table.pull(other).wait(), VALUES, rtol=1e-6)


@pytest.mark.parametrize("form", ["float16", "int8", "topk"])
def test_nan_is_refused_as_ever_and_spoils_nothing(world: World, form: Any) -> None:
    table = world.sparse(f"nan {form}", Wire(push=form))
    values = np.ones(20, np.float32)
    values[3] = np.nan
    with pytest.raises(ServerRefused, match="NaN"):
        table.push(np.arange(20), values).wait()
    for _ in range(30):
        table.push(np.arange(20), np.ones(20)).wait()
    assert np.isfinite(table.pull(np.arange(20)).wait()).all()


def test_residuals_are_void_when_the_tables_go_back(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(push="topk", keep=0.5)
    pushes = SparsePushes(TableSpec("w", "sparse", (1,), wire=wire), wire)
    ones = np.ones((10, 1), np.float32)
    _, first = pushes.shortened(np.arange(10), ones, 1)
    assert len(first.values) == 5 and pushes.zeroed == 0
    _, second = pushes.shortened(np.arange(10), ones, 2)
    assert second.values.max() == 1  # nothing of the first
    assert pushes.zeroed == 5
    assert "table w: 5 residuals are zeroed" in caplog.text
    wire = Wire(push="int8")
    dense = DensePushes(TableSpec("d", "dense", (5,), wire=wire), wire)
    values = np.array([1.0, 0.001, 0.002, 0.0, 0.5], np.float32)
    dense.shortened(0, values, 1)
    again = dense.shortened(0, values, 2)
    assert dense.zeroed > 0
    np.testing.assert_array_equal(again.values, dense.shortened(0, values, 3).values)


@pytest.mark.parametrize("form", ["topk", "int8"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_table_follows_the_generation_that_its_worker_is_in(
    world: World, form: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(world.client, "on_void", told.append)
    wire = Wire(push=form, keep=0.5)
    name = f"generations {kind} {form}"
    table = world.sparse(name, wire) if kind == "sparse" else world.dense(name, wire, 10)
    values = np.append(np.full(9, 1.001, np.float32), 77.0)
    push = functools.partial(table.push, np.arange(10)) if kind == "sparse" else table.push
    push(values).wait()
    assert told == []
    with monkeypatch.context() as patch:
        patch.setattr(world.client, "generation", 2)
        patch.setattr(world.client, "submit", lambda call, parts: call)  # no server is there yet
        push(values)
    waited = {"topk": 5, "int8": 9}[form]
    text = f"table {name}: {waited} residuals are zeroed: the tables have gone back to a checkpoint"
    assert told == [text]


def test_what_comes_with_an_answer_and_what_is_assigned_are_exact(world: World) -> None:
    dense = world.dense("exact dense", Wire(push="topk", keep=0.01), 40, 5)
    sparse = world.sparse("exact sparse", Wire(push="topk", keep=0.01), dim=3)
    values = np.random.default_rng(9).normal(size=(40, 5)).astype(np.float32)
    dense.assign(values).wait()
    np.testing.assert_array_equal(dense.push_pull(values).wait(), 2 * values)
    sparse.assign(KEYS, VALUES).wait()
    np.testing.assert_array_equal(sparse.push_pull(KEYS, VALUES).wait(), 2 * VALUES)


def test_residual_rows_by_key() -> None:
    residuals = SparseResiduals(TableSpec("w", "sparse", (2,)))
    keys = np.array([5, -3, 10**15])
    residuals.set(keys, np.arange(6, dtype=np.float32).reshape(3, 2))
    np.testing.assert_array_equal(residuals.of(keys[::-1]), [[4, 5], [2, 3], [0, 1]])
    assert residuals.of(np.array([6])).tolist() == [[0, 0]]
    assert residuals.clear() == 3 and residuals.rows == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Wire(push="int4"),  # type: ignore[arg-type]
        lambda: Wire(pull="int8"),  # type: ignore[arg-type]
        lambda: Wire(keep=0.0),
        lambda: TableSpec("d", "dense", (5,), optimizer=Ftrl(), wire=Wire(push="kkt")),
        lambda: TableSpec("w", "sparse", (5,), wire=Wire(push="kkt")),
    ],
)
def test_forms_that_cannot_be(make: Any) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.remedy


def test_a_table_keeps_its_form_in_its_description() -> None:
    spec = TableSpec("w", "sparse", (5,), wire=Wire(push="int8", pull="float16"))
    assert TableSpec.from_json(spec.to_json()) == spec
    assert "wire" in spec.difference(TableSpec("w", "sparse", (5,)))
