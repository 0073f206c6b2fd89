"""Losses of batches as they are before being learned from, reported now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarnps import Batch, Job

REPORT_S = 2.0


class Progress:
    """Shows the mean loss of the last batches.

    Parameters
    ----------
    name
        Of the number that is reported.
    root
        Report the root of the mean.
    """

    def __init__(self, job: Job, name: str, *, root: bool = False) -> None:
        self._job = job
        self._name = name
        self._root = root
        self._next = time.monotonic() + REPORT_S
        self._loss = 0.0
        self._rows = 0

    def add(self, loss: float, rows: int) -> None:
        """A batch's loss, summed over its rows."""
        self._loss += loss
        self._rows += rows
        now = time.monotonic()
        if now >= self._next and self._rows:
            mean = self._loss / self._rows
            self._job.report(**{self._name: mean**0.5 if self._root else mean})
            self._next, self._loss, self._rows = now + REPORT_S, 0.0, 0


def where(batch: Batch) -> str:
    """A batch's place, for messages."""
    return f"split {batch.split}, batch {batch.index} of the {batch.phase} input"
