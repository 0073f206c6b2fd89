"""A worker's place in the clock of stale synchronous training."""

from __future__ import annotations

from yarnps.protocol.wire import Message, Op
from yarnps.worker.client import Client


class ClockMember:
    """Enters and leaves the clock; `Client.clock` says where the worker is.

    Parameters
    ----------
    staleness
        Of the job; None: there is no clock.
    """

    def __init__(self, client: Client, staleness: int | None) -> None:
        self._client = client
        self._staleness = staleness

    def join(self) -> None:
        """Enter with the first lease; at the lowest live clock of any server."""
        if self._staleness is None or self._client.clock is not None:
            return
        found: list[int] = [0]

        def hear(message: Message) -> None:
            found.append(message.header.clock)

        call = self._client.ask_all(
            self._client.header(Op.JOIN), "joining the clock", on_reply=hear
        )
        self._client.wait(call)
        self._client.clock = max(found)
        self._announce()

    def leave(self) -> None:
        """Nobody waits for this worker any more."""
        if self._client.clock is not None:
            self._client.clock = None
            self._client.wait(
                self._client.ask_all(self._client.header(Op.LEAVE), "leaving the clock")
            )

    def tick(self) -> None:
        """A batch is committed."""
        if self._client.clock is not None:
            self._client.clock += 1
            self._announce()

    def _announce(self) -> None:
        """Tell every server at once: one that this worker has nothing to ask may be holding up
        somebody who waits for this clock."""
        self._client.ask_all(self._client.header(Op.JOIN), "telling the clock")
