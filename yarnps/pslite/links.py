"""Connections between the scheduler and its nodes: theirs to it, and its own to them.

No socket here blocks; `yarnps.pslite.ports` says when one is ready.
"""

from __future__ import annotations

import logging
import select
import socket
from collections import deque

from yarnps.pslite.wire import SCHEDULER_NAME, Address
from yarnps.pslite.zmtp import DEALER, ROUTER, NotZmtp, Zmtp, frame

logger = logging.getLogger(__name__)

_CHUNK = 1 << 16
# So much of what is no message is passed on, to be shown.
_SHOWN_BYTES = 64


class Incoming:
    """A node's connection. `open`: it may still say something."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.open = True
        self._zmtp = Zmtp(ROUTER)
        made.setblocking(False)
        self._answer(self._zmtp.greeting)

    @property
    def sender(self) -> bytes:
        """Its name, as ZeroMQ knows it."""
        return self._zmtp.peer

    @property
    def ready(self) -> bool:
        """Whether it has shown that it speaks ZeroMQ's protocol."""
        return self._zmtp.ready

    def read(self) -> list[bytes]:
        """What has come: messages, or the start of what is none."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.open = False
            return []
        try:
            return self._zmtp.fed(data, self._answer)
        except NotZmtp as error:
            self.open = False
            logger.warning("a connection to a node's port is closed: %s", error)
            return [data[:_SHOWN_BYTES]]

    def _answer(self, data: bytes) -> None:
        try:
            self.socket.send(data)  # a few bytes, which the kernel has room for
        except OSError:
            self.open = False


class Outgoing:
    """The way to a node, which listens where it has registered.

    Attributes
    ----------
    socket
        None when there is no connection.
    wants
        The events of epoll that it waits for.
    watched
        Those that its owner watches.
    failed
        There is no connection any more.
    """

    def __init__(self, to: Address) -> None:
        self.to = to
        self.socket: socket.socket | None = None
        self.wants = self.watched = 0
        self.failed = False
        self._zmtp = Zmtp(DEALER, SCHEDULER_NAME)
        self._own: deque[bytes] = deque()  # what belongs to the connection, and goes first
        self._messages: deque[bytes] = deque()
        self._begun = 0  # bytes of the first of either that have been sent

    @property
    def waiting(self) -> bool:
        """Whether messages are left that have not been sent."""
        return bool(self._messages)

    def connect(self) -> socket.socket:
        """Begin a connection; its socket."""
        self.socket = made = socket.socket()
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._zmtp = Zmtp(DEALER, SCHEDULER_NAME)
        self._own, self._begun = deque([self._zmtp.greeting]), 0
        self.failed = False
        self.wants = select.EPOLLIN | select.EPOLLOUT
        try:
            made.connect(self.to)
        except BlockingIOError:
            pass  # it is under way: the socket can be written to when it is there
        except OSError as error:
            self._fail(error)
        return made

    def send(self, message: bytes) -> None:
        """Send a message, or keep it until it can be sent."""
        self._messages.append(frame(message))
        if self._zmtp.ready and not self.failed:
            self._flush()

    def ready(self, events: int) -> None:
        """Something has happened to the connection."""
        if self.socket is None or self.failed:
            return
        try:
            if events & ~select.EPOLLOUT:
                data = self.socket.recv(_CHUNK)
                if not data:
                    raise ConnectionError("closed by the node")
                self._zmtp.fed(data, self._own.append)
        except BlockingIOError:
            pass  # only its other half is ready
        except (OSError, NotZmtp) as error:
            self._fail(error)
            return
        self._flush()

    def _flush(self) -> None:
        """Send what can be sent."""
        assert self.socket is not None
        while parts := self._own or (self._zmtp.ready and self._messages):
            try:
                self._begun += self.socket.send(parts[0][self._begun :])
            except BlockingIOError:
                self.wants = select.EPOLLIN | select.EPOLLOUT
                return
            except OSError as error:
                self._fail(error)
                return
            if self._begun == len(parts[0]):
                parts.popleft()
                self._begun = 0
        self.wants = select.EPOLLIN

    def _fail(self, error: Exception) -> None:
        self.failed = True
        self._begun = 0
        if self._messages:
            logger.warning("the connection to the node at %s failed: %s", self.to, error)
