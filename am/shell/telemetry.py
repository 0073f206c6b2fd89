"""What processes report about themselves: shown to people, and never decided upon.

The newest statistics of each process and the curve of the rate. All of it may be lost with the
ApplicationMaster's process: it comes back with the next messages. (The use of memory and processor
is kept by `Members`, which needs it to explain deaths.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from yarnps.protocol import control_pb2 as pb
from yarnps.status import Point, TableInfo

# The rate's curve keeps this many points; beyond, every second one is dropped and the interval
# between points doubles, so that a day fits as well as a minute.
RATE_POINTS = 600


@dataclass
class Figures:
    """The newest figures of one incarnation."""

    clock: int = 0
    rows_per_s: float = 0.0
    idle_s: float = 0.0
    duplicates: int = 0
    late: int = 0
    tables: tuple[TableInfo, ...] = ()


class Telemetry:
    """Collects the figures; see the module's text."""

    def __init__(self) -> None:
        self._figures: dict[int, Figures] = {}
        self._spoke: dict[int, float] = {}
        self._rate: deque[Point] = deque()
        self._rate_interval_s = 1.0

    def spoke(self, incarnation: int, now: float) -> None:
        """A role process has said something."""
        self._spoke[incarnation] = now

    def forgive(self, now: float) -> None:
        """Nobody's silence counts that fell into a time when the AM itself did not listen."""
        self._spoke = dict.fromkeys(self._spoke, now)

    def last_words(self) -> dict[int, float]:
        """When each role process last said something."""
        return self._spoke

    def stats(self, incarnation: int, stats: pb.Stats) -> None:
        """The statistics of a role process."""
        self._figures[incarnation] = Figures(
            clock=stats.clock,
            rows_per_s=stats.rows_per_s,
            idle_s=stats.idle_s,
            duplicates=stats.duplicates,
            late=stats.late,
            tables=tuple(_table(table) for table in stats.tables),
        )

    def rate(self, rows_per_s: float, now: float) -> None:
        """One more point of the job's rate."""
        if self._rate and now - self._rate[-1].time < self._rate_interval_s:
            return
        self._rate.append(Point(now, rows_per_s))
        if len(self._rate) > RATE_POINTS:
            self._rate = deque(list(self._rate)[::2])
            self._rate_interval_s *= 2

    def figures_of(self, incarnation: int) -> Figures:
        """The newest figures of an incarnation."""
        return self._figures.get(incarnation, Figures())

    def rate_points(self) -> tuple[Point, ...]:
        """The job's rate over time."""
        return tuple(self._rate)


def _table(stats: pb.TableStats) -> TableInfo:
    return TableInfo(
        name=stats.name,
        rows=stats.rows,
        bytes=stats.bytes,
        ignored=stats.ignored,
        evicted=stats.evicted,
        expired=stats.expired,
        waiting=stats.waiting,
        nonfinite=stats.nonfinite,
    )
