"""The thread in which a scheduler's ports are, for an owner on an asyncio loop.

Nodes wait for the scheduler, and the loop has much else to do. So what they say is read, and what
they are told is sent, in a thread of its own, which also ends barriers that need nothing else
(`yarnps.pslite.rounds`). All other words go to the owner, on its loop and in the order in which
they came. ps-lite's name for what moves its messages is the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as TooLong
from contextlib import suppress
from functools import partial

import zmq

from yarnps.pslite.one_core import FREE_AFTER_S, OneCore
from yarnps.pslite.ports import TURN_S, Heard, Ports
from yarnps.pslite.rounds import Rounds
from yarnps.pslite.scheduler import Round
from yarnps.pslite.wire import Address, Seat

logger = logging.getLogger(__name__)

# The thread answers within a turn of its ports; one that takes longer than this hangs.
ANSWER_S = 10.0
# It waits for messages and orders at most so long at a time.
LOOK_S = 1.0
# When the owner has still so much to hear, no turn begins that would read more.
MOST_BYTES = 1 << 26
EACH_BYTES = 200  # that a message takes, beside its own
OWNER_FIRST_S = 0.001

_Order = Callable[[], None]


def _none(group: int) -> Round | None:
    return None


class Van:
    """See the module's text. To be used on one asyncio loop, on which it calls its owner.

    Parameters
    ----------
    heard
        Called with the seat whose port a message came to, the sender's ZeroMQ identity, and the
        message's head. Of a connection that was not ZeroMQ's, both are empty.
    failed
        Called with the error that has ended the thread: nothing is heard any more.
    host
        The address to listen on.
    pause
        Called when nothing more has come for a moment, or when much has.
    usual
        What a barrier of a group is, if nothing is out of the ordinary (`Scheduler.round`). Called
        in the thread.
    """

    def __init__(
        self,
        heard: Heard,
        failed: Callable[[Exception], None],
        host: str = "0.0.0.0",
        pause: Callable[[], None] = lambda: None,
        usual: Callable[[int], Round | None] = _none,
    ) -> None:
        self._heard = heard
        self._failed = failed
        self._pause = pause
        self._usual = usual
        self._loop = asyncio.get_running_loop()
        # From the owner to the thread, which is woken up by `_call`: while the owner hears, once
        # for all that it orders then.
        self._orders: deque[_Order] = deque()
        self._call = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asked: Future[int] = Future()  # for a port
        self._hears = False
        self._stopped = False
        # From the thread to the owner. None: a pause. With the number of a seat's process: what an
        # earlier one has said is not heard.
        self._said: deque[tuple[int, Seat, bytes, bytes] | None] = deque()
        self._announced = False
        self._told = 0  # bytes that the thread has told the owner, and …
        self._taken = 0  # … those that the owner is done with
        self._told_at_pause = 0
        self._newest: dict[Seat, int] = {}  # the owner's count of a seat's processes
        self._open: dict[Seat, int] = {}  # the thread's
        self._over = False
        self._rounds = Rounds(self._usual_now, self._hear, self._send_all)
        self._ports = Ports(self._rounds.heard, host, self._orders)
        self._ports.watch(self._call, self._called)
        self._together = OneCore(self._ports.io_thread)
        self._thread = threading.Thread(target=self._live, name="ps-lite ports", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------ of the owner

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
            The port is taken, or there is none.
        RuntimeError
            The thread has ended, or hangs.
        """
        process = self._next_process(seat)
        found = self._asked = Future()
        self._order(partial(self._open_port, seat, port, process, found))
        self._wake_up()
        try:
            return found.result(0.0 if self._over else ANSWER_S)
        except (CancelledError, TooLong) as error:
            text = f"no port for {seat}: the thread that hears ps-lite's nodes has ended, or hangs"
            raise RuntimeError(text) from error

    def close(self, seat: Seat) -> None:
        """The process of `seat` is gone: hear and say nothing more of it."""
        self._next_process(seat)
        self._order(partial(self._close_port, seat))

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        """Send to the node of a seat; does not wait for it."""
        self._order(partial(self._ports.send, seat, to, message))

    def stop(self) -> None:
        """Close everything; what has been sent gets a moment to arrive."""
        self._order(self._end)
        self._wake_up()
        if self._stopped:
            return
        self._stopped = True
        self._thread.join(ANSWER_S)
        if self._thread.is_alive():
            logger.error(
                "the thread that hears ps-lite's nodes has not ended within %g s", ANSWER_S
            )
        else:
            os.close(self._call)

    def _next_process(self, seat: Seat) -> int:
        process = self._newest[seat] = self._newest.get(seat, 0) + 1
        return process

    def _order(self, order: _Order) -> None:
        if self._over or self._stopped:
            return  # there is nobody to carry it out
        self._orders.append(order)
        if not self._hears:
            self._wake_up()

    def _wake_up(self) -> None:
        if not self._stopped:
            os.eventfd_write(self._call, 1)

    def _deliver(self) -> None:
        """Let the owner hear what has come; then others on the loop have their turn."""
        self._announced = False
        self._hears = True
        end = time.monotonic() + TURN_S
        try:
            while self._said and not self._stopped and time.monotonic() < end:
                self._hand_over(self._said.popleft())
        finally:
            self._hears = False
            if self._said and not self._announced:
                self._announce()
            if self._orders:
                self._wake_up()

    def _hand_over(self, said: tuple[int, Seat, bytes, bytes] | None) -> None:
        if said is None:
            self._pause()
            return
        process, seat, sender, message = said
        try:
            if self._newest.get(seat) == process:
                self._heard(seat, sender, message)
        finally:
            self._taken += len(message) + EACH_BYTES

    @property
    def unheard(self) -> int:
        """Bytes, about, that have been read and that the owner is still to hear."""
        return self._told - self._taken

    # ------------------------------------------------------------ of the thread

    def _live(self) -> None:
        try:
            while not self._over:
                self._turn()
        except Exception as error:
            if not self._loop.is_closed():  # else nobody is left whom that would harm
                logger.exception("the thread that hears ps-lite's nodes has failed")
                with suppress(RuntimeError):  # it is closed now
                    self._loop.call_soon_threadsafe(self._failed, error)
        finally:
            self._over = True
            if not self._asked.done():
                self._asked.cancel()
            self._ports.stop()

    def _turn(self) -> None:
        if self.unheard > MOST_BYTES:
            time.sleep(OWNER_FIRST_S)
            quiet = True
        else:
            soon = self._together.kept or self._rounds.begun
            quiet = self._ports.turn(FREE_AFTER_S if soon else LOOK_S)
        if quiet:
            self._rounds.pause()
        self._together.idle()
        self._tell_pause()
        while self._orders:
            self._orders.popleft()()

    def _called(self) -> bool:
        os.eventfd_read(self._call)
        return True

    def _open_port(self, seat: Seat, port: int, process: int, found: Future[int]) -> None:
        self._rounds.pause()
        self._open[seat] = process
        try:
            found.set_result(self._ports.open(seat, port))
        except OSError as error:
            found.set_exception(error)
        except zmq.ZMQError as error:  # there can be no more sockets
            found.set_exception(OSError(error.errno, f"no port for {seat}: {error.strerror}"))

    def _close_port(self, seat: Seat) -> None:
        self._rounds.pause()
        self._ports.close(seat)

    def _end(self) -> None:
        self._over = True

    # ------------------------------------------------------------ what is said

    def _usual_now(self, group: int) -> Round | None:
        """What the owner has still to hear may be something out of the ordinary."""
        return self._usual(group) if self._told == self._taken else None

    def _hear(self, seat: Seat, sender: bytes, message: bytes) -> None:
        self._told += len(message) + EACH_BYTES
        self._tell((self._open[seat], seat, sender, message))

    def _tell_pause(self) -> None:
        if self._told != self._told_at_pause:
            self._told_at_pause = self._told
            self._tell(None)

    def _tell(self, said: tuple[int, Seat, bytes, bytes] | None) -> None:
        self._said.append(said)
        if not self._announced:
            self._announce()

    def _send_all(self, nodes: Mapping[Seat, Address], message: bytes) -> None:
        self._ports.send_all(nodes, message)
        self._together.busy()

    def _announce(self) -> None:
        self._announced = True
        self._loop.call_soon_threadsafe(self._deliver)
