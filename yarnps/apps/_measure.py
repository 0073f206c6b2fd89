"""Metrics of all scores of a file; areas under the curve are exact while they fit in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from yarnps.apps.metrics import binary_sums, finish, squared_sums

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# 9 bytes each; with more rows the area under the curve comes from histograms (within 1e-5).
EXACT_ROWS = 20_000_000


def exact_auc(scores: Floats, positive: Bools) -> float | None:
    """Area under the ROC curve: how often a positive row has the higher score; ties count half.

    None when all rows are of one class.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if positives == 0 or negatives == 0:
        return None
    order = np.argsort(scores, kind="stable")
    ranked, hits = scores[order], positive[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    p = np.diff(np.concatenate([[0], np.cumsum(hits)[ends]]))
    n = np.diff(np.concatenate([[0], ends + 1])) - p
    below = np.cumsum(n) - n
    return float((p * (below + n / 2)).sum() / (positives * negatives))


class Measure(ABC):
    """Adds up scores and labels; rows without a label (NaN) are passed over."""

    def __init__(self) -> None:
        self._sums: dict[str, Floats] = {}
        self.rows = 0

    def add(self, scores: Floats, labels: NDArray[np.float32]) -> None:
        """One batch."""
        labelled = ~np.isnan(labels)
        if labelled.any():
            self._add(scores[labelled], labels[labelled])

    @abstractmethod
    def _add(self, scores: Floats, labels: NDArray[np.float32]) -> None:
        """The labelled rows of a batch."""

    @abstractmethod
    def metrics(self) -> Mapping[str, float]:
        """Those that are defined."""

    def note(self) -> str:
        """Why there are no metrics, when somebody may expect them."""
        return ""

    def _sum(self, sums: Mapping[str, Floats]) -> None:
        for name, values in sums.items():
            self._sums[name] = self._sums[name] + values if name in self._sums else values


class RegressionMeasure(Measure):
    """``rmse`` and ``mae`` of predictions."""

    def _add(self, scores: Floats, labels: NDArray[np.float32]) -> None:
        self.rows += len(labels)
        self._sum(squared_sums(scores, labels))

    def metrics(self) -> Mapping[str, float]:
        """Empty without labels."""
        return finish(self._sums)


class ClassMeasure(Measure):
    """``auc`` and ``logloss`` of logits."""

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        super().__init__()
        self._exact_rows = exact_rows
        self._scores: list[Floats] = []
        self._positive: list[Bools] = []
        self._kept = 0
        self._odd_label: float | None = None

    def _add(self, scores: Floats, labels: NDArray[np.float32]) -> None:
        odd = labels[~np.isin(labels, (-1, 0, 1))]
        if len(odd):
            self._odd_label = float(odd[0])
        if self._odd_label is not None:
            return
        positive = labels > 0
        self.rows += len(labels)
        self._sum(binary_sums(scores, positive))
        self._keep(scores, positive)

    def _keep(self, scores: Floats, positive: Bools) -> None:
        self._kept += len(scores)
        if self._kept > self._exact_rows:
            self._scores, self._positive = [], []
        else:
            self._scores.append(scores)
            self._positive.append(positive)

    def metrics(self) -> Mapping[str, float]:
        """None with labels of other kinds; no ``auc`` for rows of one class."""
        if self._odd_label is not None or not self.rows:
            return {}
        found = finish(self._sums)
        if "auc" in found and self._scores:
            exact = exact_auc(np.concatenate(self._scores), np.concatenate(self._positive))
            found["auc"] = found["auc"] if exact is None else exact
        return found

    def note(self) -> str:
        """Why there are no metrics, when somebody may expect them."""
        if self._odd_label is None:
            return ""
        return f"no metrics: {self._odd_label:g} is a label, and only 1, 0 and -1 name two classes"
