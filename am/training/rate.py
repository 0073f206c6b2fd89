"""Rows per second over the last half minute, from commits that arrive in lumps."""

from __future__ import annotations

from typing import Any

WINDOW_S = 30


class Rate:
    """A sliding average of committed rows.

    A commit says how many rows a worker has got through since it was heard last, so the rows are
    spread over that time. What piles up while the ApplicationMaster is away is then no peak when
    it comes back, and a rollback takes nothing away: the work was done.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, float] = {}  # whole second -> rows

    def add(self, rows: int, since: float, now: float) -> None:
        """`rows` more were committed between `since` and `now`."""
        if rows <= 0:
            return
        start = max(since, now - WINDOW_S)
        if now - start < 0.001:
            self._put(int(now), rows)
        else:
            per_second = rows / (now - since)
            for second in range(int(start), int(now) + 1):
                part = min(second + 1, now) - max(second, start)
                if part > 0:
                    self._put(second, per_second * part)
        for second in [s for s in self._buckets if s < int(now) - WINDOW_S]:
            del self._buckets[second]

    def _put(self, second: int, rows: float) -> None:
        self._buckets[second] = self._buckets.get(second, 0.0) + rows

    def per_second(self, now: float) -> float:
        """The average at `now`; over less than the window when the first work is younger."""
        oldest = now - WINDOW_S
        recent = [s for s in self._buckets if s + 1 > oldest and s <= now]
        if not recent:
            return 0.0
        total = sum(self._buckets[s] * min(1.0, s + 1 - oldest) for s in sorted(recent))
        return total / max(now - max(oldest, min(recent)), 1.0)

    def snapshot(self) -> list[list[float]]:
        """Plain data for `restore`."""
        return [[second, self._buckets[second]] for second in sorted(self._buckets)]

    def restore(self, data: Any) -> None:
        """Put back what `snapshot` gave."""
        self._buckets = {int(second): float(rows) for second, rows in data}
