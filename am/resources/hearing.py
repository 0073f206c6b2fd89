"""What heartbeats and the clock say about containers right now. Not durable.

A restarted ApplicationMaster begins it afresh, so that time in which nobody listened is not held
against anyone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from yarnps.protocol import control_pb2 as pb

# A longer gap between two ticks is the ApplicationMaster's own and not held against containers.
LONGEST_TICK_S = 5.0


@dataclass
class Vitals:
    """A container as heard."""

    connected: bool = False
    registered: bool = False
    silent_s: float = 0.0  # counted while the ApplicationMaster was responsive
    last_heard: float | None = None
    registered_at: float = 0.0  # the last time
    cpu_percent: float | None = None
    memory: int | None = None
    memory_peak: int | None = None

    def hear(self, now: float, heartbeat: pb.Heartbeat | None = None) -> None:
        """Something has come from its agent."""
        self.silent_s = 0.0
        self.last_heard = now
        if heartbeat is None or not heartbeat.usage:
            return
        self.cpu_percent = sum(usage.cpu_percent for usage in heartbeat.usage)
        self.memory = sum(usage.memory_bytes for usage in heartbeat.usage)
        # The processes' peaks need not have been at one time: an upper bound.
        peak = sum(usage.memory_peak_bytes for usage in heartbeat.usage)
        self.memory_peak = max(peak, self.memory, self.memory_peak or 0)


class Hearing:
    """The vitals of all containers that have been granted."""

    def __init__(self) -> None:
        self._vitals: dict[str, Vitals] = {}
        self._ticked: float | None = None

    def of(self, container: str) -> Vitals | None:
        """A container's vitals, if there are any."""
        return self._vitals.get(container)

    def registered(self, container: str, now: float) -> None:
        """An agent has said who it is."""
        vitals = self._vitals.setdefault(container, Vitals())
        vitals.connected = vitals.registered = True
        vitals.registered_at = now
        vitals.hear(now)

    def heard(self, container: str, now: float, heartbeat: pb.Heartbeat | None = None) -> None:
        """Something came from an agent."""
        vitals = self._vitals.get(container)
        if vitals is not None:
            vitals.hear(now, heartbeat)

    def broke(self, container: str) -> bool:
        """An agent's stream has broken; False: that is known."""
        vitals = self._vitals.get(container)
        if vitals is None or not vitals.connected:
            return False
        vitals.connected = False
        return True

    def pass_time(self, now: float, containers: Iterable[str] = (), *, responsive: bool) -> None:
        """Time has passed, in which `containers` were silent; `responsive`: and we were not."""
        passed = 0.0 if self._ticked is None else min(now - self._ticked, LONGEST_TICK_S)
        self._ticked = now
        for container in containers:
            vitals = self._vitals.setdefault(container, Vitals())
            vitals.silent_s += max(0.0, passed) if responsive else 0.0

    def drop(self, container: str) -> None:
        """A container is gone, or not ours any more."""
        self._vitals.pop(container, None)

    def forget(self) -> None:
        """Nothing that was heard counts any more."""
        self._vitals.clear()
        self._ticked = None
