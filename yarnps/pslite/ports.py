"""The scheduler's sockets: a port for every seat and one for all, and a way to every node.

All are used in one thread (`yarnps.pslite.van`), and watched together.
"""

from __future__ import annotations

import itertools
import logging
import os
import resource
import select
import time
from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import NamedTuple

import zmq

from yarnps.pslite.wire import HALL, SCHEDULER_NAME, Address, Seat

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
# long (it is the least that epoll and ZeroMQ can wait) …
PATIENCE_MS = 1
# … and for so long in all: then other ports have their turn, and orders are carried out.
TURN_S = 0.02
# As numbers: what is done for every message is not to go through pyzmq's enumerations.
EVENTS, RCVMORE, POLLIN, POLLOUT, NOBLOCK = map(
    int, (zmq.EVENTS, zmq.RCVMORE, zmq.POLLIN, zmq.POLLOUT, zmq.NOBLOCK)
)
# Of ZeroMQ's, and of the process: enough for all nodes of a large job, with several each.
SOCKETS = 65_536

_STRANGERS = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


_contexts = itertools.count(1)  # their numbers are in the names of ZeroMQ's threads


class _Ear:
    """A port. `monitor` tells of connections that are not ZeroMQ's."""

    def __init__(self, router: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
        self.router, self.monitor = router, monitor
        # pyzmq looks a socket's attributes up in a long way, and these are used for every message.
        self.get, self.receive = router.getsockopt, router.recv


class _Mouth(NamedTuple):
    """The way to a node, which listens where it has registered."""

    to: Address
    dealer: zmq.Socket[bytes]
    send: Callable[[bytes, int], object]


class Ports:
    """See the module's text. It may be made in another thread than the one that uses it.

    Parameters
    ----------
    heard
        Called with the seat whose port a message came to, the sender's ZeroMQ identity, and the
        message's head. Of a connection that was not ZeroMQ's, both are empty.
    host
        The address to listen on.
    orders
        What else there is to do in this thread: as soon as there is something, a turn ends.
    """

    def __init__(self, heard: Heard, host: str = "0.0.0.0", orders: Sized = ()) -> None:
        self._heard = heard
        self._host = host
        self._orders = orders
        number = next(_contexts)
        self.io_thread = f"{number}/ZMQbg/IO/0"  # its name
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.THREAD_NAME_PREFIX, number)
        self._context.set(zmq.MAX_SOCKETS, SOCKETS)
        # To be woken up does not let its thread interrupt ours: it sends what we send all at once.
        self._context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_BATCH)
        self._ears: dict[Seat, _Ear] = {}
        self._mouths: dict[Seat, _Mouth] = {}
        self._fan_of: Mapping[Seat, Address] | None = None
        self._fan: list[Callable[[bytes, int], object]] = []  # ways to those nodes
        self._numbers = itertools.count()
        self._by_fd: dict[int, Callable[[], bool]] = {}
        self._unread: set[int] = set()
        self._end = 0.0  # of this turn; while it waits for the first message, of the one before
        self._epoll = select.epoll()
        _allow_many_sockets()

    def open(self, seat: Seat, port: int = 0) -> int:
        """A port for the next process of `seat`, as `yarnps.pslite.van.Van.open` says."""
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
        ear = self._ears[seat] = _Ear(router, monitor)
        router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        read = self._read_and_wait if seat == HALL else self._read
        self._watch(router, partial(read, seat, ear))
        self._watch(monitor, partial(self._read_monitor, seat, monitor))
        return int(router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def close(self, seat: Seat) -> None:
        """The process of `seat` is gone: hear and say nothing more of it."""
        self._close_port(seat)
        self._close_way(seat)

    def _close_port(self, seat: Seat) -> None:
        ear = self._ears.pop(seat, None)
        if ear is None:
            return
        for made in (ear.router, ear.monitor):
            self._forget(made)
            made.close(0)

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        """Send to the node of a seat; does not wait for it."""
        try:
            self._way_to(seat, to).send(message, NOBLOCK)
        except zmq.Again:
            _lost(seat, to)

    def send_all(self, nodes: Mapping[Seat, Address], message: bytes) -> None:
        """Send to the nodes of some seats; those of the same mapping are found once."""
        if nodes is not self._fan_of:
            for seat, to in nodes.items():
                self._way_to(seat, to)
            self._fan_of, self._fan = nodes, [self._mouths[seat].send for seat in nodes]
        for seat, send in zip(nodes, self._fan, strict=True):
            try:
                send(message, NOBLOCK)
            except zmq.Again:
                _lost(seat, nodes[seat])

    def _way_to(self, seat: Seat, to: Address) -> _Mouth:
        mouth = self._mouths.get(seat)
        return mouth if mouth is not None and mouth.to == to else self._connect(seat, to)

    def _connect(self, seat: Seat, to: Address) -> _Mouth:
        self._close_way(seat)
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.IDENTITY, SCHEDULER_NAME)
        dealer.setsockopt(zmq.SNDHWM, 0)
        try:
            dealer.connect(f"tcp://{to}")
        except zmq.ZMQError as error:
            logger.error("no connection to %s at %s: %s", seat, to, error)
        mouth = self._mouths[seat] = _Mouth(to, dealer, dealer.send)
        self._watch(dealer, partial(self._look_after, seat, mouth))
        return mouth

    def _close_way(self, seat: Seat, linger_ms: int = 0) -> None:
        self._fan_of = None
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
        self._epoll.close()
        self._context.term()

    # ------------------------------------------------------------ what has come

    def turn(self, wait_s: float) -> bool:
        """Take in what comes, if anything does within some time, and what comes soon after it.

        Returns
        -------
        Whether there was a pause; False: its time was over, or there are orders.
        """
        if not self._take(wait_s):
            return True
        self._end = time.monotonic() + TURN_S
        while not self._is_over():
            if not self._take(PATIENCE_MS / 1000):
                return True
        return False

    def _is_over(self) -> bool:
        return bool(self._orders) or time.monotonic() >= self._end

    def _take(self, timeout_s: float) -> bool:
        """Take in what has come; False: nothing has."""
        unread, by_fd = self._unread, self._by_fd
        # ZeroMQ tells once of what has come, so it has to be remembered until all is read.
        unread.update([fd for fd, _ in self._epoll.poll(0 if unread else timeout_s)])
        ready = [*unread]
        for fd in ready:
            read = by_fd.get(fd)  # None: a way that was closed when another one was read
            if read is None or read():
                unread.discard(fd)
        return bool(ready)

    def _read(self, seat: Seat, ear: _Ear) -> bool:
        """Take in what has come to a port; whether that is all."""
        get, receive, heard = ear.get, ear.receive, self._heard
        for _ in range(AT_ONCE):
            if not int(get(EVENTS)) & POLLIN:
                return True
            sender = receive(NOBLOCK)
            message = receive(NOBLOCK)
            while get(RCVMORE):  # data: no node has any for its scheduler
                receive(NOBLOCK)
            heard(seat, sender, message)
        return False

    def _read_and_wait(self, seat: Seat, ear: _Ear) -> bool:
        """The same, and what comes soon after it: to wait here takes less than to look at all."""
        get, receive, heard = ear.get, ear.receive, self._heard
        now, end, orders, let_others = time.monotonic, self._end, self._orders, os.sched_yield
        if not int(get(EVENTS)) & POLLIN:
            return True
        try:
            while now() < end and not orders:
                sender = receive()
                message = receive()
                while get(RCVMORE):
                    receive()
                heard(seat, sender, message)
                # Those that have still to come may need this core to do so.
                let_others()
        except zmq.Again:
            return True
        return False

    def _read_monitor(self, seat: Seat, monitor: zmq.Socket[bytes]) -> bool:
        for _ in range(AT_ONCE):
            if not int(monitor.getsockopt(EVENTS)) & POLLIN:
                return True
            monitor.recv_multipart(NOBLOCK)
            self._heard(seat, b"", b"")
        return False

    def _look_after(self, seat: Seat, mouth: _Mouth) -> bool:
        """ZeroMQ tries again where nobody listens, but gives up what is not ZeroMQ's."""
        if self._mouths.get(seat) is mouth and not int(mouth.dealer.getsockopt(EVENTS)) & POLLOUT:
            logger.warning("%s is not what listens at %s: nothing reaches it", seat, mouth.to)
            self._close_way(seat)
        return True

    # ------------------------------------------------------------ sockets

    def watch(self, fd: int, read: Callable[[], bool]) -> None:
        """Something else that is read when it is readable; `read` tells whether that was all."""
        self._epoll.register(fd, select.EPOLLIN)
        self._by_fd[fd] = read

    def _watch(self, made: zmq.Socket[bytes], read: Callable[[], bool]) -> None:
        fd = _descriptor(made)
        self.watch(fd, read)
        # ZeroMQ may have told already, when the socket was made.
        self._unread.add(fd)

    def _forget(self, made: zmq.Socket[bytes]) -> None:
        fd = _descriptor(made)
        self._epoll.unregister(fd)
        del self._by_fd[fd]
        self._unread.discard(fd)


def _lost(seat: Seat, to: Address) -> None:
    logger.error("a message to %s is lost: ZeroMQ has no way to %s", seat, to)


def _descriptor(made: zmq.Socket[bytes]) -> int:
    """What becomes readable when something has happened to a socket."""
    return int(made.getsockopt(zmq.FD))


def _allow_many_sockets() -> None:
    """Many nodes need more sockets than a process may open by default."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOCKETS if most == resource.RLIM_INFINITY else min(SOCKETS, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
