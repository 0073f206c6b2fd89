"""The socket pair between a role process and its agent.

Each message is preceded by its length: 4 bytes, little-endian. A role's end is an inherited file
descriptor whose number is in `CHANNEL_FD`. Standard library and protobuf only: the agent imports
this module.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Generic, NoReturn, Protocol, TypeVar

from yarnps.protocol import control_pb2 as pb

log = logging.getLogger(__name__)

CHANNEL_FD = "YARNPS_CHANNEL_FD"

_LENGTH = struct.Struct("<I")
_RECEIVE_BYTES = 64 << 10

# A message is a few kilobytes; one this long is a reader out of step.
_LIMIT = 256 << 20


class _Parsable(Protocol):
    def ParseFromString(self, data: bytes, /) -> int: ...


Incoming = TypeVar("Incoming", bound=_Parsable)


class ChannelBroken(Exception):
    """The stream of bytes is not one of length-prefixed messages."""


def frame(message: pb.FromRole | pb.ToRole) -> bytes:
    """A message's bytes on the channel."""
    body = message.SerializeToString()
    return _LENGTH.pack(len(body)) + body


class Decoder(Generic[Incoming]):
    """Cuts a stream of bytes into messages of one type."""

    def __init__(self, kind: type[Incoming]) -> None:
        self._kind = kind
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Incoming]:
        """The messages that are complete with these bytes."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > _LIMIT:
                raise ChannelBroken(f"a message of {length} bytes on the agent's channel")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            message = self._kind()
            message.ParseFromString(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
            yield message


class RoleChannel:
    """A role's end: send from any thread, receive from one.

    Raises `OSError` from `send` once the agent is gone; `receive` answers None then.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._decoder: Decoder[pb.ToRole] = Decoder(pb.ToRole)
        self._sending = threading.Lock()

    @classmethod
    def from_environment(cls) -> RoleChannel:
        """The channel that the agent left open for this process.

        Raises
        ------
        KeyError
            This process was not started by an agent.
        """
        number = int(os.environ[CHANNEL_FD])
        sock = socket.socket(fileno=number)
        # Children of a user's program must not keep the channel open after this process.
        sock.set_inheritable(False)
        return cls(sock)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: pb.FromRole) -> None:
        data = frame(message)
        with self._sending:
            self._socket.sendall(data)

    def receive(self) -> list[pb.ToRole] | None:
        """The messages of one read, blocking for the first byte; None at the end of the stream."""
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except ConnectionResetError:
            return None
        if not data:
            return None
        return list(self._decoder.feed(data))

    def receive_begin(self) -> list[pb.ToRole] | None:
        """`Begin`, which answers the greeting, and what has come behind it; None: it ended."""
        while (messages := self.receive()) is not None:
            for number, message in enumerate(messages):
                if message.HasField("begin"):
                    return messages[number:]
        return None


def exit_without_agent() -> NoReturn:
    """The agent is gone: nobody may find a process of ours without one."""
    log.warning("the agent has closed its channel: this process ends now")
    logging.shutdown()
    os._exit(1)
