"""The server's port as anybody can reach it: what is refused, and that the server goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from engine_values import JOB, SHARDS, TOKEN, of, service, text
from port_callers import KEYS, LIMIT_S, SPEC, Caller, Served, assert_serves, serving

from yarnps._errors import ServerRefused
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.stream import Memory, Reader, dial
from yarnps.protocol.tables import Add, TableSpec, Wire
from yarnps.protocol.wire import Code, Flag, Header, Op
from yarnps.server.port import Port
from yarnps.worker.client import Client
from yarnps.worker.tables import CurrentBatch, SparseTable


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as world:
        yield world


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


def test_a_call_above_the_limit_is_an_error_at_the_caller(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only that one: the worker connects again, and its other calls are answered."""
    monkeypatch.setattr(wire, "MESSAGE_LIMIT", 1000)
    begin = pb.Begin(job=JOB, data_token=TOKEN)
    begin.incarnation.id = 7
    begin.routes.version = begin.routes.generation = 1
    begin.routes.servers.add(server_rank=0, address=served.address, incarnation=8)
    begin.routes.owner.extend([0] * SHARDS)
    client = Client(begin, request_limit=LIMIT_S)
    client.open(SPEC)
    table = SparseTable(client, SPEC, CurrentBatch())
    with pytest.raises(ServerRefused, match="bytes: 1,000 are allowed here"):
        table.push(np.arange(200), np.ones(200)).wait()
    table.push([1], [1.0]).wait()
    assert table.pull([0, 1]).wait().tolist() == [0.0, 1.0]
    client.close()
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
