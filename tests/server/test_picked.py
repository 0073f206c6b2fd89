"""Pushes of some numbers of a dense table: to its server they are gradients with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, Peer, of, service, text

from yarnps.protocol import wire
from yarnps.protocol.codecs import form_of_places
from yarnps.protocol.tables import Adagrad, Adam, Add, Clip, Optimizer, Sgd, TableSpec, Wire
from yarnps.protocol.wire import Code, Flag, Op
from yarnps.server.steps import Steps
from yarnps.server.summing import apply_step

N = 300
TOPK = Wire(push="topk")
PLACES = np.array([0, 5, 130, 299])
WHOLE = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)


def table(optimizer: Optimizer | None = None, dtype: str = "float32", **more: Any) -> TableSpec:
    more = {"wire": TOPK, **more}
    return TableSpec("d", "dense", (N,), dtype, optimizer or Add(), **more)


def section(spec: TableSpec, values: Any, places: Any = PLACES) -> bytes:
    numbers = np.asarray(values, spec.dtype)
    return numbers.tobytes() + np.asarray(places).astype(form_of_places(N)).tobytes()


def some(peer: Peer, spec: TableSpec, values: bytes, **fields: Any) -> wire.Message:
    flags = Flag.WHOLE | Flag.PICKED | fields.pop("flags", 0)
    return peer.ask(Op.PUSH, shards=WHOLE, values=values, flags=int(flags), **of(spec), **fields)


def weights(peer: Peer, spec: TableSpec) -> Any:
    answer = peer.ask(Op.PULL, shards=WHOLE, flags=int(Flag.WHOLE), **of(spec))
    return np.frombuffer(answer.values, spec.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "optimizer",
    [Add(), Sgd(0.1, weight_decay=0.1), Sgd(0.1, momentum=0.9), Adagrad(0.1), Adam(0.1)],
    ids=lambda found: type(found).__name__,
)
def test_the_optimizer_sees_zeros_for_the_others(optimizer: Optimizer, dtype: str) -> None:
    """To the last bit what a push of the whole array would do, whatever the optimizer is."""
    one, other = Peer(service()), Peer(service())
    spec = table(optimizer, dtype)
    for peer in (one, other):
        peer.open(spec)
    rng = np.random.default_rng(0)
    for _ in range(4):
        values = rng.normal(size=N).astype(dtype)
        places = np.sort(rng.choice(N, 30, replace=False))
        plain = np.zeros(N, dtype)
        plain[places] = values[places]
        assert some(one, spec, section(spec, values[places], places)).header.op == Op.OK
        other.ask(Op.PUSH, shards=WHOLE, values=plain, flags=int(Flag.WHOLE), **of(spec))
    found = weights(one, spec)
    np.testing.assert_array_equal(found, weights(other, spec))
    assert found.any()


def test_ranges_leave_alone_what_is_outside() -> None:
    """Shard 3 has the elements 56 to 74: of [60, 70) the place 4 is element 64."""
    spec = table(Sgd(1.0, weight_decay=0.5))
    peer = Peer(service())
    peer.open(spec)
    peer.ask(Op.ASSIGN, shards=WHOLE, values=np.ones(N, "f4"), flags=int(Flag.WHOLE), **of(spec))
    answer = peer.ask(
        Op.PUSH,
        shards=np.array([[3, 1]], np.uint32),
        keys=np.array([60, 70]),
        values=np.float32(2).tobytes() + np.uint8(4).tobytes(),
        flags=int(Flag.RANGES | Flag.PICKED),
        **of(spec),
    )
    assert answer.header.op == Op.OK
    expected = np.ones(N)
    expected[60:70] = 0.5  # a gradient of 0 still decays
    expected[64] = -1.5
    np.testing.assert_array_equal(weights(peer, spec), expected)


def test_a_repeated_push_is_applied_once() -> None:
    spec = table()
    peer = Peer(service())
    peer.open(spec)
    for _ in range(2):
        known = {"flags": Flag.LEASED, "epoch": 1, "split": 3, "token": 1, "batch": 0}
        assert some(peer, spec, section(spec, [1, 2, 3, 4]), **known).header.op == Op.OK
    assert weights(peer, spec)[PLACES].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("policy", "clip", "expected"),
    [("skip", None, [1, 0, 0, 4]), ("clip", Clip(value=3.0), [1, 0, 3, 3])],
)
def test_policies_for_what_is_not_finite(policy: Any, clip: Any, expected: list[float]) -> None:
    spec = table(nonfinite=policy, clip=clip)
    served = service()
    peer = Peer(served)
    peer.open(spec)
    assert some(peer, spec, section(spec, [1, np.nan, np.inf, 4])).header.op == Op.OK
    assert weights(peer, spec)[PLACES].tolist() == expected
    assert served.table_stats()[0].nonfinite == 2


def test_a_step_takes_the_mean_over_all_parts() -> None:
    """Also where only one of them has sent a number."""
    served = service()
    served.steps = Steps(2, 0, lambda all_, step: apply_step(served.store, all_, step))
    spec = table(Sgd(1.0), "float64")
    for number, (places, values) in enumerate([([0, 5], [3.0, 3.0]), ([5, 130], [6.0, 6.0])]):
        peer = Peer(served, 10 + number)
        peer.open(spec)
        at = {"flags": Flag.STEP | Flag.LEASED, "epoch": 1, "split": number, "token": 1, "clock": 0}
        assert some(peer, spec, section(spec, values, places), **at).header.op == Op.OK
        announced = {**at, "flags": int(at["flags"]), "weight": 10 * (number + 1)}
        peer.ask(Op.ANNOUNCE, keys=np.array([number, 1, 10]), **announced)
    expected = np.zeros(N)
    expected[[0, 5, 130]] = -1.0, -5.0, -4.0  # one part has 10 rows, the other 20
    np.testing.assert_allclose(weights(peer, spec), expected, rtol=1e-12)


def test_a_step_of_one_part_is_the_plain_push() -> None:
    served = service()
    served.steps = Steps(1, 0, lambda all_, step: apply_step(served.store, all_, step))
    spec, peer = table(), Peer(served)
    peer.open(spec)
    at = {"flags": Flag.STEP | Flag.LEASED, "epoch": 1, "split": 0, "token": 1, "clock": 0}
    some(peer, spec, section(spec, [1, 2, 3, 4]), **at)
    peer.ask(Op.ANNOUNCE, keys=np.array([0, 1, 10]), **{**at, "flags": int(at["flags"])})
    assert weights(peer, spec)[PLACES].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        (section(table(), [1.0], [N]), Code.BAD_MESSAGE, "not in increasing order below 300"),
        (section(table(), [1, 2], [5, 5]), Code.BAD_MESSAGE, "not in increasing order below 300"),
        (section(table(), [1, 2], [5, 4]), Code.BAD_MESSAGE, "not in increasing order below 300"),
        (section(table(), [1.0], [7])[:-1], Code.BAD_MESSAGE, "5 bytes are no numbers"),
        (np.ones(N, np.float32).tobytes(), Code.BAD_MESSAGE, "not in increasing order below 300"),
        (section(table(), [np.nan], [7]), Code.NONFINITE, "1 of 300 elements"),
    ],
    ids=["beyond", "twice", "backwards", "cut off", "no places", "nan"],
)
def test_what_is_refused_changes_nothing(values: bytes, code: Code, words: str) -> None:
    spec = table()
    peer = Peer(service())
    peer.open(spec)
    refused = some(peer, spec, values)
    assert (refused.header.op, refused.header.code) == (Op.ERROR, code), text(refused)
    assert words in text(refused)
    assert not weights(peer, spec).any()
    assert some(peer, spec, section(spec, [1, 2, 3, 4])).header.op == Op.OK
    assert weights(peer, spec).sum() == 10


@pytest.mark.parametrize(
    ("spec", "op"),
    [
        (table(wire=Wire()), Op.PUSH),
        (table(), Op.ASSIGN),
        (table(), Op.PUSH_PULL),
        (TableSpec("d", "sparse", (1,), wire=TOPK), Op.PUSH),
    ],
    ids=["exact table", "assign", "push_pull", "sparse"],
)
def test_who_takes_no_such_push_says_so(spec: TableSpec, op: Op) -> None:
    peer = Peer(service())
    peer.open(spec)
    flags = int(Flag.WHOLE | Flag.PICKED)
    values = section(spec, [1, 2, 3, 4])
    refused = peer.ask(op, shards=WHOLE, values=values, flags=flags, **of(spec))
    assert refused.header.code == Code.UNSUPPORTED
    assert "takes no push of some of a gradient's numbers" in text(refused)
