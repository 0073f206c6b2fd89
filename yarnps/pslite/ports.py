"""The scheduler's sockets: a port for every seat, and a way to every node.

Runs on an asyncio loop, and in its thread only. All sockets are watched together: what has come to
any of them is taken in at once, so that a barrier of many nodes costs the loop few turns.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import resource
import select
import time
from collections.abc import Callable
from typing import NamedTuple

import zmq

from yarnps.pslite.wire import SCHEDULER_NAME, Address, Seat

logger = logging.getLogger(__name__)

Heard = Callable[[Seat, bytes, bytes], None]

# What is on its way to nodes when the scheduler stops gets this long.
LINGER_MS = 1000
# Whoever connects and has not said by then that it speaks ZeroMQ's protocol is no node.
HANDSHAKE_MS = 10_000
# A message of a node to its scheduler is its address or a number; whoever sends more is no node.
LARGEST_MESSAGE = 1 << 20
# Messages of one port that are read before other ports have their turn.
AT_ONCE = 100
# Nodes come to a barrier one soon after the other. After a message the next one is waited for so
# long, for the loop takes longer to come back here than most of them take to come (1 ms is the
# least that epoll can wait) …
PATIENCE_S = 0.001
# … and then others on the loop have their turn.
TURN_S = 0.02
# Of ZeroMQ's, and of the process: enough for all nodes of a large job, with several each.
SOCKETS = 65_536

_STRANGERS = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class _Ear(NamedTuple):
    """A port."""

    router: zmq.Socket[bytes]
    monitor: zmq.Socket[bytes]  # tells of connections that are not ZeroMQ's


class _Mouth(NamedTuple):
    """The way to a node, which listens where it has registered."""

    to: Address
    dealer: zmq.Socket[bytes]


class Ports:
    """See the module's text.

    Parameters
    ----------
    heard
        Called with the seat whose port a message came to, the sender's ZeroMQ identity, and the
        message's head. Of a connection that was not ZeroMQ's, both are empty.
    host
        The address to listen on.
    pause
        Called when nothing more comes for a moment.
    """

    def __init__(
        self, heard: Heard, host: str = "0.0.0.0", pause: Callable[[], None] | None = None
    ) -> None:
        self._heard = heard
        self._host = host
        self._pause = pause
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, SOCKETS)
        self._ears: dict[Seat, _Ear] = {}
        self._mouths: dict[Seat, _Mouth] = {}
        self._numbers = itertools.count()
        self._by_fd: dict[int, Callable[[], bool]] = {}
        self._unread: set[int] = set()
        self._soon: asyncio.Handle | None = None
        self._epoll = select.epoll()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._turn)
        _allow_many_sockets()

    def open(self, seat: Seat, port: int = 0) -> int:
        """A port for the next process of `seat`; the one before it is not heard any more.

        Parameters
        ----------
        port
            The one to take; 0: any that is free.

        Returns
        -------
        The port.

        Raises
        ------
        OSError
            The port is taken.
        """
        self.close(seat)
        router = self._context.socket(zmq.ROUTER)
        router.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        # A node whose connection broke comes with the same name before the old one is given up.
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        # pyzmq's own name for a monitor is that of a descriptor, which may be in use again.
        monitor = router.get_monitor_socket(_STRANGERS, f"inproc://monitor-{next(self._numbers)}")
        try:
            router.bind(f"tcp://{self._host}:{port or '*'}")
        except zmq.ZMQError as error:
            monitor.close(0)
            router.close(0)
            raise OSError(error.errno, f"port {port} of {seat}: {error.strerror}") from error
        self._ears[seat] = _Ear(router, monitor)
        self._watch(router, lambda: self._read(seat, router))
        self._watch(monitor, lambda: self._read_monitor(seat, monitor))
        return int(router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def close(self, seat: Seat) -> None:
        """The process of `seat` is gone: hear and say nothing more of it."""
        self._close_port(seat)
        self._close_way(seat)

    def _close_port(self, seat: Seat) -> None:
        for made in self._ears.pop(seat, ()):
            self._forget(made)
            made.close(0)

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        """Send to the node of a seat; does not wait for it."""
        mouth = self._mouths.get(seat)
        if mouth is None or mouth.to != to:
            mouth = self._connect(seat, to)
        try:
            mouth.dealer.send(message, zmq.NOBLOCK)
        except zmq.Again:
            logger.error("a message to %s is lost: ZeroMQ has no way to %s", seat, to)

    def _connect(self, seat: Seat, to: Address) -> _Mouth:
        self._close_way(seat)
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.IDENTITY, SCHEDULER_NAME)
        dealer.setsockopt(zmq.SNDHWM, 0)
        try:
            dealer.connect(f"tcp://{to}")
        except zmq.ZMQError as error:
            logger.error("no connection to %s at %s: %s", seat, to, error)
        mouth = self._mouths[seat] = _Mouth(to, dealer)
        self._watch(dealer, lambda: self._look_after(seat, mouth))
        return mouth

    def _close_way(self, seat: Seat, linger_ms: int = 0) -> None:
        mouth = self._mouths.pop(seat, None)
        if mouth is not None:
            self._forget(mouth.dealer)
            mouth.dealer.close(linger_ms)

    def stop(self) -> None:
        """Close everything; what has been sent gets a moment to arrive."""
        for seat in [*self._ears]:
            self._close_port(seat)
        for seat in [*self._mouths]:
            self._close_way(seat, LINGER_MS)
        self._no_turn()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._context.term()

    # ------------------------------------------------------------ what has come

    def _turn(self) -> None:
        """Take in what has come, until there is nothing more."""
        self._no_turn()
        end = time.monotonic() + TURN_S
        patience_s = 0.0
        try:
            while self._take(patience_s) and time.monotonic() < end:
                patience_s = PATIENCE_S
        finally:
            if self._unread:
                self._turn_soon()
        if self._pause is not None and not self._epoll.closed:
            self._pause()

    def _turn_soon(self) -> None:
        self._no_turn()
        self._soon = self._loop.call_soon(self._turn)

    def _no_turn(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def _take(self, timeout_s: float) -> bool:
        """Take in what has come; False: nothing has."""
        if self._epoll.closed:
            return False  # what came led to the end
        found = self._epoll.poll(0 if self._unread else timeout_s)
        # ZeroMQ tells once of what has come, so it has to be remembered until all is read.
        self._unread.update(fd for fd, _ in found)
        ready = [*self._unread]
        for fd in ready:
            read = self._by_fd.get(fd)  # None: closed by what another one's message has led to
            if read is None or read():
                self._unread.discard(fd)
        return bool(ready)

    def _read(self, seat: Seat, router: zmq.Socket[bytes]) -> bool:
        """Take in what has come to a port; whether that is all."""
        for _ in range(AT_ONCE):
            if router.closed or not _events(router) & zmq.POLLIN:
                return True
            sender = router.recv(zmq.NOBLOCK)
            message = router.recv(zmq.NOBLOCK)
            while router.getsockopt(zmq.RCVMORE):  # data: no node has any for its scheduler
                router.recv(zmq.NOBLOCK)
            self._heard(seat, sender, message)
        return False

    def _read_monitor(self, seat: Seat, monitor: zmq.Socket[bytes]) -> bool:
        for _ in range(AT_ONCE):
            if monitor.closed or not _events(monitor) & zmq.POLLIN:
                return True
            monitor.recv_multipart(zmq.NOBLOCK)
            self._heard(seat, b"", b"")
        return False

    def _look_after(self, seat: Seat, mouth: _Mouth) -> bool:
        """ZeroMQ tries again where nobody listens, but gives up what is not ZeroMQ's."""
        if self._mouths.get(seat) is mouth and not _events(mouth.dealer) & zmq.POLLOUT:
            logger.warning("%s is not what listens at %s: nothing reaches it", seat, mouth.to)
            self._close_way(seat)
        return True

    # ------------------------------------------------------------ sockets

    def _watch(self, made: zmq.Socket[bytes], read: Callable[[], bool]) -> None:
        fd = _descriptor(made)
        self._epoll.register(fd, select.EPOLLIN)
        self._by_fd[fd] = read
        # ZeroMQ may have told already, when the socket was made.
        self._unread.add(fd)
        self._turn_soon()

    def _forget(self, made: zmq.Socket[bytes]) -> None:
        fd = _descriptor(made)
        self._epoll.unregister(fd)
        del self._by_fd[fd]
        self._unread.discard(fd)


def _descriptor(made: zmq.Socket[bytes]) -> int:
    """What becomes readable when something has happened to a socket."""
    return int(made.getsockopt(zmq.FD))


def _events(made: zmq.Socket[bytes]) -> int:
    """Whether it can be read or written to. What it cannot, its descriptor tells of later."""
    return int(made.getsockopt(zmq.EVENTS))


def _allow_many_sockets() -> None:
    """Many nodes need more sockets than a process may open by default."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOCKETS if most == resource.RLIM_INFINITY else min(SOCKETS, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
