"""A server's answers: what is refused, by which name, and that it goes on."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from engine_values import (
    JOB,
    SHARDS,
    Peer,
    as_bytes,
    of,
    service,
    sorted_by_shard,
    sparse,
    text,
)

from yarnps.protocol import wire
from yarnps.protocol.shards import shard_numbers
from yarnps.protocol.tables import Add, Ftrl, TableSpec
from yarnps.protocol.wire import Code, Flag, Header, Op

KEYS = np.arange(50)


def ready(spec: TableSpec | None = None) -> tuple[Peer, TableSpec]:
    spec = spec or sparse(optimizer=Add())
    peer = Peer(service())
    assert peer.open(spec).header.op == Op.OK
    return peer, spec


def still_works(peer: Peer, spec: TableSpec) -> None:
    assert peer.push(spec, KEYS, np.ones(50)).header.op == Op.OK
    assert (peer.pull(spec, KEYS) == 1).all()


def push_frames(peer: Peer, spec: TableSpec, **fields: Any) -> list[Any]:
    ordered, sections, _ = sorted_by_shard(KEYS)
    header = peer.header(Op.PUSH, **{**of(spec), **fields})
    return wire.encode(
        header, as_bytes(sections), as_bytes(ordered), np.ones(50, np.float32).tobytes()
    )


def patched(frame: bytes, offset: int, layout: str, value: int) -> bytes:
    raw = bytearray(frame)
    struct.pack_into(layout, raw, offset, value)
    return bytes(raw)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda f: f[:50], Code.BAD_MESSAGE, "50 bytes has no header"),
        (lambda f: b"GET / HTTP/1.1\r\n" + bytes(200), Code.BAD_MESSAGE, "not a message of yarnps"),
        (lambda f: patched(f, 4, "<H", 9), Code.VERSION, "protocol version 9"),
        (lambda f: f[:-4], Code.BAD_MESSAGE, "the header states"),
        (lambda f: f + b"more", Code.BAD_MESSAGE, "the header states"),
        (lambda f: patched(f, 80, "<I", 2**31), Code.BAD_MESSAGE, "the header states"),
        (lambda f: patched(f, 88, "<Q", 2**63), Code.BAD_MESSAGE, "the header states"),
        (lambda f: patched(f, 8, "<Q", JOB + 1), Code.JOB, "belongs to job"),
        (lambda f: patched(f, 6, "<B", 55), Code.UNSUPPORTED, "operation 55"),
        (lambda f: patched(f, 40, "<I", 12345), Code.NO_TABLE, "nobody has opened"),
        (lambda f: patched(f, 44, "<B", int(wire.DType.FLOAT64)), Code.DTYPE, "holds float32"),
        (lambda f: patched(f, 44, "<B", 99), Code.DTYPE, "unknown kind"),
        (lambda f: patched(f, 76, "<I", 3), Code.DIM, "rows of 1, the message of 3"),
        (lambda f: patched(f, 104, "<I", 4000), Code.BAD_MESSAGE, "shard 4000 of 16"),
        (lambda f: patched(f, 108, "<I", 4000), Code.BAD_MESSAGE, "keys are stated"),
    ],
)
def test_a_broken_message_is_refused_by_name(change: Any, code: Code, words: str) -> None:
    peer, spec = ready()
    frame = push_frames(peer, spec)[0]
    replies = peer.served.handle(peer.identity, [change(frame)], 0.0)
    assert len(replies) == 1
    answer = wire.decode(replies[0].frames)
    assert answer.header.op == Op.ERROR
    assert answer.header.code == code
    assert words in text(answer)
    assert peer.served.counts.refused == 1
    still_works(peer, spec)


@pytest.mark.parametrize("length", range(0, 104, 13))
def test_any_garbage_is_survived(length: int) -> None:
    peer, spec = ready()
    rng = np.random.default_rng(length)
    for size in (length, 104, 200, 5000):
        for frames in (1, 2, 3, 4):
            garbage = [rng.bytes(size) for _ in range(frames)]
            answers = peer.served.handle(peer.identity, garbage, 0.0)
            assert wire.decode(answers[0].frames).header.op == Op.ERROR
    still_works(peer, spec)


def test_bits_flipped_anywhere_never_end_the_server() -> None:
    peer, spec = ready()
    rng = np.random.default_rng(0)
    frame = push_frames(peer, spec)[0]
    for _ in range(2000):
        raw = bytearray(frame)
        for _ in range(rng.integers(1, 4)):
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        for reply in peer.served.handle(peer.identity, [bytes(raw)], 0.0):
            wire.decode(reply.frames)
    assert peer.open(sparse("fresh", optimizer=Add())).header.op == Op.OK
    still_works(peer, sparse("fresh", optimizer=Add()))


def test_nothing_is_read_before_hello() -> None:
    served = service()
    stranger = Peer(served, 9, hello=False)
    refused = stranger.open(sparse())
    assert (refused.header.op, refused.header.code) == (Op.ERROR, Code.HELLO_FIRST)
    assert not served.store.tables
    wrong = stranger.say_hello("guess")
    assert wrong.header.code == Code.TOKEN
    assert stranger.open(sparse()).header.code == Code.HELLO_FIRST
    assert stranger.ask(Op.HELLO, keys=b"not json").header.code == Code.BAD_MESSAGE
    assert stranger.say_hello().header.op == Op.OK
    assert stranger.open(sparse()).header.op == Op.OK


def test_generations() -> None:
    peer, spec = ready()
    peer.served.generation = 3
    assert peer.push(spec, KEYS, np.ones(50), generation=2).header.op == Op.STALE_GENERATION
    assert peer.push(spec, KEYS, np.ones(50), generation=4).header.op == Op.NOT_READY
    answer = peer.push(spec, KEYS, np.ones(50), generation=3)
    assert answer.header.op == Op.OK and answer.header.generation == 3
    assert (peer.pull(spec, KEYS, generation=3) == 1).all()


def test_shards_of_others_are_not_served() -> None:
    mine = list(range(8))
    served = service(mine)
    served.route = 12
    peer = Peer(served)
    spec = sparse(optimizer=Add())
    peer.open(spec)
    answer = peer.push(spec, KEYS, np.ones(50))
    assert answer.header.op == Op.WRONG_ROUTE and answer.header.route == 12
    keys = KEYS[shard_numbers(KEYS, 4) < 8]
    ordered, sections, _ = sorted_by_shard(keys)
    kept = sections[:8]
    ok = peer.ask(
        Op.PUSH, shards=kept, keys=ordered, values=np.ones(len(keys), np.float32), **of(spec)
    )
    assert ok.header.op == Op.OK


def test_a_table_opened_twice_with_other_settings() -> None:
    peer, _ = ready(sparse(optimizer=Ftrl(alpha=0.1)))
    assert peer.open(sparse(optimizer=Ftrl(alpha=0.1))).header.op == Op.OK
    refused = peer.open(sparse(optimizer=Ftrl(alpha=0.2), dim=2))
    assert refused.header.code == Code.TABLE_DIFFERS
    assert "alpha" in text(refused) and "shape" in text(refused)
    assert peer.ask(Op.OPEN, keys=b"{}").header.code == Code.BAD_MESSAGE


def test_a_leased_push_counts_once_and_an_old_token_not_at_all() -> None:
    peer, spec = ready()
    leased = {"flags": int(Flag.LEASED), "epoch": 1, "split": 4, "batch": 0, "token": 5}
    for _ in range(3):
        assert peer.push(spec, KEYS, np.ones(50), **leased).header.op == Op.OK
    assert (peer.pull(spec, KEYS) == 1).all()
    assert peer.push(spec, KEYS, np.ones(50), **{**leased, "push": 1}).header.op == Op.OK
    assert (peer.pull(spec, KEYS) == 2).all()
    newer = {**leased, "batch": 1, "token": 6}
    assert peer.push(spec, KEYS, np.ones(50), **newer).header.op == Op.OK
    older = {**leased, "batch": 2}
    assert peer.push(spec, KEYS, np.ones(50), **older).header.op == Op.STALE_LEASE
    assert (peer.pull(spec, KEYS) == 3).all()
    assert peer.served.store.duplicates == 2


def test_a_push_that_some_shards_have_applied_reaches_the_others() -> None:
    peer, spec = ready()
    leased = {"flags": int(Flag.LEASED), "epoch": 0, "split": 0, "batch": 0, "token": 1}
    shard = shard_numbers(KEYS, 4)
    some = KEYS[shard < 5]
    ordered, sections, _ = sorted_by_shard(some)
    peer.ask(
        Op.PUSH,
        shards=sections[:5],
        keys=ordered,
        values=np.ones(len(some), np.float32),
        **of(spec),
        **leased,
    )
    assert peer.push(spec, KEYS, 10 * np.ones(50), **leased).header.op == Op.OK
    np.testing.assert_array_equal(peer.pull(spec, KEYS)[:, 0], np.where(shard < 5, 1, 10))


def test_a_dense_push_that_some_shards_have_applied_reaches_the_others() -> None:
    spec = TableSpec("d", "dense", (100,), optimizer=Add())
    peer, _ = ready(spec)
    leased = {"flags": int(Flag.LEASED | Flag.WHOLE), "batch": 0, "token": 1}
    sections = np.stack([np.arange(16), np.zeros(16)], axis=1).astype(np.uint32)
    values = np.arange(100, dtype=np.float32)
    first = values[: 100 * 6 // 16]
    peer.ask(Op.PUSH, shards=sections[:6], values=first, **of(spec), **leased)
    peer.ask(Op.PUSH, shards=sections, values=2 * values, **of(spec), **leased)
    answer = peer.ask(Op.PULL, shards=sections, **of(spec), flags=int(Flag.WHOLE))
    expected = np.concatenate([first, 2 * values[len(first) :]])
    np.testing.assert_array_equal(np.frombuffer(answer.values, np.float32), expected)


@pytest.mark.parametrize("ranges", [[(-1, 3)], [(95, 101)], [(7, 5)], [(0, 50)]])
def test_elements_outside_their_shard_are_refused(ranges: list[tuple[int, int]]) -> None:
    spec = TableSpec("d", "dense", (100,), optimizer=Add())
    peer, _ = ready(spec)
    answer = peer.ask(
        Op.PUSH,
        shards=np.array([[15, 1]], np.uint32),
        keys=np.array(ranges, np.int64),
        values=np.ones(6, np.float32),
        **of(spec),
        flags=int(Flag.RANGES),
    )
    assert answer.header.code == Code.RANGE


def test_a_push_outside_a_batch_that_is_sent_twice_counts_once() -> None:
    peer, spec = ready()
    frames = push_frames(peer, spec)
    for _ in range(3):
        peer.send(frames)
    assert (peer.pull(spec, KEYS) == 1).all()


def test_a_table_that_is_cleared_twice_by_one_request_keeps_what_came_between() -> None:
    peer, spec = ready()
    peer.push(spec, KEYS, np.ones(50))
    assert peer.ask(Op.CLEAR, **of(spec)).header.op == Op.OK
    cleared = peer.requests
    peer.push(spec, KEYS, 2 * np.ones(50))
    peer.requests = cleared - 1  # its answer was lost: it is sent again
    assert peer.ask(Op.CLEAR, **of(spec)).header.op == Op.OK
    assert (peer.pull(spec, KEYS) == 2).all()


def test_a_gated_pull_waits_and_is_answered_when_the_slowest_has_moved() -> None:
    served = service(staleness=1)
    spec = sparse(optimizer=Add())
    fast, slow = Peer(served, 1), Peer(served, 2)
    fast.open(spec)
    served.set_members([1, 2], [])
    fast.ask(Op.JOIN)
    slow.ask(Op.JOIN)
    ordered, sections, _ = sorted_by_shard(KEYS)

    def pull(clock: int, now: float) -> wire.Message | None:
        header = fast.header(Op.PULL, **of(spec), clock=clock)
        return fast.send(wire.encode(header, as_bytes(sections), as_bytes(ordered)), now)

    assert pull(1, 0.0) is not None
    assert pull(2, 0.0) is None
    request = fast.requests
    assert served.waiting == 1
    replies = slow.served.handle(slow.identity, wire.encode(slow.header(Op.JOIN, clock=1)), 1.0)
    assert [reply.peer for reply in replies] == [slow.identity, fast.identity]
    assert wire.decode(replies[1].frames).header.request == request
    assert pull(3, 2.0) is None
    assert served.expire(100.0) == []
    (refused,) = served.expire(602.0)
    message = wire.decode(refused.frames)
    assert message.header.code == Code.GATE
    assert "waited 600 s" in text(message) and "0000000000000002" in text(message)
    assert pull(3, 700.0) is None
    assert [r.peer for r in served.set_members([1], [])] == [fast.identity]  # the slow one died


def test_a_pull_for_the_next_batch_lets_no_row_expire_before_its_time() -> None:
    """It is gated as one of the next clock, which no worker has reached."""
    served = service(staleness=4)
    spec = sparse(optimizer=Add(), expire=10)
    peer = Peer(served)
    peer.open(spec)
    peer.push(spec, KEYS, np.ones(50), clock=0)
    assert (peer.pull(spec, KEYS, clock=11, flags=int(Flag.EARLY)) == 1).all()
    assert served.store.clock == 10
    assert (peer.pull(spec, KEYS, clock=11) == 0).all()
    assert served.store.clock == 11


def test_an_answer_that_comes_through_the_gate_stays_as_it_is_until_it_is_sent() -> None:
    """Others are answered between its making and its sending."""
    served = service(staleness=0)
    spec = TableSpec("long", "dense", (1 << 18,), optimizer=Add())
    fast, slow = Peer(served, 1), Peer(served, 2)
    fast.open(spec)
    served.set_members([1, 2], [])
    fast.ask(Op.JOIN)
    slow.ask(Op.JOIN)
    shards = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)
    whole = {"flags": Flag.WHOLE, "clock": 1, **of(spec)}
    header = fast.header(Op.PULL, **whole)
    assert fast.send(wire.encode(header, as_bytes(shards))) is None
    ones = np.ones(spec.elements, np.float32)
    message = wire.encode(slow.header(Op.PUSH, **whole), as_bytes(shards), b"", as_bytes(ones))
    replies = served.handle(slow.identity, message, 0.0)
    assert [reply.peer for reply in replies] == [slow.identity, fast.identity]
    slow.ask(Op.PUSH, shards=shards, values=ones, **whole)
    found = np.frombuffer(wire.decode(replies[1].frames).values, np.float32)
    assert found.min() == found.max() == 1.0


def test_header_fields_survive_the_wire() -> None:
    header = Header(*range(1, 23))
    packed = wire.unpack(wire.pack(header))
    assert packed == header
    for shards, keys, values in ((b"s" * 8, b"k" * 16, b"v" * 4), (b"s" * 16, b"k" * 80_000, b"")):
        message = wire.decode(wire.encode(header, shards, keys, values))
        found = (bytes(message.shards), bytes(message.keys), bytes(message.values))
        assert found == (shards, keys, values)
