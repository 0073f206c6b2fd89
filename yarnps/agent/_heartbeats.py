"""When an agent's heartbeats are due, what is in them, and whether anybody answers."""

from __future__ import annotations

import random
from collections.abc import Collection

from yarnps.agent._role import RoleProcess
from yarnps.agent._usage import Sampler
from yarnps.protocol import control_pb2 as pb

PERIOD_S = 1.0
# An ApplicationMaster that used to answer and has left so many unanswered is not there.
UNANSWERED = 6
UNANSWERED_S = 10.0


class Heartbeats:
    """Of one session after another; the period follows the ApplicationMaster's answers."""

    def __init__(self) -> None:
        self.due = 0.0
        self._period_s = PERIOD_S
        self._sampler = Sampler()
        self._answered = False
        self._unanswered = 0
        self._unanswered_since = 0.0

    def begin(self, period_s: float, now: float) -> None:
        """A session begins; the first heartbeat is due at once."""
        self._period_s = period_s or PERIOD_S
        self.due = now
        self._answered, self._unanswered = False, 0

    def heard(self) -> None:
        """The ApplicationMaster has said something."""
        self._unanswered = 0

    def answer(self, period: pb.HeartbeatPeriod) -> None:
        """It has answered a heartbeat."""
        self._answered = True
        if period.seconds > 0:
            self._period_s = period.seconds

    def make(self, roles: Collection[RoleProcess], now: float) -> pb.FromAgent:
        """The heartbeat that is due now."""
        # Jitter: agents that were started together should not speak together.
        self.due = now + self._period_s * random.uniform(0.9, 1.1)
        if self._unanswered == 0:
            self._unanswered_since = now
        self._unanswered += 1
        sampled = self._sampler.sample(role.pid for role in roles)
        usage = [
            pb.ProcessUsage(
                incarnation=role.incarnation,
                cpu_percent=sampled[role.pid].cpu_percent,
                memory_bytes=sampled[role.pid].memory,
                memory_peak_bytes=sampled[role.pid].peak,
            )
            for role in roles
            if role.pid in sampled
        ]
        return pb.FromAgent(heartbeat=pb.Heartbeat(usage=usage))

    def in_vain(self, now: float) -> bool:
        """Whether the session looks dead although its connection is open."""
        long_ago = now - self._unanswered_since > UNANSWERED_S
        if not (self._answered and self._unanswered > UNANSWERED and long_ago):
            return False
        self._unanswered = 0
        return True
