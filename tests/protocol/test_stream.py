"""Messages through a pair of real sockets, cut as the system likes."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from yarnps.protocol import stream, wire
from yarnps.protocol.stream import Closed, Memory, Outbox, Reader
from yarnps.protocol.wire import Code, Header, Message, WireError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


def message(request: int, values: Any = b"", keys: Any = b"") -> list[Any]:
    return wire.encode(Header(3, request=request), b"", keys, values)


def drained(outbox: Outbox, pair: Pair, reader: Reader) -> list[Message]:
    """All messages, sent and received by turns until everything has left."""
    left, right = pair
    found: list[Message] = []
    while outbox or select.select([right], [], [], 0)[0]:
        outbox.flush(left)
        found += reader.read(right)
    return found


def test_messages_of_all_sizes_arrive_whole_and_in_order(pair: Pair) -> None:
    rng = np.random.default_rng(0)
    sizes = [0, 1, 7, 8, 100, 65_000, 65_536, 65_537, 300_001, 3_000_000, 5, 0]
    sent = [rng.integers(0, 255, size, np.uint8) for size in sizes]
    outbox, reader = Outbox(), Reader(Memory(), wire.MESSAGE_LIMIT)
    for number, values in enumerate(sent):
        outbox.add(message(number, values, keys=bytes(8 * (number % 3))))
    got = drained(outbox, pair, reader)
    assert [m.header.request for m in got] == list(range(len(sent)))
    for number, (values, found) in enumerate(zip(sent, got, strict=True)):
        np.testing.assert_array_equal(np.frombuffer(found.values, np.uint8), values)
        assert len(found.keys) == 8 * (number % 3)


@pytest.mark.parametrize("step", [1, 3, 103, 104, 105, 1000])
def test_where_the_stream_is_cut_does_not_matter(step: int) -> None:
    whole = b"".join(b"".join(message(n, bytes([n]) * (13 * n))) for n in range(20))
    reader = Reader(Memory(), wire.MESSAGE_LIMIT)
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        got = []
        for at in range(0, len(whole), step):
            left.sendall(whole[at : at + step])
            got += list(reader.read(right))
    assert [bytes(m.values) for m in got] == [bytes([n]) * (13 * n) for n in range(20)]


def test_numbers_are_aligned_where_they_are_received(pair: Pair) -> None:
    outbox, reader = Outbox(), Reader(Memory(), wire.MESSAGE_LIMIT)
    for number in range(30):
        outbox.add(message(number, np.ones(number, np.uint8), keys=bytes(8)))
    outbox.add(message(31, np.ones(100_001, np.uint8), keys=bytes(8)))
    for found in drained(outbox, pair, reader):
        assert np.frombuffer(found.keys, np.int64).flags.aligned


def test_memory_is_used_again_only_when_nobody_refers_to_it() -> None:
    memory = Memory()
    first = memory.take(100_000)
    first[:3] = b"abc"
    held = np.frombuffer(first, np.uint8)[:3]
    address = np.frombuffer(first, np.uint8).ctypes.data
    del first
    second = np.frombuffer(memory.take(100_000), np.uint8)
    assert second.ctypes.data != address
    assert held.tobytes() == b"abc"
    del held
    assert np.frombuffer(memory.take(90_000), np.uint8).ctypes.data == address


def test_values_are_received_into_the_array_they_are_for(pair: Pair) -> None:
    out = np.zeros(200_000, np.uint8)
    sent = np.random.default_rng(1).integers(1, 255, len(out), np.uint8)

    def place(header: Header) -> memoryview:
        return memoryview(out.data)

    reader = Reader(Memory(), wire.MESSAGE_LIMIT, place)
    outbox = Outbox()
    outbox.add(message(1, sent, keys=bytes(24)))
    (found,) = drained(outbox, pair, reader)
    assert found.values is None and len(found.keys) == 24
    np.testing.assert_array_equal(out, sent)


def test_an_array_that_is_its_owners_again_is_not_written_to(pair: Pair) -> None:
    left, right = pair
    out = np.zeros(200_000, np.uint8)
    reader = Reader(Memory(), wire.MESSAGE_LIMIT, lambda header: memoryview(out.data))
    whole = b"".join(bytes(part) for part in message(1, np.ones(len(out), np.uint8)))
    left.sendall(whole[:70_000])
    while not out.any():
        assert list(reader.read(right)) == []
    reader.divert(out)
    out[:] = 0
    outbox = Outbox()
    outbox.add([whole[70_000:], *message(2)])
    found = drained(outbox, pair, reader)
    assert [m.header.request for m in found] == [1, 2]
    assert not out.any()


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Code.BAD_MESSAGE, "not a message of yarnps"),
        (b"GE", Code.BAD_MESSAGE, "not a message of yarnps"),
        (bytes(500), Code.BAD_MESSAGE, "begins with 0x00000000"),
        (wire.pack(Header(3, request=9, key_bytes=2**63)), Code.TOO_LARGE, "are allowed here"),
        (wire.pack(Header(3, request=9, shards=2**32 - 1)), Code.TOO_LARGE, "are allowed here"),
    ],
)
def test_what_is_no_message_is_refused_at_its_first_bytes(
    pair: Pair, data: bytes, code: Code, words: str
) -> None:
    left, right = pair
    left.sendall(b"".join(message(1)) + data)
    got = []
    with pytest.raises(WireError, match=words) as raised:
        for found in Reader(Memory(), 1 << 20).read(right):
            got.append(found.header.request)
    assert got == [1]
    assert raised.value.code == code
    assert raised.value.request == (9 if code == Code.TOO_LARGE else 0)


def test_a_closed_connection_is_told(pair: Pair) -> None:
    left, right = pair
    reader = Reader(Memory(), wire.MESSAGE_LIMIT)
    assert list(reader.read(right)) == []
    left.close()
    with pytest.raises(Closed):
        list(reader.read(right))
    outbox = Outbox()
    outbox.add(message(1))
    with pytest.raises(Closed):
        outbox.flush(right)


def test_what_the_system_does_not_take_waits_without_a_copy(pair: Pair) -> None:
    left, _ = pair
    values = np.ones(50 << 20, np.uint8)
    outbox = Outbox()
    outbox.add(message(1, values))
    outbox.flush(left)
    assert 40 << 20 < outbox.nbytes < 50 << 20
    assert all(np.may_share_memory(np.frombuffer(w, np.uint8), values) for w in [*outbox._waiting])


def test_dialing_nobody_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Closed):
        sock = stream.dial(f"tcp://127.0.0.1:{port}")
        with sock:  # where refusal comes later
            list(Reader(Memory(), 1).read(sock))
