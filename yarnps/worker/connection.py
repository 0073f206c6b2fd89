"""A worker's connection to one server process, and what it has not answered yet."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

import numpy as np

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import keylists, wire
from yarnps.protocol.keylists import KeyLists
from yarnps.protocol.stream import Closed, Memory, Outbox, Reader, dial
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Flag, Header, Message, Op
from yarnps.worker.calls import Call, Request

# After a connection broke: the first pause before it is tried again, and the longest.
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Connection:
    """Sends requests to one server rank, whichever incarnation serves it now.

    A request stays pending until it is answered. When the connection breaks, whoever holds it
    dials again when `due` says so, and sends all that is pending once more.
    """

    def __init__(self, rank: int, epoll: select.epoll, memory: Memory) -> None:
        self.rank = rank
        self.address = ""
        self.incarnation = 0
        self.pending: dict[int, Request] = {}
        self.outstanding = 0  # bytes
        self.trouble = ""  # why there is no connection
        self.lists = KeyLists(keylists.WORKER_BYTES)  # those that the server remembers
        self._epoll = epoll
        self._memory = memory
        self._socket: socket.socket | None = None
        self._reader: Reader | None = None
        self._outbox = Outbox()
        self._writing = False
        self._pause = 0.0
        self._due = 0.0

    # ------------------------------------------------------------------ connecting

    @property
    def up(self) -> bool:
        return self._socket is not None

    @property
    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()

    def is_same(self, route: pb.ServerRoute) -> bool:
        return (self.address, self.incarnation) == (route.address, route.incarnation)

    def redirect(self, route: pb.ServerRoute) -> None:
        """The rank has another incarnation, or none for now."""
        self.close()
        self.address, self.incarnation = route.address, route.incarnation
        self._pause = self._due = 0.0

    def due(self, now: float) -> bool:
        """Whether to dial now."""
        return self._socket is None and bool(self.address) and now >= self._due

    def dial(self, now: float) -> bool:
        """Connect; False when it is refused at once."""
        self._due = now + self._pause
        self._pause = min(max(2 * self._pause, _PAUSE_S), _LONGEST_PAUSE_S)
        try:
            self._socket = dial(self.address)
        except Closed as closed:
            self.trouble = str(closed)
            return False
        self._reader = Reader(self._memory, wire.MESSAGE_LIMIT, self._place_of)
        self._writing = False
        self._epoll.register(self._socket.fileno(), select.EPOLLIN)
        return True

    def close(self, why: str = "") -> None:
        self.trouble = why
        self._outbox.clear()
        self.lists.clear()
        self._reader = None
        if self._socket is not None:
            self._epoll.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None

    # ------------------------------------------------------------------ pending requests

    def add(self, request: Request) -> None:
        self.pending[request.number] = request
        request.nbytes = request.part.nbytes
        self.outstanding += request.nbytes

    def remove(self, number: int) -> Request | None:
        request = self.pending.pop(number, None)
        if request is not None:
            self.outstanding -= request.nbytes
        return request

    def forget(self, call: Call) -> None:
        """Nobody waits for this call any more; the caller's arrays are the caller's again."""
        for number in [n for n, request in self.pending.items() if request.call is call]:
            self.remove(number)
        if call.out is not None and self._reader is not None:
            self._reader.divert(call.out)

    # ------------------------------------------------------------------ sending

    def send(self, request: Request, generation: int, route: int) -> None:
        """Put a request on the wire."""
        call, part = request.call, request.part
        header, keys = call.header, _section(part.keys)
        spec = call.spec
        if spec is not None and spec.wire.key_lists and len(keys) >= keylists.LEAST_BYTES:
            header, keys = self._listed(request, header, keys)
        sections, values = _section(part.sections), _section(part.values)
        if part.picked is not None:
            values = b"".join((values, _section(part.picked)))
        self.write(
            wire.encode_as(header, request.number, generation, route, sections, keys, values)
        )

    def _listed(self, request: Request, header: Header, keys: Any) -> tuple[Header, Any]:
        """Name a list of keys that was sent before; otherwise let the server remember it."""
        name = request.keys_name = request.keys_name or keylists.name_of(keys)
        if self.lists.find(name) is not None:
            return header._replace(flags=header.flags | Flag.KNOWN_KEYS), name
        self.lists.keep(name, len(keys))
        return header._replace(flags=header.flags | Flag.KEEP_KEYS), keys

    def write(self, buffers: list[Any]) -> None:
        """Send a message; what the system does not take at once goes when it does."""
        if self._socket is None:
            return
        try:
            self._outbox.send(self._socket, buffers)
        except Closed as closed:
            self.close(str(closed))
            return
        self._watch()

    def _flush(self) -> None:
        assert self._socket is not None
        try:
            self._outbox.flush(self._socket)
        except Closed as closed:
            self.close(str(closed))
            return
        self._watch()

    def _watch(self) -> None:
        """Be told when the socket takes more, as long as something waits for that."""
        assert self._socket is not None
        if bool(self._outbox) != self._writing:
            self._writing = bool(self._outbox)
            events = select.EPOLLIN | (select.EPOLLOUT if self._writing else 0)
            self._epoll.modify(self._socket.fileno(), events)

    # ------------------------------------------------------------------ receiving

    def serve(self, events: int) -> list[Message]:
        """Send and receive what can be; returns the answers.

        Raises
        ------
        WireError
            The server does not speak our protocol.
        """
        if events & select.EPOLLOUT:
            self._flush()
        messages: list[Message] = []
        if self._socket is None or self._reader is None or not events & ~select.EPOLLOUT:
            return messages
        try:
            for message in self._reader.read(self._socket):
                messages.append(message)
        except Closed as closed:
            self.close(str(closed))
        if messages:
            self._pause, self.trouble = 0.0, ""
        return messages

    def _place_of(self, header: Header) -> memoryview | None:
        """Where a long answer's values can be received to without a copy."""
        request = self.pending.get(header.request)
        return None if request is None else request.call.place_of(request.part, header)


def hello(header: Header, token: str) -> list[Any]:
    """A connection's first message."""
    return wire.encode(header._replace(op=Op.HELLO), keys=json.dumps({"token": token}).encode())


def opening(header: Header, spec: TableSpec) -> list[Any]:
    """The message that opens a table."""
    return wire.encode(
        header._replace(op=Op.OPEN, table=wire.table_id(spec.name)), keys=spec.to_json().encode()
    )


def kind_of(spec: TableSpec, *, ranges: bool = False) -> int:
    """The flags with which a table is addressed."""
    if spec.kind == "sparse":
        return 0
    return int(Flag.RANGES if ranges else Flag.WHOLE)


def _section(values: Any) -> Any:
    if values is None or values.size == 0:
        return b""
    return memoryview(np.ascontiguousarray(values).data).cast("B")
