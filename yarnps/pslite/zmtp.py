"""ZMTP 3.0, the protocol of ZeroMQ's connections, as far as ps-lite needs it. No I/O.

Why not ZeroMQ itself: a barrier takes as long as all of its messages do, one after the other, and
ZeroMQ hands each of them from a thread to another one, in both directions. A scheduler that reads
and writes its sockets itself spares that. What is spoken is specified at
https://rfc.zeromq.org/spec/23/: both ends send a greeting, then the command READY, then messages,
each of one or several frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ROUTER: Final = b"ROUTER"
DEALER: Final = b"DEALER"

# Whoever sends more in one frame is no node: its address, or a number, is all that it has to say.
LARGEST_FRAME: Final = 1 << 20

_SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
_GREETING_BYTES: Final = 64
_GREETING: Final = (_SIGNATURE + b"\x03\x00" + b"NULL").ljust(_GREETING_BYTES, b"\0")
_MECHANISM: Final = slice(12, 32)

# Flags of a frame.
MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4

_LONG_HEAD: Final = 9
_SHORT_HEAD: Final = 2
_SHORT_BYTES: Final = 255
_PING_TTL_BYTES: Final = 2


class NotZmtp(Exception):
    """What has come is not of this protocol; the text says what is wrong with it."""


def frame(body: bytes, flags: int = 0) -> bytes:
    """A frame; without flags it is a whole message."""
    if len(body) <= _SHORT_BYTES:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + len(body).to_bytes(8, "big") + body


class Zmtp:
    """One end of a connection.

    Parameters
    ----------
    kind
        The type of socket that the other end takes this one for: `ROUTER` or `DEALER`.
    name
        By which the other end knows it (ZeroMQ's identity).

    Attributes
    ----------
    greeting
        What this end has to send first.
    ready
        Whether the other end may be sent messages.
    peer
        The other end's name, once it is ready.
    """

    greeting: Final = _GREETING

    def __init__(self, kind: bytes, name: bytes = b"") -> None:
        self.ready = False
        self.peer = b""
        self._properties = _property(b"Socket-Type", kind) + _property(b"Identity", name)
        self._greeted = False
        self._data = b""
        self._first: bytes | None = None  # frame of a message that is not whole

    def fed(self, data: bytes, answer: Callable[[bytes], object]) -> list[bytes]:
        """The messages that are whole now; of one with several frames, the first.

        Parameters
        ----------
        answer
            Called with what has to be sent for it.

        Raises
        ------
        NotZmtp
            See there. The connection is of no use any more.
        """
        if self.ready and not self._data and self._first is None and len(data) == _whole(data):
            return [data[_SHORT_HEAD:]]  # nearly all of a node's words come like this
        self._data += data
        if not self._greeted and not self._greet(answer):
            return []
        messages: list[bytes] = []
        while (taken := self._take()) is not None:
            flags, body = taken
            if flags & COMMAND:
                self._command(body, answer)
            elif not self.ready:
                raise NotZmtp("a message has come before the command READY")
            else:
                self._first = body if self._first is None else self._first
                if not flags & MORE:
                    messages.append(self._first)
                    self._first = None
        return messages

    def _greet(self, answer: Callable[[bytes], object]) -> bool:
        """Whether the greeting of the other end is complete, and right."""
        start = self._data[: len(_SIGNATURE) + 1]
        # Other versions write something else between the two ends of the signature.
        if start[:1] != _SIGNATURE[:1] or start[9:10] not in (b"", _SIGNATURE[9:]):
            raise NotZmtp("it does not begin as a connection of ZeroMQ's does")
        if len(start) > len(_SIGNATURE) and start[-1] < _GREETING[10]:
            raise NotZmtp("it speaks ZMTP of a version before 3; ps-lite is built with ZeroMQ 4")
        if len(self._data) < _GREETING_BYTES:
            return False
        if self._data[_MECHANISM] != _GREETING[_MECHANISM]:
            mechanism = self._data[_MECHANISM].rstrip(b"\0")
            raise NotZmtp(f"it wants the security mechanism {mechanism!r}")
        self._greeted, self._data = True, self._data[_GREETING_BYTES:]
        answer(frame(b"\x05READY" + self._properties, COMMAND))
        return True

    def _take(self) -> tuple[int, bytes] | None:
        """The flags and the body of the first frame, if it is whole."""
        data = self._data
        if len(data) < _SHORT_HEAD:
            return None
        flags = data[0]
        if flags > MORE | LONG | COMMAND:
            raise NotZmtp(f"a frame has flags that nobody knows: {flags:#x}")
        head, size = _SHORT_HEAD, data[1]
        if flags & LONG:
            if len(data) < _LONG_HEAD:
                return None
            head, size = _LONG_HEAD, int.from_bytes(data[1:_LONG_HEAD], "big")
        if size > LARGEST_FRAME:
            raise NotZmtp(f"a frame of {size} bytes, and a node's are small")
        if len(data) < head + size:
            return None
        self._data = data[head + size :]
        return flags, data[head : head + size]

    def _command(self, body: bytes, answer: Callable[[bytes], object]) -> None:
        name, rest = body[1 : 1 + body[0]] if body else b"", body[1 + body[0] :] if body else b""
        if name == b"READY":
            self.peer = _properties(rest).get(b"identity", b"")
            self.ready = True
        elif name == b"PING":
            answer(frame(b"\x04PONG" + rest[_PING_TTL_BYTES:], COMMAND))
        elif name == b"ERROR":
            raise NotZmtp(f"the other end has refused the connection: {rest[1:]!r}")


def _whole(data: bytes) -> int:
    """The length of the frame that `data` begins with, if it is a short message; else -1."""
    return _SHORT_HEAD + data[1] if len(data) >= _SHORT_HEAD and data[0] == 0 else -1


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _properties(data: bytes) -> dict[bytes, bytes]:
    """By their names in small letters: the protocol does not tell letters' cases apart."""
    found = {}
    while data:
        name, rest = data[1 : 1 + data[0]], data[1 + data[0] :]
        size = int.from_bytes(rest[:4], "big")
        if len(rest) < 4 or len(rest) < 4 + size:
            raise NotZmtp("the command READY is cut off")
        found[name.lower()], data = rest[4 : 4 + size], rest[4 + size :]
    return found
