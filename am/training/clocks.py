"""Which workers count for the clock: a slow or frozen one must not hold up all others (SSP).

A member that works more than three times as long per batch as the median, for ten batches, leaves
the clock until it keeps up. Working time is the time that passed without the time that the worker
waited: others that stand at the gate because of the slow one are not slow themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, NamedTuple

from yarnps.protocol import control_pb2 as pb

SLOWER_THAN_MEDIAN = 3.0
KEEPS_UP_WITHIN = 2.0  # of the median, to come back: apart from the other, or it would swing
BATCHES = 10
LEAST_MEMBERS = 3  # among fewer there is no telling who is the odd one
# A pause of a few seconds (a collection of garbage, a slow disk) is not slowness, however short
# the batches are.
LEAST_S = 5.0
SAMPLES = 64


class Change(NamedTuple):
    """A worker leaves the clock or comes back."""

    worker: int
    outside: bool
    reason: str


class Sample(NamedTuple):
    """What a worker said of itself at a time."""

    time: float
    clock: int
    waited: float


@dataclass
class Member:
    """A live incarnation. `samples` are the first ones at each clock, `waited` is the newest."""

    outside: bool = False
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    waited: float = 0.0

    @property
    def clock(self) -> int:
        """As it was reported last."""
        return self.samples[-1].clock

    def restart(self, now: float) -> None:
        """Judge it by what comes from now on."""
        clock = self.clock if self.samples else 0
        self.samples.clear()
        self.samples.append(Sample(now, clock, self.waited))

    def window(self) -> Sample:
        """The start of the last `BATCHES` batches, or the oldest that is known."""
        for sample in reversed(self.samples):
            if self.clock - sample.clock >= BATCHES:
                return sample
        return self.samples[0]

    def worked(self, now: float) -> float:
        """Seconds of work since the window's start; silence since the last word counts."""
        start = self.window()
        return max(0.0, now - start.time - (self.waited - start.waited))

    def batches(self) -> int:
        """Batches since the window's start."""
        return self.clock - self.window().clock

    def pace(self) -> float | None:
        """Seconds of work per batch, by its own words; None: no batch yet."""
        start, last, batches = self.window(), self.samples[-1], self.batches()
        worked = last.time - start.time - (last.waited - start.waited)
        return max(0.0, worked) / batches if batches > 0 else None


class Clocks:
    """The members of the clock, as the servers are told them.

    A worker is `joined` when its incarnation is up and `gone` when it is dead or has finished.

    Parameters
    ----------
    staleness
        Of SSP, in batches: only who is so far behind the median holds others up, so nobody else
        is judged. None (ASP): nobody is, since nobody waits.
    """

    def __init__(self, staleness: int | None) -> None:
        self._staleness = staleness
        self._members: dict[int, Member] = {}
        self._version = 1

    def joined(self, worker: int, now: float) -> None:
        """A new incarnation of a worker is up."""
        if worker not in self._members:
            self._members[worker] = Member()
            self._members[worker].restart(now)
            self._version += 1

    def gone(self, worker: int) -> None:
        """An incarnation is dead or through with its work."""
        if self._members.pop(worker, None) is not None:
            self._version += 1

    def stats(self, worker: int, clock: int, waited: float, now: float) -> None:
        """What a worker says of itself: its clock, and the seconds it has waited in total."""
        member = self._members.get(worker)
        if member is None:
            return
        before, member.waited = member.waited, waited
        if clock < member.clock or waited < before:
            member.samples.append(Sample(now, clock, waited))
            member.restart(now)
        elif clock > member.clock:
            member.samples.append(Sample(now, clock, waited))

    def idle(self, worker: int, now: float) -> None:
        """A worker has no lease: it is not a member at the servers now, and not slow either."""
        if worker in self._members:
            self._members[worker].restart(now)

    def interrupted(self, now: float) -> None:
        """A server is away or the phase changes: nobody is judged by the time that this takes."""
        for member in self._members.values():
            member.restart(now)

    def tick(self, now: float) -> list[Change]:
        """Judge everyone; the changes are in `members` already."""
        if self._staleness is None:
            return []
        inside = {w: m for w, m in self._members.items() if not m.outside}
        paces = [pace for m in inside.values() if (pace := m.pace()) is not None]
        if not paces:
            return []
        median = max(median_low(sorted(paces)), 1e-6)
        changes = [
            Change(worker, False, "it keeps up again")
            for worker, member in self._members.items()
            if member.outside and self._keeps_up(member, median)
        ]
        middle = median_low(sorted(m.clock for m in inside.values()))
        left = len(inside)
        for worker, member in inside.items():
            if left < LEAST_MEMBERS or middle - member.clock < max(1, self._staleness):
                continue
            worked, batches = member.worked(now), member.batches()
            slow = SLOWER_THAN_MEDIAN * median * max(BATCHES, batches)
            if worked >= max(slow, LEAST_S):
                text = f"{batches} batches in {worked:.1f} s of work; the median is {median:.3g} s"
                changes.append(Change(worker, True, text))
                left -= 1
        for change in changes:
            self._members[change.worker].outside = change.outside
            self._members[change.worker].restart(now)
        self._version += bool(changes)
        return changes

    @staticmethod
    def _keeps_up(member: Member, median: float) -> bool:
        pace = member.pace()
        return pace is not None and member.batches() >= BATCHES and pace <= KEEPS_UP_WITHIN * median

    def members(self) -> pb.Members:
        """The message for the servers."""
        return pb.Members(
            version=self._version,
            incarnations=[w for w, m in self._members.items() if not m.outside],
            outside=[w for w, m in self._members.items() if m.outside],
        )

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "version": self._version,
            "members": [
                [worker, m.outside, m.waited, [list(sample) for sample in m.samples]]
                for worker, m in self._members.items()
            ],
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._version = data["version"]
        self._members = {}
        for worker, outside, waited, samples in data["members"]:
            kept = deque((Sample(*sample) for sample in samples), maxlen=SAMPLES)
            self._members[worker] = Member(outside, kept, waited)
