"""How rows become features, and labels classes: the same in training and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.apps._rows import Entries, Features, Int64s, Uniquer, bucketed

if TYPE_CHECKING:
    from yarnps.data import Rows

# The lowest int64: no hash bucket is negative, and an input with this feature id is refused.
BIAS = -(2**63)


class Inputs(NamedTuple):
    """What a model sees of some rows.

    Attributes
    ----------
    keys
        int64: each feature once.
    entries
        The rows' entries by the places of their features among the keys.
    """

    keys: Int64s
    entries: Entries


def some_rows() -> Rows:
    """Rows on which a program tries everything that it has compiled, before it asks for work."""
    from yarnps.data import Rows

    ones = np.ones(2, np.float32)
    return Rows(ones, np.array([0, 1, 2]), np.array([1, 2]), ones)


class FeatureMap:
    """Finds the distinct features of batches, by a job's parameters.

    Parameters
    ----------
    app
        The program, for messages.
    hash_buckets
        Ids are hashed into so many; None: they stay as they are.
    bias
        Whether the model has a constant term. Then its key is the first one of each batch, which
        no entry has.
    """

    def __init__(self, app: str, hash_buckets: int | None, bias: bool) -> None:
        self._app = app
        self._buckets = hash_buckets
        self.bias = bias
        self._unique = Uniquer()

    def __call__(self, rows: Rows) -> Inputs:
        """What the model sees of rows.

        Raises
        ------
        DataError
            A feature has the id that stands for the bias.
        """
        features = self.features(rows.keys)
        return Inputs(features.keys, Entries(rows.indptr, features.places, rows.values))

    def features(self, keys: Int64s) -> Features:
        """The distinct features of a batch.

        Raises
        ------
        DataError
            A feature has the id that stands for the bias.
        """
        if self._buckets is not None:
            keys = bucketed(keys, self._buckets)
        if not self.bias:
            return self._unique(keys)
        features = self._unique(keys, first=BIAS)
        if not features.places.all():
            raise DataError(
                f"feature id {BIAS} is in the input, and {self._app} keeps the constant term "
                "under it",
                "Give the feature another id, or set params.hash_buckets, or params.bias: false.",
            )
        return features


class Labels:
    """Checks labels of two classes: 1 is positive, and either 0 or -1 negative."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._negative: float | None = None

    def positive(self, labels: NDArray[np.float32], where: str) -> NDArray[np.bool_]:
        """Which rows are positive.

        Raises
        ------
        DataError
            A label is something else, or both 0 and -1 have occurred.
        """
        positive: NDArray[np.bool_] = labels == 1
        others = labels[~positive]
        if self._negative is None and len(others):
            self._negative = float(others[0])
        wrong = others[(others != self._negative) | ((others != 0) & (others != -1))]
        if not len(wrong):
            return positive
        if self._negative in (0, -1) and wrong[0] in (0, -1):
            raise DataError(
                f"labels 0 and -1 are both in the input: {where}",
                f"{self._app} learns two classes, labelled 0 and 1, or -1 and 1.",
            )
        raise DataError(
            f"{wrong[0]:g} is no label for {self._app}: {where}",
            "Labels must be 0 and 1, or -1 and 1. For a yes-or-no question, write its answer as 1 "
            "and 0.",
        )


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the positive class, from logits."""
    # Without overflow at either end: the exponential is at most 1.
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def log_loss(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Summed over the rows, from logits."""
    return float(np.logaddexp(0.0, np.where(positive, -scores, scores)).sum())
