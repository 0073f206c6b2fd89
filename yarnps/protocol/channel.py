"""Messages over the socket pair between an agent and its role processes.

Each message is preceded by its length (4 bytes, little-endian). Standard library and protobuf only:
the agent imports this too.
"""

from __future__ import annotations

import struct
from typing import Protocol

LENGTH = struct.Struct("<I")

# Far above any message of ours: a greater length means that the stream is not ours.
MESSAGE_LIMIT = 256 << 20

# The inherited file descriptor of the role's end.
FD_ENV = "YARNPS_CHANNEL_FD"


class BrokenChannel(Exception):
    """What arrived is not a sequence of our messages."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


def frame(message: _Message) -> bytes:
    """The bytes of a message as they are written."""
    body = message.SerializeToString()
    return LENGTH.pack(len(body)) + body


class Frames:
    """Cuts the bytes that arrive into messages' bodies."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what has arrived; the bodies that are complete now."""
        self._buffer += data
        bodies = []
        at = 0
        while len(self._buffer) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, at)
            if length > MESSAGE_LIMIT:
                raise BrokenChannel(f"a message of {length} bytes is announced")
            end = at + LENGTH.size + length
            if end > len(self._buffer):
                break
            bodies.append(bytes(self._buffer[at + LENGTH.size : end]))
            at = end
        del self._buffer[:at]
        return bodies
