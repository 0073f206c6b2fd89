"""Sockets of a scheduler in their thread; nodes are plain zmq sockets, and strangers are none."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import zmq
from pslite_nodes import registration

from yarnps.pslite import ports as pslite_ports
from yarnps.pslite.ports import AT_ONCE
from yarnps.pslite.van import Van
from yarnps.pslite.wire import Address, Seat

W0, W1 = Seat("worker", 0), Seat("worker", 1)
LIMIT_S = 10.0


class Listener:
    """Ports, and what has come to them."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[Seat, bytes, bytes]] = asyncio.Queue()
        self.failures: list[Exception] = []
        hear = self.heard.put_nowait
        self.ports = Van(lambda *said: hear(said), self.failures.append, "127.0.0.1")

    async def next(self) -> tuple[Seat, bytes, bytes]:
        return await asyncio.wait_for(self.heard.get(), LIMIT_S)


class Nodes:
    """Makes the sockets of nodes, and closes them."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._made: list[Any] = []

    def dealer(self, port: int, name: bytes = b"") -> Any:
        made = self._socket(zmq.DEALER)
        if name:
            made.setsockopt(zmq.IDENTITY, name)
        made.connect(f"tcp://127.0.0.1:{port}")
        return made

    def router(self) -> Any:
        made = self._socket(zmq.ROUTER)
        made.setsockopt(zmq.RCVTIMEO, int(1000 * LIMIT_S))
        return made

    def close(self) -> None:
        for made in self._made:
            made.close(0)
        self._context.term()

    def _socket(self, kind: int) -> Any:
        made = self._context.socket(kind)
        self._made.append(made)
        return made


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    yield made
    made.ports.stop()
    assert not made.failures


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.close()


async def test_each_seat_has_a_port_of_its_own(listener: Listener, nodes: Nodes) -> None:
    first, second = listener.ports.open(W0), listener.ports.open(W1)
    message = registration(W1, Address("127.0.0.1", 1))
    nodes.dealer(second).send(message)
    seat, _, heard = await listener.next()
    assert (seat, heard) == (W1, message)
    named = nodes.dealer(first, b"ps9")
    many = 2 * AT_ONCE + 50
    for number in range(many):
        named.send(b"%d" % number)
    said = [await listener.next() for _ in range(many)]
    assert said == [(W0, b"ps9", b"%d" % number) for number in range(many)]


async def test_nodes_hear_the_scheduler_even_if_it_stops_now(nodes: Nodes) -> None:
    listener = Listener()
    router = nodes.router()
    port = router.bind_to_random_port("tcp://127.0.0.1")
    listener.ports.send(W0, Address("127.0.0.1", port), b"one")
    listener.ports.send(W0, Address("127.0.0.1", port), b"two")
    listener.ports.stop()
    assert router.recv_multipart() == [b"ps1", b"one"]
    assert router.recv_multipart() == [b"ps1", b"two"]


async def test_what_an_earlier_process_says_is_not_heard(listener: Listener, nodes: Nodes) -> None:
    old = listener.ports.open(W0)
    earlier = nodes.dealer(old)
    earlier.send(b"still heard")
    await listener.next()
    new = listener.ports.open(W0)
    assert new != old
    earlier.send(b"too late")
    nodes.dealer(new).send(b"new")
    assert (await listener.next())[2] == b"new"


async def test_a_port_can_be_taken_again_or_is_said_to_be_taken(listener: Listener) -> None:
    before = Listener()
    port = before.ports.open(W0)
    before.ports.stop()
    assert listener.ports.open(W0, port) == port
    with pytest.raises(OSError, match=f"port {port} of worker 1"):
        listener.ports.open(W1, port)


STRANGERS = {
    "says nothing": b"",
    "HTTP": b"GET / HTTP/1.0\r\n\r\n",
    "random": b"\x7f" + random.Random(1).randbytes(100),  # less than it seems to announce
    "almost ZeroMQ": b"\xff" + bytes(8) + b"\x7f\x03" + random.Random(2).randbytes(100),
}


@pytest.mark.parametrize("name", STRANGERS)
async def test_bytes_that_are_not_zmqs_are_told_of_and_do_no_harm(
    name: str, listener: Listener, nodes: Nodes
) -> None:
    port = listener.ports.open(W0)
    node = nodes.dealer(port, b"ps9")
    node.send(b"before")
    await listener.next()
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(STRANGERS[name])
    assert await listener.next() == (W0, b"", b"")
    node.send(b"still there")
    assert await listener.next() == (W0, b"ps9", b"still there")
    nodes.dealer(port).send(b"another one")
    assert (await listener.next())[2] == b"another one"


async def test_bytes_that_look_like_a_message_are_heard_as_one(listener: Listener) -> None:
    port = listener.ports.open(W0)
    with socket.create_connection(("127.0.0.1", port)) as plain:
        # Of ZeroMQ's first protocol: a length, flags, and a name; then the same with a message.
        plain.sendall(b"\x06\x00a web" + b"\x06\x00page!")
        assert await listener.next() == (W0, b"a web", b"page!")


async def test_who_says_nothing_is_cut_off(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pslite_ports, "HANDSHAKE_MS", 20)
    port = listener.ports.open(W0)
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.settimeout(LIMIT_S)
        await asyncio.to_thread(until_closed, silent)
    assert await listener.next() == (W0, b"", b"")


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


def until_closed(plain: socket.socket) -> None:
    """Read until the other end has closed the connection."""
    with suppress(ConnectionError):
        while plain.recv(1024):
            pass


async def test_a_node_that_listens_late_hears_everything(listener: Listener, nodes: Nodes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        to = Address("127.0.0.1", taken.getsockname()[1])
        listener.ports.send(W0, to, b"one")
        taken.settimeout(LIMIT_S)
        (await asyncio.to_thread(taken.accept))[0].close()
    listener.ports.send(W0, to, b"x" * 300_000)  # more than a socket takes at once
    router = nodes.router()
    router.bind(f"tcp://{to}")
    assert await asyncio.to_thread(router.recv_multipart) == [b"ps1", b"one"]
    assert await asyncio.to_thread(router.recv_multipart) == [b"ps1", b"x" * 300_000]


async def test_a_node_hears_after_someone_else_had_its_port(
    listener: Listener, nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        to = Address("127.0.0.1", taken.getsockname()[1])
        listener.ports.send(W0, to, b"to a stranger")
        taken.settimeout(LIMIT_S)
        stranger, _ = await asyncio.to_thread(taken.accept)
        with stranger:
            stranger.settimeout(LIMIT_S)
            stranger.sendall(STRANGERS["almost ZeroMQ"])
            await asyncio.to_thread(until_closed, stranger)
    await until(lambda: f"worker 0 is not what listens at {to}" in caplog.text)
    router = nodes.router()
    router.bind(f"tcp://{to}")
    listener.ports.send(W0, to, b"to the node")
    assert await asyncio.to_thread(router.recv_multipart) == [b"ps1", b"to the node"]


async def test_a_way_that_cannot_be_is_named(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    listener.ports.send(W0, Address("no host", 9), b"one")
    await until(lambda: "a message to worker 0 is lost" in caplog.text)
    assert "no connection to worker 0 at no host:9" in caplog.text
