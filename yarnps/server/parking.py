"""Pulls that wait for the gate, or for their step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from yarnps.protocol.wire import Message


class Parked(NamedTuple):
    """A pull that waits since a time, in seconds."""

    peer: bytes
    message: Message
    since: float


class ParkedPulls:
    """Those of all peers, in the order in which they came."""

    def __init__(self) -> None:
        self._parked: dict[tuple[bytes, int], Parked] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def add(self, peer: bytes, message: Message, now: float) -> None:
        """Let a pull wait; one that is sent again keeps its time."""
        key = (peer, message.header.request)
        known = self._parked.get(key)
        self._parked[key] = Parked(peer, message, now if known is None else known.since)

    def take(self, goes: Callable[[Parked], bool]) -> list[Parked]:
        """Those that no longer wait."""
        found = {key: parked for key, parked in self._parked.items() if goes(parked)}
        for key in found:
            del self._parked[key]
        return list(found.values())

    def forget(self, peer: bytes) -> None:
        """Nobody waits at the connection's other end."""
        self.take(lambda parked: parked.peer == peer)
