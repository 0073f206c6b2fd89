"""Answers of a server's port to those who do not take them, and to those who have waited."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_values import SHARDS, of, sorted_by_shard, sparse
from port_callers import KEYS, LIMIT_S, Caller, Served, assert_serves, serving

from yarnps.protocol.tables import Add, TableSpec
from yarnps.protocol.wire import Flag, Message, Op
from yarnps.server import port as port_module

# A message that asks for all of it is answered with 1 MB.
LONG = TableSpec("long", "dense", (1 << 18,), optimizer=Add())
ASKED = 24  # more than the system's buffers hold
STEP = Flag.STEP | Flag.LEASED


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as world:
        yield world


def test_who_takes_no_answers_is_not_read_any_further(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs the server no more than a limit; when it reads again, nothing is missing."""
    monkeypatch.setattr(port_module, "REPLIES_LIMIT", 1 << 20)
    wide = sparse("wide", dim=200, optimizer=Add())
    caller = Caller(served)
    caller.ask(Op.OPEN, keys=wide.to_json().encode())
    keys, sections, _ = sorted_by_shard(KEYS)
    asked = 0
    caller.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
    caller.sock.setblocking(False)
    before = caller.requests
    with pytest.raises(BlockingIOError):
        while asked < 1_000_000:
            message = caller.message(Op.PULL, sections, keys, **of(wide))
            while message:
                message = message[caller.sock.send(message) :]
            asked += 1
    caller.sock.settimeout(LIMIT_S)
    (peer,) = served.port._peers.values()
    one_round = 2 * (64 << 10)  # bytes of requests, with what each of them costs
    assert peer.outbox.nbytes + peer.held_bytes < (1 << 20) + 3 * one_round
    assert_serves(served)
    for number in range(asked):
        assert caller.answer().header.request == before + 1 + number


def whole(
    caller: Caller, op: Op = Op.PULL, value: float | None = None, flags: int = 0, **fields: Any
) -> bytes:
    """A message for all of the long table."""
    shards = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)
    values = b"" if value is None else np.full(LONG.elements, value, np.float32)
    flags |= Flag.WHOLE
    return caller.message(op, shards, values=values, flags=flags, **of(LONG), **fields)


def one_number(answer: Message) -> float:
    """What all elements of an answer are."""
    values = np.frombuffer(answer.values, np.float32)
    assert len(values) == LONG.elements and values.min() == values.max()
    return float(values[0])


def asking_much(served: Served) -> Caller:
    """Somebody who has asked for more than the system's buffers hold, and has taken none of it."""
    caller = Caller(served)
    assert caller.ask(Op.OPEN, keys=LONG.to_json().encode()).header.op == Op.OK
    caller.sock.sendall(b"".join(whole(caller) for _ in range(ASKED)))
    assert_serves(served)  # so that what came before has been looked at
    assert served.port._peers[b"1"].held
    return caller


def test_pulls_that_wait_for_the_socket_have_not_come_yet(served: Served) -> None:
    """Nothing is kept for them. Each answer is of one moment, also the one that was on its way."""
    caller, other = asking_much(served), Caller(served, 2)
    for value in (1.0, 2.0):
        other.sock.sendall(whole(other, Op.PUSH, value))
        assert other.answer().header.op == Op.OK
    (peer,) = (peer for peer in served.port._peers.values() if peer.held)
    assert peer.outbox.nbytes < 2 << 20
    found = [one_number(caller.answer()) for _ in range(ASKED)]
    assert found == sorted(found) and set(found) == {0.0, 3.0}
    assert_serves(served)


def waiting_at_the_gate(served: Served, caller: Caller, **fields: Any) -> None:
    """The caller has asked for more than the system's buffers hold, and has to wait for it."""
    assert caller.ask(Op.OPEN, keys=LONG.to_json().encode()).header.op == Op.OK
    caller.sock.sendall(b"".join(whole(caller, **fields) for _ in range(ASKED)))
    assert_serves(served)
    assert served.service.waiting == ASKED


def assert_little_is_kept_for(served: Served, caller: Caller, name: bytes) -> None:
    assert_serves(served)
    peer = served.port._peers[name]
    assert served.service.waiting == 0 and peer.outbox.nbytes < 2 << 20 and len(peer.held) > 5


def test_pulls_that_the_gate_lets_through_wait_for_the_socket() -> None:
    with serving(staleness=0) as served:
        fast, slow = Caller(served), Caller(served, 2)
        for caller in (fast, slow):
            assert caller.ask(Op.JOIN, clock=0).header.op == Op.OK
        waiting_at_the_gate(served, fast, clock=1)
        slow.sock.sendall(whole(slow, Op.PUSH, 1.0))
        assert slow.answer().header.op == Op.OK
        assert slow.ask(Op.JOIN, clock=1).header.op == Op.OK
        assert_little_is_kept_for(served, fast, b"1")
        slow.sock.sendall(whole(slow, Op.PUSH, 2.0))
        assert slow.answer().header.op == Op.OK
        found = [one_number(fast.answer()) for _ in range(ASKED)]
        assert found == sorted(found) and set(found) == {1.0, 3.0}
        assert_serves(served)


def test_pulls_of_the_next_step_wait_for_the_socket() -> None:
    with serving(parts=2) as served:
        one, two = Caller(served), Caller(served, 2)
        step = {"epoch": 1, "token": 1, "weight": 5}
        for caller in (one, two):
            assert caller.ask(Op.OPEN, keys=LONG.to_json().encode()).header.op == Op.OK
            mine = {**step, "split": caller.incarnation - 1, "clock": 0}
            caller.sock.sendall(whole(caller, Op.PUSH, 1.0, flags=STEP, **mine))
            assert caller.answer().header.op == Op.OK
        announced = {"keys": np.array([0, 1, 5]), "flags": int(STEP), **step, "clock": 0}
        assert one.ask(Op.ANNOUNCE, split=0, **announced).header.op == Op.OK
        waiting_at_the_gate(served, one, flags=STEP, **step, split=0, clock=1)
        assert two.ask(Op.ANNOUNCE, split=1, **announced).header.op == Op.OK
        assert_little_is_kept_for(served, one, b"1")
        assert [one_number(one.answer()) for _ in range(ASKED)] == [2.0] * ASKED


def test_a_push_waits_for_nobody_to_take_the_answers_before_it(served: Served) -> None:
    caller, other = asking_much(served), Caller(served, 2)
    caller.sock.sendall(whole(caller, Op.PUSH, 5.0) + whole(caller))
    assert_serves(served)
    other.sock.sendall(whole(other))
    assert one_number(other.answer()) == 5.0
    assert [one_number(caller.answer()) for _ in range(ASKED)] == [0.0] * ASKED
    assert caller.answer().header.op == Op.OK
    assert one_number(caller.answer()) == 5.0


def test_pulls_of_somebody_who_has_left_are_forgotten(served: Served) -> None:
    caller = asking_much(served)
    caller.sock.close()
    assert_serves(served)
    assert not served.service.knows(b"1")
