"""Barriers whose nodes come one right after the other: ended at once, and told to nobody.

Some programs have a barrier for every batch. One that all its nodes come to with nothing in between
leaves the scheduler as it was, so there is nothing to keep of it. It costs what counting does, and
not what an input costs that a job's state follows from. Whatever is not such a barrier, or not yet
when there is a pause, the scheduler hears as ever, in the order in which it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from yarnps.pslite import wire
from yarnps.pslite.scheduler import Round
from yarnps.pslite.wire import Address, Seat

Hear = Callable[[Seat, bytes, bytes], None]
SendAll = Callable[[Mapping[Seat, Address], bytes], None]


class Rounds:
    """See the module's text.

    Parameters
    ----------
    usual
        What a barrier of a group is, if nothing is out of the ordinary (`Scheduler.round`).
    hear
        Takes what the scheduler is to hear: the port, the sender's ZeroMQ identity, the message.
    send_all
        Sends a message to nodes.
    """

    def __init__(self, usual: Callable[[int], Round | None], hear: Hear, send_all: SendAll) -> None:
        self._usual = usual
        self._hear = hear
        self._send_all = send_all
        self._group = 0
        self._round: Round | None = None
        self._words: dict[bytes, tuple[Seat, bytes]] = {}  # sender -> port, message

    def heard(self, port: Seat, sender: bytes, message: bytes) -> None:
        """A message has come to a port."""
        group, words = wire.barrier_asked(message), self._words
        if not words:
            self._group, self._round = group, self._usual(group) if group else None
        usual = self._round if group == self._group else None
        if usual is None or usual.ports.get(sender) != port or sender in words:
            self.pause()
            self._hear(port, sender, message)
            return
        words[sender] = port, message
        if len(words) == len(usual.ports):
            if self._usual(group) is not usual:
                self.pause()
                return
            words.clear()
            self._send_all(usual.nodes, usual.over)

    @property
    def begun(self) -> bool:
        """Whether some nodes of a barrier have come, and others are still to come."""
        return bool(self._words)

    def pause(self) -> None:
        """Nothing more has come for now: the scheduler hears what is not whole."""
        words, self._words = self._words, {}
        for sender, (port, message) in words.items():
            self._hear(port, sender, message)
