"""What an agent has to say while the ApplicationMaster is away, and what may have got lost.

When the ApplicationMaster dies, messages that were on their way are lost without a sign. So the
newest ones are kept for a while and said again after the next registration: they are all either
cumulative (progress) or name an incarnation to which the same thing happens once only.
"""

from __future__ import annotations

from collections import OrderedDict

from yarnps.protocol import control_pb2 as pb

# Longer than a hanging ApplicationMaster goes unnoticed (its supervisor waits 30 s).
KEEP_S = 60.0
LIMIT = 2000

# Said once only: the next statistics follow soon, and these others would count twice.
NOT_TWICE = ("stats", "report", "event")


class Backlog:
    """Messages in the order of saying, at most `LIMIT` of them; what is cumulative only once."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[object, ...], tuple[float, bool, pb.FromAgent]] = (
            OrderedDict()
        )
        self._count = 0
        self.dropped = 0

    def add(self, message: pb.FromAgent, *, sent: bool, now: float) -> None:
        """Remember a message; `sent`: the ApplicationMaster seems to be there."""
        key = _key(message)
        if sent and message.role.message.WhichOneof("kind") in NOT_TWICE:
            return
        if key is None:
            self._count += 1
            key = ("one", self._count)
        self._messages.pop(key, None)
        self._messages[key] = (now, sent, message)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop what was sent long ago, and the oldest of too many."""
        while self._messages:
            key, (at, sent, _) = next(iter(self._messages.items()))
            if len(self._messages) > LIMIT:
                self.dropped += not sent
            elif not sent or now - at < KEEP_S:
                return
            del self._messages[key]

    def take(self, now: float) -> list[pb.FromAgent]:
        """All that a new ApplicationMaster should hear, in order; from now on it counts as sent."""
        self._forget(now)
        kept = list(self._messages.items())
        for key, (_, _, message) in kept:
            if message.role.message.WhichOneof("kind") in NOT_TWICE:
                del self._messages[key]
            else:
                self._messages[key] = (now, True, message)
        return [message for _, (at, sent, message) in kept if not sent or now - at < KEEP_S]


def _key(message: pb.FromAgent) -> tuple[object, ...] | None:
    """What a newer message of the same key makes obsolete; None: nothing."""
    if message.WhichOneof("kind") != "role":
        return None
    who = message.role.incarnation.id
    said = message.role.message
    kind = said.WhichOneof("kind")
    if kind in ("stats", "want"):
        return (kind, who)
    if kind == "progress":
        p = said.progress
        return (kind, who, p.epoch, p.phase, p.split, p.token, p.part.ended)
    return None
