"""What a program's evaluation gives for the batches of a split, added up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yarnps.worker.leases import Held

Sums = dict[str, NDArray[np.float64]]


class Evaluated:
    """The sums of the split that is in work; they go with its last progress."""

    def __init__(self) -> None:
        self._sums: Sums = {}
        self._lease: Held | None = None

    def add(self, lease: Held, values: Mapping[str, ArrayLike]) -> None:
        """What came of one more batch."""
        if self._lease is not lease:
            self._sums, self._lease = {}, lease
        for name, value in values.items():
            added = np.atleast_1d(np.asarray(value, np.float64))
            before = self._sums.get(name)
            self._sums[name] = added.copy() if before is None else before + added

    def of(self, lease: Held) -> Sums | None:
        """The sums of a split; None where nothing was evaluated."""
        return self._sums if self._lease is lease else None
