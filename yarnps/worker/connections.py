"""All connections of a worker, and waiting for any of them."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, ValuesView

from yarnps.protocol.stream import Memory
from yarnps.worker.calls import Call, Request
from yarnps.worker.connection import Connection


class Connections:
    """One connection for each server rank. Not thread-safe but for `wake`."""

    def __init__(self) -> None:
        self._by_rank: dict[int, Connection] = {}
        self._by_fd: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._memory = Memory()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._epoll.register(self._wake_in.fileno(), select.EPOLLIN)

    def wake(self) -> None:
        """End the wait of whoever waits; from any thread."""
        try:
            self._wake_out.send(b"x")
        except BlockingIOError:
            return  # it is awake already

    def close(self) -> None:
        for connection in self.values():
            connection.close()
        self._epoll.close()
        self._wake_in.close()
        self._wake_out.close()

    def __getitem__(self, rank: int) -> Connection:
        return self._by_rank[rank]

    def values(self) -> ValuesView[Connection]:
        return self._by_rank.values()

    def of(self, rank: int) -> Connection:
        """The connection of a rank, which may be new."""
        connection = self._by_rank.get(rank)
        if connection is None:
            connection = self._by_rank[rank] = Connection(rank, self._epoll, self._memory)
        return connection

    def dial(self, connection: Connection, now: float) -> bool:
        """Connect where that is due; whether there is a new connection."""
        if not (connection.due(now) and connection.dial(now)):
            return False
        self._by_fd[connection.fileno] = connection
        return True

    def ready(self, seconds: float) -> list[tuple[Connection | None, int]]:
        """Those that have something within `seconds`, with epoll's events; None: `wake` was
        called."""
        found: list[tuple[Connection | None, int]] = []
        for fd, events in self._epoll.poll(seconds):
            connection = self._by_fd.get(fd)
            if connection is not None and connection.fileno == fd:
                found.append((connection, events))
            else:
                self._drain_wake()
                found.append((None, 0))
        return found

    def _drain_wake(self) -> None:
        try:
            self._wake_in.recv(4096)
        except BlockingIOError:
            return

    def forget(self, call: Call) -> None:
        """Nobody waits for this call any more."""
        for connection in self.values():
            connection.forget(call)

    def pending(self) -> Iterator[Request]:
        """All requests without an answer."""
        for connection in self.values():
            yield from connection.pending.values()

    @property
    def outstanding(self) -> int:
        """Requests without an answer."""
        return sum(len(connection.pending) for connection in self.values())
