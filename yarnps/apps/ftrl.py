"""Logistic regression by FTRL-proximal (McMahan et al., KDD 2013), `app: ftrl`.

The table ``w`` holds one weight per feature, and the constant term under the key `BIAS`. Feature
ids are the keys as they are, or hashed into ``hash_buckets`` buckets.

A batch pushes the *sum* of its rows' gradients, not their mean. So a feature that is in one row of
a batch learns as much from it as in the paper, where rows come one at a time, and `alpha` means
the same whatever the size of a batch; frequent features cannot run away, because a step of
FTRL is never much longer than `alpha`.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.apps._rows import Features, Int64s, Uniquer, bucketed, gradient, logits
from yarnps.apps.metrics import binary_sums
from yarnps.protocol.tables import Ftrl

if TYPE_CHECKING:
    from yarnps import Batch, Job, SparseTable
    from yarnps.spec import FtrlParams

TABLE = "w"
# The lowest int64: no hash bucket is negative, and an input with this feature id is refused.
BIAS = -(2**63)
REPORT_S = 2.0


class Inputs(NamedTuple):
    """What the model sees of some rows.

    Attributes
    ----------
    features
        With a bias its key is the first one, which no entry has.
    bias
        Whether there is one.
    """

    features: Features
    bias: bool

    def logits(
        self, indptr: Int64s, values: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Scores of the rows; `weights` are those of ``features.keys``."""
        scores = logits(indptr, self.features.places, values, weights)
        return scores + weights[0] if self.bias else scores

    def gradient(
        self, indptr: Int64s, values: NDArray[np.float32], errors: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Gradient of the rows' summed log loss, for ``features.keys``."""
        count = len(self.features.keys)
        found = gradient(indptr, self.features.places, values, errors, count)
        if self.bias:
            found[0] = errors.sum()
        return found


class Model:
    """How rows become features, by the job's parameters: the same in training and prediction."""

    def __init__(self, params: FtrlParams) -> None:
        self._buckets = params.hash_buckets
        self._bias = params.bias
        self._unique = Uniquer()

    def inputs(self, keys: Int64s) -> Inputs:
        """The distinct features of a batch.

        Raises
        ------
        DataError
            A feature has the id that stands for the bias.
        """
        if self._buckets is not None:
            keys = bucketed(keys, self._buckets)
        if not self._bias:
            return Inputs(self._unique(keys), False)
        features = self._unique(keys, first=BIAS)
        if not features.places.all():
            raise DataError(
                f"feature id {BIAS} is in the input, and ftrl keeps the constant term under it",
                "Give the feature another id, or set params.hash_buckets, or params.bias: false.",
            )
        return Inputs(features, True)


class Labels:
    """Checks labels: 1 is positive, and either 0 or -1 negative."""

    def __init__(self) -> None:
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
                "ftrl learns two classes, labelled 0 and 1, or -1 and 1.",
            )
        raise DataError(
            f"{wrong[0]:g} is no label for ftrl: {where}",
            "Labels must be 0 and 1, or -1 and 1. For a yes-or-no question, write its answer as 1 "
            "and 0.",
        )


def optimizer(params: FtrlParams) -> Ftrl:
    """What the servers do with the gradients."""
    return Ftrl(alpha=params.alpha, beta=params.beta, l1=params.l1, l2=params.l2)


def train(job: Job) -> None:
    """Train until the job's input has ended; called in each worker."""
    # Checked and complete since the submission: the job model need not be loaded for it.
    params = cast("FtrlParams", SimpleNamespace(**job.params))
    table = job.sparse(TABLE, optimizer=optimizer(params))
    model, labels = Model(params), Labels()
    progress = _Progress(job)
    for batch in job.data(evaluate=_Evaluation(table, model)):
        with batch:
            positive = labels.positive(batch.labels, _where(batch))
            inputs = model.inputs(batch.keys)
            weights = table.pull(inputs.features.keys).wait()
            scores = inputs.logits(batch.indptr, batch.values, weights)
            errors = probabilities(scores) - positive
            gradient = inputs.gradient(batch.indptr, batch.values, errors)
            table.push(inputs.features.keys, gradient, distinct=True)
            progress.add(scores, positive)


class _Evaluation:
    """Metrics of a test batch. With labels of its own: a test set may be labelled otherwise."""

    def __init__(self, table: SparseTable, model: Model) -> None:
        self._table = table
        self._model = model
        self._labels = Labels()

    def __call__(self, batch: Batch) -> dict[str, NDArray[np.float64]]:
        positive = self._labels.positive(batch.labels, _where(batch))
        inputs = self._model.inputs(batch.keys)
        weights = self._table.pull(inputs.features.keys).wait()
        return binary_sums(inputs.logits(batch.indptr, batch.values, weights), positive)


class _Progress:
    """Log loss of batches as they are before being learned from, reported now and then."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next = time.monotonic() + REPORT_S
        self._loss = 0.0
        self._rows = 0

    def add(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> None:
        self._loss += float(np.logaddexp(0.0, np.where(positive, -scores, scores)).sum())
        self._rows += len(scores)
        now = time.monotonic()
        if now >= self._next and self._rows:
            self._job.report(train_logloss=self._loss / self._rows)
            self._next, self._loss, self._rows = now + REPORT_S, 0.0, 0


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the positive class, from logits."""
    # Without overflow at either end: the exponential is at most 1.
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def _where(batch: Batch) -> str:
    return f"split {batch.split}, batch {batch.index} of the {batch.phase} input"
