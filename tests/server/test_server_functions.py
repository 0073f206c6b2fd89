"""Functions on a server, message by message."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, Peer, of, service, sparse, text

from yarnps.protocol import wire
from yarnps.protocol.arrays import pack, unpack
from yarnps.protocol.tables import Add, TableSpec
from yarnps.protocol.wire import Code, Flag, Op
from yarnps.server.function_process import Work
from yarnps.server.runner import Runner
from yarnps.server.store import Store

ALL = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)
KEYS = np.arange(300)


def ready() -> tuple[Peer, TableSpec]:
    peer, spec = Peer(service()), sparse(optimizer=Add(), dtype="float64")
    peer.open(spec)
    peer.push(spec, KEYS, np.ones(300))
    return peer, spec


def call(peer: Peer, spec: TableSpec, function: str, fields: Any = None, **settings: Any) -> Any:
    keys = json.dumps({"function": function, "settings": settings}).encode()
    return peer.ask(Op.CALL, shards=ALL, keys=keys, **of(spec), **(fields or {}))


def test_a_change_that_is_sent_twice_counts_once() -> None:
    peer, spec = ready()
    leased = {"flags": int(Flag.LEASED), "epoch": 1, "split": 2, "batch": 0, "token": 1}
    for _ in range(3):
        assert call(peer, spec, "scale", leased, factor=2.0).header.op == Op.OK
    assert (peer.pull(spec, KEYS) == 2).all()
    call(peer, spec, "scale", {**leased, "push": 1}, factor=2.0)
    call(peer, spec, "scale", {**leased, "batch": 1, "token": 2}, factor=2.0)
    assert call(peer, spec, "scale", {**leased, "batch": 2}, factor=2.0).header.op == Op.STALE_LEASE
    assert (peer.pull(spec, KEYS) == 8).all()
    for _ in range(3):  # the same request again
        peer.requests = 77
        call(peer, spec, "scale", factor=0.5)
    assert (peer.pull(spec, KEYS) == 4).all()
    assert peer.served.store.duplicates == 4


def test_a_change_reaches_the_shards_that_have_not_seen_it() -> None:
    peer, spec = ready()
    leased = {"flags": int(Flag.LEASED), "epoch": 1, "split": 2, "batch": 0, "token": 1}
    keys = json.dumps({"function": "scale", "settings": {"factor": 3.0}}).encode()
    peer.ask(Op.CALL, shards=ALL[:5], keys=keys, **of(spec), **leased)
    peer.ask(Op.CALL, shards=ALL, keys=keys, **of(spec), **leased)
    assert (peer.pull(spec, KEYS) == 3).all()


@pytest.mark.parametrize(
    ("function", "settings", "code", "words"),
    [
        ("size", {}, Code.UNSUPPORTED, "no function 'size': give one of dot, histogram"),
        ("scale", {}, Code.BAD_MESSAGE, "scale with {}"),
        ("topk", {"k": "many", "by": "size"}, Code.BAD_MESSAGE, "topk with"),
        ("dot", {"table": 12}, Code.NO_TABLE, "nobody has opened the other table"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    function: str, settings: Any, code: Code, words: str
) -> None:
    peer, spec = ready()
    refused = call(peer, spec, function, **settings)
    assert (refused.header.op, refused.header.code) == (Op.ERROR, code)
    assert words in text(refused)
    assert (peer.pull(spec, KEYS) == 1).all()


@pytest.mark.parametrize("keys", [b"", b"[1]", b"{}", b'{"function": "norm", "arrays": [1]}'])
def test_a_call_that_cannot_be_read(keys: bytes) -> None:
    peer, spec = ready()
    assert peer.ask(Op.CALL, shards=ALL, keys=keys, **of(spec)).header.code == Code.BAD_MESSAGE
    assert call(peer, spec, "norm").header.op == Op.OK


def test_arrays_survive_the_wire_and_nothing_else_does() -> None:
    arrays: list[Any] = [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
    ]
    packed = pack(arrays)
    for before, after in zip(arrays, unpack(packed.described, packed.data), strict=True):
        np.testing.assert_array_equal(before, after)
        assert before.shape == after.shape and after.flags.writeable
    with pytest.raises(ValueError, match="numbers are expected"):
        pack([np.array(["text"])])
    for described in (
        [{"dtype": "O", "shape": [1]}],
        [{"dtype": "<f8", "shape": [-1]}],
        [{"dtype": "<f8", "shape": [2**60]}],
        [{"dtype": "<f8", "shape": [1]}],
        [{"shape": [1]}],
        "text",
        7,
    ):
        with pytest.raises(ValueError):
            unpack(described, b"0123456789")


def test_a_call_for_shards_of_others_is_sent_on() -> None:
    served = service(list(range(8)))
    peer, spec = Peer(served), sparse(optimizer=Add())
    peer.open(spec)
    assert call(peer, spec, "norm").header.op == Op.WRONG_ROUTE
    assert call(peer, spec, "own:function").header.op == Op.WRONG_ROUTE


def test_after_a_rollback_own_functions_see_the_tables_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Work] = []
    monkeypatch.setattr(Runner, "start", lambda self, number, work, limit: begun.append(work))
    peer, spec = ready()
    served = peer.served
    served.store = Store(list(range(SHARDS)), SHARDS)
    peer.open(spec)
    peer.push(spec, KEYS[:7], np.ones(7))
    keys = json.dumps({"function": "job:own", "settings": {}}).encode()
    assert peer.send(wire.encode(peer.header(Op.CALL, **of(spec)), ALL.tobytes(), keys)) is None
    assert served.step_functions() == []
    served.own_functions.close()
    (work,) = begun
    assert sum(len(keys) for keys, _ in work.shards) == 7
