"""The scheduler's sockets: a port for every seat, and a way to every node.

Runs on an asyncio loop, and in its thread only. All sockets are watched together: what has come to
any of them is taken in at once, so that a barrier of many nodes costs the loop few turns.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import select
import socket
import time
from collections.abc import Callable

from yarnps.pslite.links import Incoming, Outgoing
from yarnps.pslite.wire import Address, Seat

logger = logging.getLogger(__name__)

Heard = Callable[[Seat, bytes, bytes], None]

# What is on its way to nodes when the scheduler stops gets this long.
LINGER_S = 1.0
# A connection that has failed is tried again after this.
AGAIN_S = 0.1
# Nodes come to a barrier one soon after the other. After a message the next one is waited for so
# long, for the loop takes longer to come back here than most of them take to come (1 ms is the
# least that epoll can wait) …
PATIENCE_S = 0.001
# … and then others on the loop have their turn.
TURN_S = 0.02
# Connections of a port that may be open at the same time. A node has two at most; who has so many
# more is none.
MOST_CONNECTIONS = 64
# Enough for all nodes of a large job, with three each.
SOCKETS = 65_536


class Ports:
    """See the module's text.

    Parameters
    ----------
    heard
        Called with the seat whose port a message came to, the sender's ZeroMQ identity, and the
        message's head. Of bytes that are not ZeroMQ's, it is called with the first ones.
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
        self._listeners: dict[Seat, socket.socket] = {}
        self._incoming: dict[Seat, list[Incoming]] = {}
        self._outgoing: dict[Seat, Outgoing] = {}
        self._by_fd: dict[int, Callable[[int], None]] = {}
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
        listener = socket.socket()
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((self._host, port))
            listener.listen()
        except OSError as error:
            listener.close()
            raise OSError(error.errno, f"port {port} of {seat}: {error.strerror}") from error
        self._listeners[seat] = listener
        self._watch(listener, select.EPOLLIN, lambda _: self._accept(seat, listener))
        return int(listener.getsockname()[1])

    def close(self, seat: Seat) -> None:
        """The process of `seat` is gone: hear and say nothing more of it."""
        self._close_port(seat)
        outgoing = self._outgoing.pop(seat, None)
        if outgoing is not None:
            self._disconnect(outgoing)

    def _close_port(self, seat: Seat) -> None:
        listener = self._listeners.pop(seat, None)
        if listener is not None:
            self._forget(listener)
        for incoming in self._incoming.pop(seat, ()):
            self._forget(incoming.socket)

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        """Send to the node of a seat; does not wait for it."""
        outgoing = self._outgoing.get(seat)
        if outgoing is None or outgoing.to != to:
            if outgoing is not None:
                self._disconnect(outgoing)
            outgoing = self._outgoing[seat] = Outgoing(to)
        outgoing.send(message)
        self._look_after(seat, outgoing)

    def stop(self) -> None:
        """Close everything; what has been sent gets a moment to arrive."""
        for seat in [*self._listeners]:
            self._close_port(seat)
        deadline = time.monotonic() + LINGER_S
        while (left := deadline - time.monotonic()) > 0:
            if not any(outgoing.waiting for outgoing in self._outgoing.values()):
                break
            self._take(left)
        for outgoing in self._outgoing.values():
            self._disconnect(outgoing)
        self._outgoing.clear()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    # ------------------------------------------------------------ what has happened

    def _turn(self) -> None:
        """Take in what has come, until there is nothing more."""
        end = time.monotonic() + TURN_S
        patience_s = 0.0
        while self._take(patience_s) and time.monotonic() < end:
            patience_s = PATIENCE_S
        if self._pause is not None:
            self._pause()

    def _take(self, timeout_s: float) -> bool:
        """Take in what has come; False: nothing has."""
        found = self._epoll.poll(timeout_s)
        for fd, events in found:
            ready = self._by_fd.get(fd)  # None: closed by what another one's message has led to
            if ready is not None:
                ready(events)
        return bool(found)

    def _accept(self, seat: Seat, listener: socket.socket) -> None:
        try:
            made, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # whoever it was has gone again
        except OSError as error:
            logger.error("the port of %s takes no connection for a moment: %s", seat, error)
            self._epoll.modify(listener.fileno(), 0)
            self._loop.call_later(AGAIN_S, self._listen_again, seat, listener)
            return
        incoming = Incoming(made)
        known = self._incoming.setdefault(seat, [])
        known.append(incoming)
        self._watch(made, select.EPOLLIN, lambda _: self._read(seat, incoming))
        if len(known) > MOST_CONNECTIONS:
            strangers = (one for one in known if not one.ready)
            self._drop(seat, next(strangers, incoming))

    def _listen_again(self, seat: Seat, listener: socket.socket) -> None:
        if self._listeners.get(seat) is listener:
            self._epoll.modify(listener.fileno(), select.EPOLLIN)

    def _read(self, seat: Seat, incoming: Incoming) -> None:
        messages = incoming.read()
        for message in messages:
            if incoming.socket.fileno() < 0:
                return  # closed by what the last message has led to
            self._heard(seat, incoming.sender, message)
        if not incoming.open and incoming.socket.fileno() >= 0:
            self._drop(seat, incoming)

    def _drop(self, seat: Seat, incoming: Incoming) -> None:
        self._incoming[seat].remove(incoming)
        self._forget(incoming.socket)

    def _look_after(self, seat: Seat, outgoing: Outgoing) -> None:
        """Do what a way to a node needs: watch it, or try again."""
        if self._outgoing.get(seat) is not outgoing:
            return
        if outgoing.failed:
            self._disconnect(outgoing)
            if outgoing.waiting:
                self._loop.call_later(AGAIN_S, self._connect, seat, outgoing)
        elif outgoing.socket is None:
            self._connect(seat, outgoing)
        elif outgoing.wants != outgoing.watched:
            self._epoll.modify(outgoing.socket.fileno(), outgoing.wants)
            outgoing.watched = outgoing.wants

    def _connect(self, seat: Seat, outgoing: Outgoing) -> None:
        if self._outgoing.get(seat) is not outgoing or outgoing.socket is not None:
            return
        made = outgoing.connect()

        def ready(events: int) -> None:
            outgoing.ready(events)
            self._look_after(seat, outgoing)

        self._watch(made, outgoing.wants, ready)
        outgoing.watched = outgoing.wants
        self._look_after(seat, outgoing)

    # ------------------------------------------------------------ sockets

    def _watch(self, made: socket.socket, events: int, ready: Callable[[int], None]) -> None:
        self._epoll.register(made.fileno(), events)
        self._by_fd[made.fileno()] = ready

    def _disconnect(self, outgoing: Outgoing) -> None:
        if outgoing.socket is not None:
            self._forget(outgoing.socket)
            outgoing.socket = None

    def _forget(self, made: socket.socket) -> None:
        self._epoll.unregister(made.fileno())
        del self._by_fd[made.fileno()]
        made.close()


def _allow_many_sockets() -> None:
    """Many nodes need more sockets than a process may open by default."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOCKETS if most == resource.RLIM_INFINITY else min(SOCKETS, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
