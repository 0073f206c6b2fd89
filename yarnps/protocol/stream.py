"""Messages in and out of a socket that never blocks: what both ends of the data plane share.

The sockets are the system's own. A round trip through a messaging library wakes two threads more,
one on either side; that is most of the time of a small call. Long messages are received into
memory that is used again, or into the array that they are for, and sent from where they are.
"""

from __future__ import annotations

import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from yarnps.protocol import wire
from yarnps.protocol.wire import Code, Header, Message, WireError

# Read at once while no long message is under way.
CHUNK_BYTES = 64 << 10

# Memory of received messages that is kept for the next ones.
_KEPT_BYTES = 64 << 20
_KEPT_BUFFERS = 64

# Buffers of one system call; the system takes 1,024.
_BUFFERS = 256

_MAGIC = wire.MAGIC.to_bytes(4, "little")

# A peer whose machine is gone without a word is noticed after about a minute.
_IDLE_S, _INTERVAL_S, _PROBES = 20, 10, 4


class Closed(Exception):
    """The other side has closed the connection, or it broke."""


def tune(sock: socket.socket) -> None:
    """The settings of every connection of the data plane."""
    sock.setblocking(False)
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_S),
        ("TCP_KEEPINTVL", _INTERVAL_S),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Memory:
    """Buffers for long messages; one is used again when nobody refers to any part of it."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._free_bytes = 0
        self._lent: dict[int, weakref.ref[Any]] = {}

    def take(self, length: int) -> memoryview:
        """A buffer of `length` bytes with whatever is in it."""
        whole = self._fitting(length)
        lent = whole[:length]
        number = id(lent)

        def back(_: Any) -> None:
            del self._lent[number]
            fits = self._free_bytes + whole.nbytes <= _KEPT_BYTES
            if fits and len(self._free) < _KEPT_BUFFERS:
                self._free.append(whole)
                self._free_bytes += whole.nbytes

        self._lent[number] = weakref.ref(lent, back)
        return memoryview(lent)

    def _fitting(self, length: int) -> Any:
        for index, whole in enumerate(self._free):
            if length <= whole.nbytes <= 4 * length:
                self._free_bytes -= whole.nbytes
                return self._free.pop(index)
        return np.empty(length + length // 8, np.uint8)


class Reader:
    """Cuts what a socket receives into messages.

    Parameters
    ----------
    limit
        A message that states more bytes than this is refused before there is memory for it.
    place
        Where a long message's values go: a writable buffer of their length, or None for memory
        of the reader's.
    """

    def __init__(
        self, memory: Memory, limit: int, place: Callable[[Header], memoryview | None] | None = None
    ) -> None:
        self.limit = limit
        self._memory = memory
        self._place = place
        self._tail = b""  # the beginning of a message
        self._long: Message | None = None  # a long message of which something is missing
        self._missing: deque[memoryview] = deque()

    def read(self, sock: socket.socket) -> Iterator[Message]:
        """The messages that are there, of one read; the caller asks again when more has come.

        Raises
        ------
        Closed
            Nothing more will come.
        WireError
            What came is no message: where the next one begins is unknown.
        """
        if self._long is not None:
            yield from self._fill(sock)
            return
        try:
            data = sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("closed by the other side")
        yield from self.cut(self._tail + data if self._tail else data)
        if self._long is not None:
            yield from self._fill(sock)

    def cut(self, data: bytes) -> Iterator[Message]:
        """The whole messages in `data`; the rest is kept."""
        self._tail = b""
        view, at, end = memoryview(data), 0, len(data)
        while end - at >= wire.HEADER_BYTES:
            header = wire.unpack(data, at)
            length = wire.sections_length(header)
            after = at + wire.HEADER_BYTES + length + wire.padding(length)
            if length > self.limit:
                raise WireError(
                    Code.TOO_LARGE,
                    f"a message of {length:,} bytes: {self.limit:,} are allowed here",
                    header.request,
                )
            if after > end:
                if length > CHUNK_BYTES:
                    self._begin(header, length, view[at + wire.HEADER_BYTES :])
                    return
                break
            yield Message(header, *wire.sections(header, view, at + wire.HEADER_BYTES))
            at = after
        self._tail = data[at:]
        begun = self._tail[:4]
        if begun != _MAGIC[: len(begun)]:
            raise wire.not_ours(int.from_bytes(begun, "little"))

    def divert(self, buffer: Any) -> None:
        """Values under way into this array go nowhere: it is its owner's again."""
        if self._long is None or self._long.values is not None:
            return
        for index, part in enumerate(self._missing):
            if np.may_share_memory(np.frombuffer(part, np.uint8), buffer):
                self._missing[index] = self._memory.take(part.nbytes)

    # ------------------------------------------------------------------ long messages

    def _begin(self, header: Header, length: int, begun: memoryview) -> None:
        """Make room for a long message, and put in what there is of it."""
        values = self._place(header) if self._place is not None else None
        pad = wire.padding(length)
        if values is None:
            body = self._memory.take(length + pad)
            self._missing.append(body)
            self._long = Message(header, *wire.sections(header, body, 0))
        else:
            head = memoryview(bytearray(length - header.value_bytes + pad))
            shards, keys, _ = wire.sections(header, head, 0)
            before = len(head) - pad
            parts = (head[:before], values, head[before:])
            self._missing.extend(part for part in parts if part)
            self._long = Message(header, shards, keys, None)
        while begun:
            part = self._missing[0]
            n = min(len(part), len(begun))
            part[:n] = begun[:n]
            self._took(n)
            begun = begun[n:]

    def _fill(self, sock: socket.socket) -> Iterator[Message]:
        try:
            while self._missing:
                n = sock.recv_into(self._missing[0])
                if n == 0:
                    raise Closed("closed in the middle of a message")
                self._took(n)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed(str(error)) from error
        message, self._long = self._long, None
        assert message is not None
        yield message

    def _took(self, n: int) -> None:
        self._missing[0] = self._missing[0][n:]
        while self._missing and not self._missing[0]:
            self._missing.popleft()


class Lent(list[Any]):
    """A message's buffers, of which some are memory that its owner goes on to change.

    They are offered to the socket at once; what it does not take is copied.
    """


def owned(buffers: list[Any]) -> list[Any]:
    """Buffers that nobody else changes, to be sent when it suits."""
    return [bytes(buffer) for buffer in buffers] if isinstance(buffers, Lent) else buffers


class Outbox:
    """What a socket has not taken yet, in order. Buffers are referred to, not copied."""

    def __init__(self) -> None:
        self._waiting: deque[memoryview] = deque()
        self.nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def clear(self) -> None:
        self._waiting.clear()
        self.nbytes = 0

    def add(self, buffers: list[Any]) -> None:
        """To be sent with the next `flush`."""
        for buffer in buffers:
            view = memoryview(buffer)
            if view.nbytes:
                self._waiting.append(view)
                self.nbytes += view.nbytes

    def own(self, count: int) -> None:
        """Copy what is left of the last buffers that were added, whatever their number."""
        for index in range(max(0, len(self._waiting) - count), len(self._waiting)):
            self._waiting[index] = memoryview(bytes(self._waiting[index]))

    def send(self, sock: socket.socket, buffers: list[Any]) -> None:
        """Give the socket what it takes of a message; the rest waits for `flush`.

        Raises
        ------
        Closed
            The connection is broken.
        """
        if self._waiting:
            self.add(buffers)
            return
        if len(buffers) == 1:  # a small message: nearly always it is taken whole
            whole = buffers[0]
            try:
                sent = sock.send(whole)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise Closed(str(error)) from error
            if sent < len(whole):
                self.add([memoryview(whole)[sent:]])
            return
        self.add(buffers)
        self.flush(sock)

    def flush(self, sock: socket.socket) -> None:
        """Give the socket what it takes.

        Raises
        ------
        Closed
            The connection is broken.
        """
        waiting = self._waiting
        try:
            while waiting:
                first = waiting[0]
                if len(waiting) == 1:
                    sent = sock.send(first)
                else:
                    sent = sock.sendmsg([waiting[i] for i in range(min(len(waiting), _BUFFERS))])
                self.nbytes -= sent
                while sent and sent >= waiting[0].nbytes:
                    sent -= waiting.popleft().nbytes
                if sent:
                    waiting[0] = waiting[0][sent:]
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed(str(error)) from error


def dial(address: str) -> socket.socket:
    """A socket that is connecting to ``tcp://host:port`` or ``ipc://path``.

    Raises
    ------
    Closed
        Refused at once.
    """
    kind, _, place = address.partition("://")
    target: Any = place
    if kind == "ipc":
        family = socket.AF_UNIX
    else:
        host, _, port = place.rpartition(":")
        target = (host.strip("[]"), int(port))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        tune(sock)
        sock.connect(target)
    except BlockingIOError:
        return sock
    except OSError as error:
        sock.close()
        raise Closed(str(error)) from error
    return sock
