"""A server's port in a thread, and whoever connects to it, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from engine_values import JOB, TOKEN, as_bytes, of, service, sorted_by_shard, sparse

from yarnps.protocol import wire
from yarnps.protocol.stream import Memory, Reader, dial
from yarnps.protocol.tables import Add
from yarnps.protocol.wire import Header, Message, Op
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


@contextmanager
def serving(staleness: int | None = None, parts: int | None = None) -> Iterator[Served]:
    """A port that is closed with the block."""
    world = Served(staleness, parts)
    try:
        yield world
    finally:
        world.close()


def assert_serves(served: Served) -> None:
    """Another worker is served as if nothing had happened."""
    other = Caller(served, 99)
    other.sock.sendall(other.push())
    assert other.answer().header.op == Op.OK
    other.sock.sendall(other.pull())
    assert np.frombuffer(other.answer().values, np.float32).min() >= 1
    other.sock.close()
