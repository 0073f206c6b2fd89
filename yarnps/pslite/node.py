"""What a scheduler knows of the node in one seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yarnps.pslite.wire import EVERYONE, WORKER_GROUP, Address

# Messages that are remembered, to know one that comes twice (PS_RESEND).
REMEMBERED = 256


@dataclass
class Node:
    """Who sits in a seat."""

    here: Address | None = None  # where it finds the scheduler; None: no process has been started
    host: str = ""  # that it has to have; empty: any
    address: Address | None = None  # where it listens, once it has registered
    apart: bool = False  # it speaks at its own port, even when there is a hall
    again: bool = False  # in the place of one that died when all had met
    recovered: bool = False  # it is told so: its program is past what it does at its start
    alone: bool = False  # its next barrier of everyone is its own
    ended_well: bool = False
    everyone: int = 0  # barriers of everyone that it has passed
    workers: int = 0  # barriers of the workers that it has passed
    seen: dict[int, None] = field(default_factory=dict)  # timestamps of messages, the oldest first
    refusals: int = 0

    def is_new(self, timestamp: int) -> bool:
        """Whether a message has not come before; it is remembered."""
        if timestamp in self.seen:
            return False
        self.seen[timestamp] = None
        if len(self.seen) > REMEMBERED:
            del self.seen[next(iter(self.seen))]
        return True

    def has_passed(self, group: int) -> None:
        """A barrier is over, and this node has been there."""
        self.everyone += group == EVERYONE
        self.workers += group == WORKER_GROUP

    @classmethod
    def restored(cls, data: Mapping[str, Any]) -> Node:
        """As it was before JSON has made texts of its numbers, and lists of its addresses."""
        addresses = {name: data[name] and Address(*data[name]) for name in ("here", "address")}
        seen = {int(timestamp): None for timestamp in data["seen"]}
        return cls(**{**data, **addresses, "seen": seen})
