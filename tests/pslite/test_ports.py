"""Sockets of a scheduler, with nodes that are plain zmq sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import zmq
from pslite_nodes import registration

from yarnps.pslite.ports import MOST_CONNECTIONS, Ports
from yarnps.pslite.wire import Address, Seat
from yarnps.pslite.zmtp import COMMAND, Zmtp, frame

W0, W1 = Seat("worker", 0), Seat("worker", 1)
LIMIT_S = 10.0


class Listener:
    """Ports, and what has come to them."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[Seat, bytes, bytes]] = asyncio.Queue()
        self.ports = Ports(lambda *said: self.heard.put_nowait(said), "127.0.0.1")

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
    for number in range(250):  # more than are read at once
        named.send(b"%d" % number)
    said = [await listener.next() for _ in range(250)]
    assert said == [(W0, b"ps9", b"%d" % number) for number in range(250)]


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


async def test_bytes_that_are_not_zmqs_are_heard_as_what_they_are_and_do_no_harm(
    listener: Listener, nodes: Nodes
) -> None:
    port = listener.ports.open(W0)
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert await listener.next() == (W0, b"", b"GET / HTTP/1.0\r\n\r\n")
        plain.settimeout(LIMIT_S)
        await asyncio.to_thread(until_closed, plain)
    nodes.dealer(port).send(b"a node")
    assert (await listener.next())[2] == b"a node"


async def test_those_who_say_nothing_keep_no_node_out(listener: Listener, nodes: Nodes) -> None:
    port = listener.ports.open(W0)
    node = nodes.dealer(port)
    node.send(b"before")
    await listener.next()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_CONNECTIONS + 1)]
    silent[0].settimeout(LIMIT_S)
    await asyncio.to_thread(until_closed, silent[0])  # the oldest make room
    node.send(b"still there")
    assert (await listener.next())[2] == b"still there"
    nodes.dealer(port).send(b"and another one")
    assert (await listener.next())[2] == b"and another one"
    for one in silent:
        one.close()


def until_closed(plain: socket.socket) -> None:
    """Read until the other end has closed the connection."""
    with suppress(ConnectionError):
        while plain.recv(1024):
            pass


async def test_a_node_that_listens_late_hears_everything(
    listener: Listener, nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    listener.ports.open(W0)
    to = Address("127.0.0.1", port)
    listener.ports.send(W0, to, b"one")
    listener.ports.send(W0, to, b"x" * 300_000)  # more than a socket takes at once
    deadline = time.monotonic() + LIMIT_S
    while "failed" not in caplog.text:
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    router = nodes.router()
    router.bind(f"tcp://{to}")
    assert await asyncio.to_thread(router.recv_multipart) == [b"ps1", b"one"]
    assert await asyncio.to_thread(router.recv_multipart) == [b"ps1", b"x" * 300_000]


async def test_what_comes_together_is_heard_before_the_pause() -> None:
    heard: list[bytes] = []
    done = asyncio.Event()

    def pause() -> None:
        if heard == [b"0", b"1", b"2"]:
            done.set()

    ports = Ports(lambda *said: heard.append(said[2]), "127.0.0.1", pause)
    port = ports.open(W0)
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(Zmtp.greeting + frame(b"\5READY", COMMAND))
        plain.sendall(b"".join(frame(b"%d" % number) for number in range(3)))
        await asyncio.wait_for(done.wait(), LIMIT_S)
    ports.stop()
