"""The scheduler's sockets: a port for every seat, and a way to every node.

Runs on an asyncio loop, and in its thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import zmq

from yarnps.pslite.wire import SCHEDULER_NAME, Address, Seat

logger = logging.getLogger(__name__)

Heard = Callable[[Seat, bytes, bytes], None]

# What is on its way to nodes when the scheduler stops gets this long.
LINGER_MS = 1000
# A message of a node to its scheduler is its address or a number; whoever sends more is no node.
LARGEST_MESSAGE = 1 << 20
# Messages of one port that are read before others have their turn.
AT_ONCE = 100


class Ports:
    """See the module's text.

    Parameters
    ----------
    heard
        Called with the seat whose port a message came to, the sender's zmq identity, and the
        message's head.
    host
        The address to listen on.
    """

    def __init__(self, heard: Heard, host: str = "0.0.0.0") -> None:
        self._heard = heard
        self._host = host
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 65_536)
        self._routers: dict[Seat, Any] = {}
        self._dealers: dict[Seat, tuple[Address, Any]] = {}
        self._loop = asyncio.get_running_loop()

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
        router: Any = self._context.socket(zmq.ROUTER)
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            router.bind(f"tcp://{self._host}:{port or '*'}")
        except zmq.ZMQError as error:
            router.close()
            raise OSError(error.errno, f"port {port} of {seat}: {error.strerror}") from error
        self._routers[seat] = router
        self._loop.add_reader(_descriptor(router), self._read, seat, router)
        endpoint: str = router.getsockopt_string(zmq.LAST_ENDPOINT)
        return int(endpoint.rpartition(":")[2])

    def close(self, seat: Seat) -> None:
        """The process of `seat` is gone: hear and say nothing more of it."""
        router = self._routers.pop(seat, None)
        if router is not None:
            self._loop.remove_reader(_descriptor(router))
            router.close()
        if seat in self._dealers:
            self._dealers.pop(seat)[1].close(0)

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        """Send to the node of a seat; does not wait for it."""
        known = self._dealers.get(seat)
        if known is None or known[0] != to:
            if known is not None:
                known[1].close(0)
            dealer: Any = self._context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.IDENTITY, SCHEDULER_NAME)
            dealer.setsockopt(zmq.SNDHWM, 0)
            dealer.setsockopt(zmq.LINGER, LINGER_MS)
            dealer.connect(f"tcp://{to}")
            known = self._dealers[seat] = (to, dealer)
        known[1].send(message, zmq.NOBLOCK)

    def stop(self) -> None:
        """Close everything; what has been sent gets a moment to arrive."""
        for seat in list(self._routers):
            router = self._routers.pop(seat)
            self._loop.remove_reader(_descriptor(router))
            router.close()
        for _, dealer in self._dealers.values():
            dealer.close()
        self._dealers.clear()
        self._context.term()

    def _read(self, seat: Seat, router: Any) -> None:
        """Take in what has come. zmq signals changes, not states: read until there is nothing."""
        for _ in range(AT_ONCE):
            if router.closed:
                return  # closed by what the last message has led to
            try:
                sender = router.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            frame = router.recv(zmq.NOBLOCK, copy=False)
            message, more = frame.bytes, frame.more
            while more:  # data: no node has any for its scheduler
                more = router.recv(zmq.NOBLOCK, copy=False).more
            self._heard(seat, sender, message)
        self._loop.call_soon(self._read, seat, router)


def _descriptor(socket: Any) -> int:
    """What the loop watches for a zmq socket."""
    return int(socket.getsockopt(zmq.FD))
