"""Metrics of all scores of a file: exact as long as they fit in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from yarnps.apps.metrics import binary_sums, finish

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


class Measure:
    """Adds up scores and labels; rows without a label (NaN) are passed over."""

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self._exact_rows = exact_rows
        self._scores: list[Floats] = []
        self._positive: list[Bools] = []
        self._kept = 0
        self._sums: dict[str, Floats] = {}
        self._odd_label: float | None = None
        self.rows = 0

    def add(self, logits: Floats, labels: NDArray[np.float32]) -> None:
        """One batch."""
        labelled = ~np.isnan(labels)
        scores, labels = logits[labelled], labels[labelled]
        odd = labels[~np.isin(labels, (-1, 0, 1))]
        if len(odd):
            self._odd_label = float(odd[0])
        if self._odd_label is not None or not len(labels):
            return
        positive = labels > 0
        self.rows += len(labels)
        for name, values in binary_sums(scores, positive).items():
            self._sums[name] = self._sums[name] + values if name in self._sums else values
        self._keep(scores, positive)

    def _keep(self, scores: Floats, positive: Bools) -> None:
        self._kept += len(scores)
        if self._kept > self._exact_rows:
            self._scores, self._positive = [], []
        else:
            self._scores.append(scores)
            self._positive.append(positive)

    def metrics(self) -> Mapping[str, float]:
        """``auc`` and ``logloss``, as far as they are defined."""
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
