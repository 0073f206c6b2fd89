"""Optimizers against their formulas, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optimizer_formulas as formulas
import pytest
from engine_values import SHARDS, Peer, places, service, sorted_by_shard, sparse

from yarnps._errors import InputError
from yarnps.protocol.optimizers import CosineDecay, ExponentialDecay, StepDecay, WarmUp
from yarnps.protocol.shards import frozen
from yarnps.protocol.tables import (
    Adagrad,
    Adam,
    AdamW,
    Add,
    Clip,
    Ftrl,
    Normal,
    RmsProp,
    Sgd,
    TableSpec,
    Uniform,
)
from yarnps.protocol.wire import Flag, Op
from yarnps.server.dense import DenseTable
from yarnps.server.sparse import SparseTable

STEPS = 25
ROWS = 600  # two and a bit of the stretches in which rows of one number are worked on
ALL = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)
WARM = WarmUp(CosineDecay(0.3, steps=20, end=0.01), steps=5, start=0.02)

CASES: list[tuple[Any, Any]] = [
    (Add(), formulas.add),
    (Sgd(0.3), formulas.sgd),
    (Sgd(0.3, weight_decay=0.1), formulas.sgd),
    (Sgd(0.1, momentum=0.9), formulas.sgd),
    (Sgd(0.1, momentum=0.8, nesterov=True, weight_decay=0.05), formulas.sgd),
    (Sgd(WARM, momentum=0.8), formulas.sgd),
    (Adagrad(learning_rate=0.2, epsilon=1e-8, initial=0.1), formulas.adagrad),
    (Adagrad(StepDecay(0.2, every=4, factor=0.5)), formulas.adagrad),
    (RmsProp(0.05, decay=0.8, epsilon=1e-4), formulas.rmsprop),
    (Adam(0.05), formulas.adam),
    (Adam(ExponentialDecay(0.1, every=10), 0.5, 0.9, epsilon=1e-3), formulas.adam),
    (AdamW(0.05, weight_decay=0.2), formulas.adam),
    (AdamW(WARM, weight_decay=0.2), formulas.adam),
    (Ftrl(alpha=0.3, beta=1.0, l1=0.7, l2=0.2), formulas.ftrl),
    (Ftrl(alpha=0.05, beta=0.5), formulas.ftrl),
    (Ftrl(alpha=0.1, beta=0.0, l1=1.0, l2=0.1), formulas.ftrl),
]
names = [f"{optimizer.name}{number}" for number, (optimizer, _) in enumerate(CASES)]
each_case = pytest.mark.parametrize(("optimizer", "formula"), CASES, ids=names)
each_dtype = pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)


def started(optimizer: Any) -> dict[str, Any]:
    """Where weights that are not zeros show a fault, tables start with some."""
    return {} if isinstance(optimizer, Ftrl) else {"init": Uniform(-1.0, 1.0)}


def push_all(table: DenseTable, grad: Any, clock: int) -> None:
    table.push(ALL, table.whole(ALL), frozen(grad), clock=clock)


@each_case
@each_dtype
def test_dense(optimizer: Any, formula: Any, dtype: str, tolerance: float) -> None:
    spec = TableSpec("d", "dense", (50, 3), dtype, optimizer=optimizer, **started(optimizer))
    table = DenseTable(spec, places())
    start = table.pull(table.whole(ALL))
    grads = np.random.default_rng(4).normal(size=(STEPS, 150)).astype(dtype)
    expected = formula(grads.astype(np.float64), optimizer, start.astype(np.float64))
    for clock, (grad, weights) in enumerate(zip(grads, expected, strict=True)):
        push_all(table, grad, clock)
        found = table.pull(table.whole(ALL))
        np.testing.assert_allclose(found, weights, rtol=tolerance, atol=tolerance)


# What Optax 0.2.8 (in float64) makes of START by these gradients; rmsprop with eps_in_sqrt=False.
START = [0.5, -1.25, 2.0]
GRADS = [[0.1, -0.2, 0.3], [1.0, 0.5, -0.25], [-0.4, 0.0, 0.7], [0.05, -1.5, 0.2]]
LINE_THEN_COSINE = WarmUp(CosineDecay(0.3, steps=5, end=0.03), steps=2, start=0.02)
OF_OPTAX: list[tuple[Any, list[float]]] = [
    (Sgd(0.1), [0.42500000000000004, -1.13, 1.9049999999999998]),
    (Sgd(0.1, weight_decay=0.05), [0.41602150156249995, -1.10498662828125, 1.86584738]),
    (Sgd(0.1, momentum=0.9), [0.26560999999999996, -1.16672, 1.81158]),
    (Sgd(0.1, momentum=0.9, nesterov=True), [0.214049, -1.055048, 1.735422]),
    (
        RmsProp(0.05, decay=0.8, epsilon=1e-4),
        [0.3162479444565238, -1.1359893240811072, 1.8321811333522404],
    ),
    (Adam(0.05), [0.37709411061994874, -1.2165778972002586, 1.8896961471291989]),
    (
        AdamW(0.05, weight_decay=0.2),
        [0.3598518570765028, -1.1681970386153009, 1.8126973118243197],
    ),
    (Adam(LINE_THEN_COSINE), [0.16349155890338252, -1.2792236692486074, 1.6388708441623683]),
]


@pytest.mark.parametrize(("optimizer", "expected"), OF_OPTAX)
def test_dense_is_what_optax_computes(optimizer: Any, expected: list[float]) -> None:
    table = DenseTable(TableSpec("d", "dense", (3,), "float64", optimizer=optimizer), places())
    table.assign(table.whole(ALL), np.array(START))
    for clock, grad in enumerate(GRADS):
        push_all(table, np.array(grad), clock)
    # Optax computes schedules in float32.
    tolerance = 1e-6 if optimizer.learning_rate is LINE_THEN_COSINE else 1e-12
    np.testing.assert_allclose(table.pull(table.whole(ALL)), expected, rtol=tolerance)


@each_case
@each_dtype
@pytest.mark.parametrize("dim", [1, 7])
def test_sparse_with_every_row_in_every_push(
    optimizer: Any, formula: Any, dtype: str, tolerance: float, dim: int
) -> None:
    """Adam apart, which puts epsilon elsewhere in sparse tables."""
    table = SparseTable(
        sparse(dim=dim, optimizer=optimizer, dtype=dtype, **started(optimizer)), places()
    )
    keys, sections, _ = sorted_by_shard(np.random.default_rng(3).permutation(ROWS))
    start = table.pull(keys, sections).astype(np.float64)
    grads = np.random.default_rng(3).normal(size=(STEPS, ROWS, dim)).astype(dtype)
    touched = np.ones((STEPS, ROWS), bool)
    exact = grads.astype(np.float64)
    if isinstance(optimizer, Adam):
        expected = formulas.sparse_adam(exact, touched, optimizer, start)
    else:
        expected = formula(exact, optimizer, start)
    for clock, (grad, weights) in enumerate(zip(grads, expected, strict=True)):
        table.push(keys, sections, frozen(grad), clock=clock)
        found = table.pull(keys, sections)
        np.testing.assert_allclose(found, weights, rtol=tolerance, atol=tolerance)
    if isinstance(optimizer, Ftrl) and optimizer.l1:
        assert ((found == 0) == (weights == 0)).all() and (weights == 0).any()


@pytest.mark.parametrize("optimizer", [Adam(0.05), AdamW(0.05, weight_decay=0.3)])
def test_sparse_adam_touches_the_rows_of_a_push_and_counts_everybodys_steps(
    optimizer: Any,
) -> None:
    """The meaning of PyTorch's SparseAdam; the decay of AdamW comes with the touch."""
    spec = sparse(dim=3, optimizer=optimizer, dtype="float64", init=Normal(1.0))
    peer, keys = Peer(service()), np.arange(-30, 30)
    peer.open(spec)
    rng = np.random.default_rng(8)
    grads = rng.normal(size=(STEPS, 60, 3))
    touched = rng.random((STEPS, 60)) < 0.2
    expected = formulas.sparse_adam(grads, touched, optimizer, peer.pull(spec, keys))
    for clock, rows in enumerate(touched):
        answer = peer.push(spec, keys[rows], grads[clock][rows], clock=clock)
        assert answer.header.op == Op.OK
        np.testing.assert_allclose(peer.pull(spec, keys), expected[clock], rtol=1e-12, atol=1e-12)


def test_shards_whose_numbers_of_steps_differ_correct_their_own() -> None:
    """A push that names some shards only is a step of these."""
    optimizer = Adam(0.1)
    table = SparseTable(sparse(optimizer=optimizer, dtype="float64"), places())
    dense = DenseTable(TableSpec("d", "dense", (64,), "float64", optimizer=optimizer), places())
    keys, sections, _ = sorted_by_shard(np.arange(300))
    few = frozen(sections[:5])
    count = int(few[:, 1].sum())
    for _ in range(3):
        table.push(frozen(keys[:count]), few, frozen(np.ones((count, 1))))
        dense.push(few, dense.whole(few), frozen(np.ones(20)))
    table.push(keys, sections, frozen(np.ones((300, 1))))
    push_all(dense, np.ones(64), 0)
    often = formulas.sparse_adam(
        np.ones((4, 1, 1)), np.ones((4, 1), bool), optimizer, np.zeros((1, 1))
    )
    assert (table.steps == [4] * 5 + [1] * 11).all() and (dense.steps == table.steps).all()
    found = table.pull(keys, sections)[:, 0]
    np.testing.assert_allclose(found[:count], often[-1, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(found[count:], often[0, 0, 0], rtol=1e-12)
    found = dense.pull(dense.whole(ALL))
    often = formulas.adam(np.ones((4, 1)), optimizer, np.zeros(1))
    np.testing.assert_allclose(found[:20], often[-1, 0], rtol=1e-12)
    np.testing.assert_allclose(found[20:], often[0, 0], rtol=1e-12)


@pytest.mark.parametrize("optimizer", [Sgd(0.5, weight_decay=0.1), Sgd(0.5, 0.9), RmsProp(0.1)])
def test_rows_that_a_push_does_not_touch_stay_as_they_are(optimizer: Any) -> None:
    table = SparseTable(
        sparse(dim=2, optimizer=optimizer, dtype="float64", init=Normal(1.0)), places()
    )
    keys, sections, _ = sorted_by_shard(np.arange(100))
    table.push(keys, sections, frozen(np.ones((100, 2))))
    others = [table.copy_shard(shard).states for shard in range(5, SHARDS)]
    few = frozen(sections[:5])
    count = int(few[:, 1].sum())
    before = table.pull(frozen(keys[:count]), few)
    table.push(frozen(keys[:count]), few, frozen(np.zeros((count, 2))))
    for shard, states in enumerate(others, 5):
        np.testing.assert_array_equal(table.copy_shard(shard).states, states)
    after = table.pull(frozen(keys[:count]), few)
    if optimizer.name == "rmsprop":
        np.testing.assert_array_equal(after, before)
    else:
        assert (after != before).all()


@pytest.mark.parametrize("optimizer", [case[0] for case in CASES], ids=names)
def test_assigned_weights_are_pulled_again(optimizer: Any) -> None:
    table = SparseTable(sparse(dim=2, optimizer=optimizer, dtype="float64"), places())
    ordered, sections, _ = sorted_by_shard(np.arange(100))
    weights = np.random.default_rng(5).normal(size=(100, 2))
    weights[::7] = 0
    table.assign(ordered, sections, weights)
    np.testing.assert_allclose(table.pull(ordered, sections), weights, rtol=1e-12, atol=1e-14)


def test_schedules_are_their_formulas() -> None:
    step = StepDecay(0.8, every=3, factor=0.5)
    assert [step.at(c) for c in (0, 2, 3, 6)] == [0.8, 0.8, 0.4, 0.2]
    assert ExponentialDecay(0.8, every=2, factor=0.25).at(3) == pytest.approx(0.8 * 0.25**1.5)
    cosine = CosineDecay(1.0, steps=10, end=0.2)
    assert [cosine.at(c) for c in (0, 5, 10, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert cosine.at(2) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 5)) / 2)
    warm = WarmUp(cosine, steps=4, start=0.2)
    assert [warm.at(c) for c in (0, 1, 2, 4, 9)] == pytest.approx([0.2, 0.4, 0.6, 1.0, 0.6])


def test_a_push_outside_a_batch_has_the_highest_clock_so_far() -> None:
    spec = sparse(optimizer=Sgd(StepDecay(1.0, every=10, factor=0.5)), dtype="float64")
    peer = Peer(service())
    peer.open(spec)
    peer.push(spec, [1], [1.0])  # at clock 0
    peer.push(spec, [2], [1.0], clock=25)
    peer.push(spec, [3], [1.0])
    peer.push(spec, [4], [1.0], clock=12)
    assert peer.pull(spec, [1, 2, 3, 4])[:, 0].tolist() == [-1.0, -0.25, -0.25, -0.5]


def test_without_clocks_a_worker_s_batches_are_counted_where_they_are_pushed() -> None:
    """asp: two pushes of a batch, then others; somebody who comes later begins where they are."""
    spec = sparse(optimizer=Sgd(StepDecay(1.0, every=1, factor=0.5)), dtype="float64")
    served = service()
    one, two = Peer(served, 1), Peer(served, 2)
    one.open(spec)

    def push(peer: Peer, key: int, **fields: Any) -> float:
        leased = {"flags": int(Flag.LEASED), "epoch": 1, "token": 1, **fields}
        assert peer.push(spec, [key], [-1.0], **leased).header.op == Op.OK
        return float(one.pull(spec, [key])[0, 0])

    assert push(one, 1, split=3, batch=0) == 1.0
    assert push(one, 2, split=3, batch=0, push=1) == 1.0
    assert push(one, 3, split=3, batch=1) == 0.5
    assert push(one, 4, split=7, batch=0) == 0.25
    assert push(two, 5, split=4, batch=9) == 0.25
    assert push(two, 6, split=4, batch=10) == 0.125
    assert push(one, 7, split=7, batch=1) == 0.125
    served.set_members([1, 2], [])
    served.set_members([1], [])
    assert served.store.clock == 3


# ---------------------------------------------------------------------- before the optimizer


def test_numbers_and_rows_are_clipped() -> None:
    spec = sparse(dim=2, optimizer=Add(), clip=Clip(value=3.0, row_norm=4.0), dtype="float64")
    table = SparseTable(spec, places())
    keys, sections, order = sorted_by_shard([1, 2, 3])
    grads = np.array([[9.0, 0.5], [3.0, -9.0], [0.0, 0.0]])
    table.push(keys, sections, frozen(grads[order]))
    found = np.empty((3, 2))
    found[order] = table.pull(keys, sections)
    long = 4 / math.hypot(3, 3)
    np.testing.assert_allclose(found, [[3, 0.5], [3 * long, -3 * long], [0, 0]], rtol=1e-15)


BAD = [(np.nan, 0.0), (np.inf, 5.0), (-np.inf, -5.0)]


@pytest.mark.parametrize(("bad", "clipped"), BAD)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_infinity_in_sparse_gradients(bad: float, clipped: float, dtype: str) -> None:
    keys, sections, order = sorted_by_shard(np.arange(100))
    grads = np.ones((100, 3), dtype)
    grads[order[7], 1] = bad
    more = {"dim": 3, "dtype": dtype}
    for optimizer in (Add(), Adam(0.1), Sgd(0.1, momentum=0.5)):
        peer = Peer(service())
        spec = sparse("fails", optimizer=optimizer, **more)  # the default
        peer.open(spec)
        answer = peer.push(spec, np.arange(100), grads)
        assert answer.header.op == Op.ERROR
        words = bytes(answer.values).decode()
        assert "table fails: 1 of 100 rows of the gradient hold NaN or infinity" in words
        assert not peer.pull(spec, np.arange(100)).any()
        assert peer.push(spec, np.arange(100), np.ones((100, 3))).header.op == Op.OK

        table = SparseTable(sparse(optimizer=optimizer, nonfinite="skip", **more), places())
        table.push(keys, sections, frozen(grads[order]))
        found = table.pull(keys, sections)
        bad_row = int(np.flatnonzero(order == order[7])[0])
        assert not found[bad_row].any() and (np.delete(found, bad_row, 0) != 0).all()
        assert (table.nonfinite, table.rows) == (1, 99)

    spec = sparse(optimizer=Add(), nonfinite="clip", clip=Clip(value=5.0), **more)
    table = SparseTable(spec, places())
    table.push(keys, sections, frozen(grads[order]))
    assert table.pull(keys, sections)[7].tolist() == [1.0, clipped, 1.0]
    assert table.nonfinite == 1


@pytest.mark.parametrize(("bad", "clipped"), BAD)
def test_nan_and_infinity_in_dense_gradients(bad: float, clipped: float) -> None:
    grad = np.ones(64)
    grad[[5, 40]] = bad
    good = np.isfinite(grad)
    peer, spec = Peer(service()), TableSpec("fails", "dense", (64,), "float64", optimizer=Adam())
    peer.open(spec)
    answer = peer.ask(
        Op.PUSH, shards=ALL, values=grad, table=_number(spec), dtype=2, dim=1, flags=2
    )
    assert "2 of 64 elements of the gradient hold NaN" in bytes(answer.values).decode()
    for optimizer in (Add(), Adam(0.1), Sgd(0.1, momentum=0.5, weight_decay=0.1)):
        table = DenseTable(
            TableSpec(
                "d", "dense", (64,), "float64", optimizer, Uniform(1.0, 2.0), nonfinite="skip"
            ),
            places(),
        )
        states = [table.copy_shard(shard) for shard in range(SHARDS)]
        push_all(table, grad, 0)
        after = [table.copy_shard(shard) for shard in range(SHARDS)]
        same = np.concatenate([(a == b).all(axis=0) for a, b in zip(states, after, strict=True)])
        np.testing.assert_array_equal(same, ~good)
        assert table.nonfinite == 2
    spec = TableSpec("d", "dense", (64,), "float64", Add(), clip=Clip(value=5.0), nonfinite="clip")
    table = DenseTable(spec, places())
    push_all(table, grad, 0)
    np.testing.assert_array_equal(table.pull(table.whole(ALL)), np.where(good, 1.0, clipped))


def _number(spec: TableSpec) -> int:
    from yarnps.protocol.wire import table_id

    return table_id(spec.name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ftrl(alpha=0),
        lambda: Ftrl(beta=0, l2=0),
        lambda: Sgd(-1),
        lambda: Sgd(nesterov=True),
        lambda: Sgd(momentum=1.0),
        lambda: Sgd(weight_decay=-0.1),
        lambda: Sgd("fast"),
        lambda: Adagrad(epsilon=0),
        lambda: RmsProp(decay=1.0),
        lambda: Adam(beta2=1.0),
        lambda: AdamW(weight_decay=-1),
        lambda: StepDecay(0.1, every=0),
        lambda: ExponentialDecay(0.1, every=5, factor=2.0),
        lambda: CosineDecay(0.1, steps=5, end=0.2),
        lambda: WarmUp(0.0, steps=5),
        lambda: Clip(),
        lambda: Clip(value=-1.0),
        lambda: sparse(optimizer=Ftrl(), init=Normal()),
        lambda: sparse(dtype="float16"),
        lambda: sparse(dim=0),
        lambda: sparse("a/b"),
        lambda: sparse(nonfinite="ignore"),
        lambda: sparse(nonfinite="clip"),
        lambda: sparse(nonfinite="clip", clip=Clip(norm=1.0)),
        lambda: sparse(when_full="grow"),
        lambda: sparse(admit=0),
        lambda: sparse(expire=0),
        lambda: TableSpec("d", "dense", (3,), when_full="evict"),
        lambda: TableSpec("d", "dense", (3,), admit=2),
        lambda: TableSpec("d", "dense", (3,), clip=Clip(row_norm=1.0)),
        lambda: TableSpec("d", "round", (3,)),  # type: ignore[arg-type]
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert raised.value.remedy


@pytest.mark.parametrize("optimizer", [case[0] for case in CASES], ids=names)
def test_a_description_says_all_of_a_table(optimizer: Any) -> None:
    spec = TableSpec(
        "t",
        "sparse",
        (4,),
        "float64",
        optimizer,
        clip=Clip(value=2.0, norm=5.0),
        nonfinite="clip",
        when_full="evict",
        admit=3,
        expire=9,
    )
    assert TableSpec.from_json(spec.to_json()) == spec
    other = TableSpec("t", "sparse", (4,), "float64", optimizer, admit=2)
    words = spec.difference(other)
    assert "admit 2 instead of 3" in words and "clip None instead of" in words
    assert "optimizer" not in words
