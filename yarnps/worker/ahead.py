"""A batch's pulls, made by the program's own function, in its turn or before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from yarnps._errors import YarnpsError
from yarnps.worker.batch import Batch
from yarnps.worker.table import CurrentBatch

log = logging.getLogger(__name__)

Pull = Callable[[Batch], Any]


class Pulls:
    """Calls the program's `pull`, and lets tables know for which batch that is."""

    def __init__(self, current: CurrentBatch) -> None:
        self._current = current
        self.function: Pull | None = None

    def of(self, batch: Batch) -> Any:
        """What the program's function returns for a batch."""
        if self.function is None:
            raise YarnpsError(
                "batch.pulled without a function that pulls", "give it to data(pull=...)"
            )
        self._current.pulling = True
        try:
            return self.function(batch)
        finally:
            self._current.pulling = False

    def make(self, batch: Batch, *, early: bool) -> None:
        """Make the pulls of a batch that nobody is in; `early`: it is not its turn yet."""
        self._current.now, self._current.early = batch, early
        try:
            batch.pull_now()
        except Exception:  # `pulled` calls it again, where the program sees what it raises
            log.debug("pulling ahead for batch %d failed", batch.index, exc_info=True)
        finally:
            self._current.now, self._current.early = None, False
