"""A worker's connection to one server process, and what it has not answered yet."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import zmq

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Flag, Header, Op
from yarnps.worker.calls import Request

# A request without an answer is sent again after this long, then after twice as long, and so on:
# a connection that broke loses what was under way, a busy server only needs patience.
RESEND_S = 5.0
_RESEND_MOST_S = 60.0


class Connection:
    """Sends requests to one server rank, whichever incarnation serves it now."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.address = ""
        self.incarnation = 0
        self.pending: dict[int, Request] = {}
        self.outstanding = 0  # bytes
        self.socket: Any = None

    @property
    def up(self) -> bool:
        return self.socket is not None

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close(linger=0)
            self.socket = None

    def connect(self, context: Any, route: pb.ServerRoute, identity: bytes) -> None:
        """Talk to a new incarnation from now on."""
        self.close()
        self.address, self.incarnation = route.address, route.incarnation
        if not route.address:
            return
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, identity)
        # What is outstanding is limited by the client's window, never by dropping messages.
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        socket.setsockopt(zmq.HEARTBEAT_IVL, 10_000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 60_000)
        if "[" in route.address:
            socket.setsockopt(zmq.IPV6, 1)
        socket.connect(route.address)
        self.socket = socket

    def is_same(self, route: pb.ServerRoute) -> bool:
        return (self.address, self.incarnation) == (route.address, route.incarnation)

    def add(self, request: Request) -> None:
        self.pending[request.number] = request
        request.nbytes = request.part.nbytes
        self.outstanding += request.nbytes

    def remove(self, number: int) -> Request | None:
        request = self.pending.pop(number, None)
        if request is not None:
            self.outstanding -= request.nbytes
        return request

    def send(self, request: Request, header: Header, now: float) -> None:
        """Put a request on the wire; it stays pending until it is answered."""
        request.patience = min(max(RESEND_S, 2 * request.patience), _RESEND_MOST_S)
        request.again_at = now + request.patience
        if self.socket is None:
            return
        part = request.part
        frames = wire.encode(
            header._replace(
                request=request.number, keys=0 if part.keys is None else len(part.keys)
            ),
            _section(part.sections),
            _section(part.keys),
            _section(part.values),
        )
        self.send_frames(frames)

    def send_frames(self, frames: list[Any]) -> None:
        if self.socket is None:
            return
        if len(frames) == 1:
            self.socket.send(frames[0])
        else:
            # zmq reads the arrays later: the request keeps them until it is answered.
            self.socket.send_multipart(frames, copy=False)

    def receive(self) -> list[Any] | None:
        """The frames of one message, or None."""
        if self.socket is None:
            return None
        try:
            parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        limit = wire.INLINE_LIMIT + wire.HEADER_BYTES
        return [part.bytes if len(part) <= limit else part.buffer for part in parts]


def hello(header: Header, token: str) -> list[Any]:
    """The frames of a connection's first message."""
    return wire.encode(header._replace(op=Op.HELLO), keys=json.dumps({"token": token}).encode())


def opening(header: Header, spec: TableSpec) -> list[Any]:
    """The frames that open a table."""
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
