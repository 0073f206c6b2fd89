"""Metrics over time: of the test input after each epoch, and what user programs report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yarnps.am.actions import Action, Log
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Point

# A program that reports every batch must not fill the memory: beyond this, every second point of
# a curve is dropped.
CURVE_POINTS = 1000


class Results:
    """The newest value of each metric, and its curve."""

    def __init__(self) -> None:
        self.newest: dict[str, float] = {}
        self._curves: dict[str, list[Point]] = {}

    def measured(self, epoch: int, metrics: Mapping[str, float], now: float) -> list[Action]:
        """The metrics of an epoch's model on the test input."""
        for name, value in metrics.items():
            self._add(name, Point(now, value, epoch))
        text = ", ".join(f"{name} {value:.5g}" for name, value in sorted(metrics.items()))
        data = {"epoch": epoch, **metrics}
        return [Log("metric", f"after epoch {epoch}: {text or 'no metrics'}", data=data)]

    def report(self, report: pb.Report, now: float) -> list[Action]:
        """Values that a user's program reports."""
        for name, value in sorted(report.values.items()):
            self._add(name, Point(now, value, report.epoch or None))
        return []

    def _add(self, name: str, point: Point) -> None:
        self.newest[name] = point.value
        curve = self._curves.setdefault(name, [])
        curve.append(point)
        if len(curve) > CURVE_POINTS:
            del curve[1::2]

    def curves(self) -> dict[str, tuple[Point, ...]]:
        """All curves by name."""
        return {name: tuple(points) for name, points in self._curves.items()}

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        curves = {n: [[p.time, p.value, p.epoch] for p in c] for n, c in self._curves.items()}
        return {"newest": dict(self.newest), "curves": curves}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.newest = dict(data["newest"])
        self._curves = {n: [Point(*p) for p in c] for n, c in data["curves"].items()}
