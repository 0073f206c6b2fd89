"""The server's port as anybody can reach it: what is refused, and that the server goes on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_values import JOB, SHARDS, TOKEN, as_bytes, of, service, sorted_by_shard, sparse, text

from yarnps.protocol import wire
from yarnps.protocol.stream import Memory, Reader, dial
from yarnps.protocol.tables import Add, TableSpec, Wire
from yarnps.protocol.wire import Code, Flag, Header, Message, Op
from yarnps.server import port as port_module
from yarnps.server.port import Port
from yarnps.server.service import Service
from yarnps.server.steps import Steps
from yarnps.server.summing import apply_step

LIMIT_S = 20.0
KEYS = np.arange(40)
SPEC = sparse(optimizer=Add())


class Served:
    """A port in a thread of its own."""

    def __init__(self, staleness: int | None = None, parts: int | None = None) -> None:
        self.service: Service = service(staleness=staleness)
        if parts is not None:
            store = self.service.store
            self.service.steps = Steps(parts, 0, lambda all_, step: apply_step(store, all_, step))
        self.port = Port(self.service)
        self.address = self.port.listen("127.0.0.1")
        self.sockets: list[socket.socket] = []
        self.now = 0.0  # what the port takes for the time when it looks for silent peers
        self._ours, theirs = socket.socketpair()
        self.port.watch(theirs.fileno())
        self._theirs = theirs
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self.port.wait(0.05):
            self.port.expire(self.now)
        self.port.close()

    def close(self) -> None:
        self._ours.send(b"x")
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        for sock in (self._ours, self._theirs, *self.sockets):
            sock.close()


class Caller:
    """Sends bytes, and reads answers."""

    def __init__(self, served: Served, incarnation: int = 1, *, hello: bool = True) -> None:
        self.sock = dial(served.address)
        served.sockets.append(self.sock)
        self.sock.settimeout(LIMIT_S)
        self.incarnation = incarnation
        self.requests = 0
        self._reader = Reader(Memory(), wire.MESSAGE_LIMIT)
        self._answers: list[Message] = []
        if hello:
            assert self.ask(Op.HELLO, keys=b'{"token": "%s"}' % TOKEN.encode()).header.op == Op.OK
            assert self.ask(Op.OPEN, keys=SPEC.to_json().encode()).header.op == Op.OK

    def message(
        self, op: int, shards: Any = b"", keys: Any = b"", values: Any = b"", **fields: Any
    ) -> bytes:
        self.requests += 1
        known = {"job": JOB, "generation": 1, "incarnation": self.incarnation}
        header = Header(op, request=self.requests, **{**known, **fields})
        buffers = wire.encode(header, as_bytes(shards), as_bytes(keys), as_bytes(values))
        return b"".join(buffers)

    def push(self, **fields: Any) -> bytes:
        keys, sections, _ = sorted_by_shard(KEYS)
        ones = np.ones(len(KEYS), np.float32)
        return self.message(Op.PUSH, sections, keys, ones, **{**of(SPEC), **fields})

    def pull(self) -> bytes:
        keys, sections, _ = sorted_by_shard(KEYS)
        return self.message(Op.PULL, sections, keys, **of(SPEC))

    def ask(self, op: int, **fields: Any) -> Message:
        self.sock.sendall(self.message(op, **fields))
        return self.answer()

    def answer(self) -> Message:
        while not self._answers:
            self._answers += self._reader.read(self.sock)
        return self._answers.pop(0)

    def is_left_alone(self) -> bool:
        """Whether the server has closed the connection."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def served() -> Iterator[Served]:
    world = Served()
    yield world
    world.close()


def assert_serves(served: Served) -> None:
    """Another worker is served as if nothing had happened."""
    other = Caller(served, 99)
    other.sock.sendall(other.push())
    assert other.answer().header.op == Op.OK
    other.sock.sendall(other.pull())
    assert np.frombuffer(other.answer().values, np.float32).min() >= 1
    other.sock.close()


def patched(message: bytes, at: int, value: bytes) -> bytes:
    return message[:at] + value + message[at + len(value) :]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda m: b"GET / HTTP/1.1\r\n\r\n", Code.BAD_MESSAGE, "not a message of yarnps"),
        (lambda m: np.random.default_rng(3).bytes(5000), Code.BAD_MESSAGE, "not a message"),
        (lambda m: patched(m, 4, b"\x09\x00"), Code.VERSION, "protocol version 9"),
        (lambda m: patched(m, 88, b"\xff" * 8), Code.TOO_LARGE, "are allowed here"),
        (lambda m: patched(m, 80, b"\xff" * 4), Code.TOO_LARGE, "are allowed here"),
        (lambda m: patched(m, 96, bytes(8)), Code.BAD_MESSAGE, "not a message of yarnps"),
    ],
    ids=["http", "noise", "version", "keys", "shards", "values"],
)
def test_after_what_is_no_message_the_connection_ends(
    served: Served, change: Callable[[bytes], bytes], code: Code, words: str
) -> None:
    """Where the next message begins is unknown then; the refusal comes first."""
    caller = Caller(served)
    caller.sock.sendall(change(caller.push()))
    answer = caller.answer()
    while words not in text(answer):
        answer = caller.answer()  # what a lying length left of the push is refused first
    assert (answer.header.op, answer.header.code) == (Op.ERROR, code)
    if code in (Code.VERSION, Code.TOO_LARGE):
        assert answer.header.request == caller.requests
    assert caller.is_left_alone()
    assert_serves(served)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"job": JOB + 1}, Code.JOB, "belongs to job"),
        ({"op": 55}, Code.UNSUPPORTED, "operation 55"),
        ({"table": 12345}, Code.NO_TABLE, "nobody has opened"),
        ({"dim": 7}, Code.DIM, "rows of 1"),
        ({"dtype": 2}, Code.DTYPE, "holds float32"),
    ],
)
def test_a_message_that_is_wrong_is_refused_and_the_next_is_served(
    served: Served, fields: dict[str, int], code: Code, words: str
) -> None:
    caller = Caller(served)
    wrong = caller.push(**{k: v for k, v in fields.items() if k != "op"})
    caller.sock.sendall(patched(wrong, 6, bytes([fields.get("op", Op.PUSH)])) + caller.push())
    refused = caller.answer()
    assert (refused.header.code, refused.header.request) == (code, caller.requests - 1)
    assert words in text(refused)
    assert caller.answer().header.op == Op.OK


def test_lengths_that_lie_about_each_other(served: Served) -> None:
    caller = Caller(served)
    message = caller.push()
    keys = len(KEYS) * 8
    shorter = (keys - 8).to_bytes(8, "little") + (len(KEYS) * 4 + 8).to_bytes(8, "little")
    caller.sock.sendall(patched(message, 88, shorter) + caller.push())
    refused = caller.answer()
    assert refused.header.code == Code.BAD_MESSAGE and "keys are stated" in text(refused)
    assert caller.answer().header.op == Op.OK


def test_some_numbers_with_places_that_lie(served: Served) -> None:
    """One that there is not; and lengths of sections that take a number for a place."""
    caller = Caller(served)
    spec = TableSpec("few", "dense", (300,), optimizer=Add(), wire=Wire(push="topk"))
    assert caller.ask(Op.OPEN, keys=spec.to_json().encode()).header.op == Op.OK
    shards = np.stack([np.arange(SHARDS), np.zeros(SHARDS)], axis=1).astype(np.uint32)
    flags = int(Flag.WHOLE | Flag.PICKED)

    def pushed(*places: int) -> bytes:
        section = np.ones(len(places), np.float32).tobytes() + np.array(places, "u2").tobytes()
        return caller.message(Op.PUSH, shards, values=section, flags=flags, **of(spec))

    four, keys = pushed(1, 2, 3, 4), (16).to_bytes(8, "little")  # 16 of its 24 bytes as keys
    caller.sock.sendall(pushed(5, 300) + patched(four, 88, keys + (8).to_bytes(8, "little")))
    for words in ("2 places are not in increasing order below 300", "8 bytes are no numbers"):
        refused = caller.answer()
        assert refused.header.code == Code.BAD_MESSAGE and words in text(refused)
    caller.sock.sendall(pushed(5, 299))
    assert caller.answer().header.op == Op.OK
    size = caller.ask(Op.PULL, shards=shards, flags=int(Flag.WHOLE), **of(spec))
    assert np.flatnonzero(np.frombuffer(size.values, np.float32)).tolist() == [5, 299]
    assert_serves(served)


def test_other_generations(served: Served) -> None:
    caller = Caller(served)
    served.service.generation = 3
    caller.sock.sendall(caller.push(generation=2) + caller.push(generation=4))
    assert caller.answer().header.op == Op.STALE_GENERATION
    assert caller.answer().header.op == Op.NOT_READY


def test_before_hello_nothing_is_read(served: Served) -> None:
    caller = Caller(served, hello=False)
    caller.sock.sendall(caller.push() + caller.message(Op.HELLO, keys=b'{"token": "guess"}'))
    assert caller.answer().header.code == Code.HELLO_FIRST
    assert caller.answer().header.code == Code.TOKEN
    large = caller.message(Op.PUSH, values=np.zeros(100_000, np.float32))
    caller.sock.sendall(large)
    refused = caller.answer()
    assert refused.header.code == Code.TOO_LARGE and "65,536 are allowed" in text(refused)
    assert caller.is_left_alone()
    assert_serves(served)


def test_who_says_nothing_is_sent_away(served: Served) -> None:
    known, silent = Caller(served, 5), Caller(served, 6, hello=False)
    half = Caller(served, 7, hello=False)
    half.sock.sendall(half.push()[:50])
    served.now = float("inf")
    assert silent.is_left_alone() and half.is_left_alone()
    known.sock.sendall(known.push())
    assert known.answer().header.op == Op.OK


def test_many_at_once(served: Served) -> None:
    rng = np.random.default_rng(0)
    bad = [Caller(served, 1000 + n, hello=bool(n % 2)) for n in range(60)]
    for caller in bad:
        garbage = bytearray(caller.push())
        for at in rng.integers(0, len(garbage), 5):
            garbage[at] ^= 255
        caller.sock.sendall(bytes(garbage) + rng.bytes(2000))
    assert_serves(served)
    for caller in bad:
        caller.sock.close()
    assert_serves(served)


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


# A message that asks for all of it is answered with 1 MB.
LONG = TableSpec("long", "dense", (1 << 18,), optimizer=Add())
ASKED = 24  # more than the system's buffers hold
STEP = Flag.STEP | Flag.LEASED


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
    served = Served(staleness=0)
    try:
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
    finally:
        served.close()


def test_pulls_of_the_next_step_wait_for_the_socket() -> None:
    served = Served(parts=2)
    try:
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
    finally:
        served.close()


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


def test_a_peer_that_leaves_is_forgotten(served: Served, tmp_path: Path) -> None:
    caller = Caller(served)
    assert served.service.knows(b"1")
    caller.sock.close()
    assert_serves(served)
    assert not served.service.knows(b"1")


def test_a_unix_socket(tmp_path: Path) -> None:
    port = Port(service())
    address = port.listen(f"ipc://{tmp_path}/port")
    with dial(address) as sock:
        sock.send(wire.pack(Header(Op.HELLO, job=JOB, request=5)))
        while not port.wait(0.05) and not port.peers:
            pass
        port.wait(LIMIT_S)
        sock.settimeout(LIMIT_S)
        (answer,) = Reader(Memory(), wire.MESSAGE_LIMIT).cut(sock.recv(65536))
        assert (answer.header.request, answer.header.code) == (5, Code.BAD_MESSAGE)
    port.close()
