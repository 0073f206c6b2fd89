"""Ports for ps-lite nodes: they come back where they were when the process does.

What nodes say is fed to the state machine, except for barriers that leave no trace there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from yarnps.am import inputs as i
from yarnps.am.actions import Action, ClosePort, OpenPort, SendNode
from yarnps.pslite.scheduler import Round
from yarnps.pslite.van import Van
from yarnps.pslite.wire import Address, Seat


class NodePorts:
    """Carries out what the state machine wants of ps-lite nodes, and feeds it what they say.

    Parameters
    ----------
    feed
        Takes an input.
    pause
        Called when nothing more has come for a moment, or when much has been fed.
    usual
        What a barrier of a group is for the state machine, if it leaves no trace. Called in another
        thread.
    failed
        Called with the error after which nothing more is heard.
    """

    def __init__(
        self,
        feed: Callable[[i.Input], object],
        pause: Callable[[], None],
        usual: Callable[[int], Round | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._feed = feed
        self._van = Van(self._hear, failed, pause=pause, usual=usual)

    def run(self, action: Action) -> bool:
        """Carry out an action; False: it is none of ours."""
        if isinstance(action, SendNode):
            to = Address(action.host, action.port)
            self._van.send(Seat(action.role, action.rank), to, action.message)
        elif isinstance(action, OpenPort):
            port = self._van.open(Seat(action.role, action.rank))
            self._feed(i.PortOpened(action.role, action.rank, port))
        elif isinstance(action, ClosePort):
            self._van.close(Seat(action.role, action.rank))
        else:
            return False
        return True

    def reopen(self, known: Iterable[tuple[Seat, int]]) -> None:
        """Listen again on the ports that running nodes have been told of."""
        for seat, port in known:
            try:
                self._van.open(seat, port)
            except OSError as error:
                self._feed(i.PortLost(*seat, str(error)))

    def stop(self) -> None:
        """Close all; what has been sent gets a moment to arrive."""
        self._van.stop()

    def _hear(self, seat: Seat, sender: bytes, message: bytes) -> None:
        self._feed(i.NodeSaid(*seat, sender, message))
