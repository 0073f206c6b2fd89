"""Logistic regression by FTRL-proximal (McMahan et al., KDD 2013), `app: ftrl`.

The table ``w`` holds one weight per feature, and the constant term under the key `BIAS`. Feature
ids are the keys as they are, or hashed into ``hash_buckets`` buckets.

A batch pushes the *sum* of its rows' gradients, not their mean. So a feature that is in one row of
a batch learns as much from it as in the paper, where rows come one at a time, and `alpha` means
the same whatever the size of a batch; frequent features cannot run away, because a step of
FTRL is never much longer than `alpha`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from yarnps.apps._features import FeatureMap, Labels, log_loss, probabilities, some_rows
from yarnps.apps._progress import Progress, where
from yarnps.apps._rows import Entries, gradient, logits
from yarnps.apps.metrics import binary_sums
from yarnps.protocol.tables import Ftrl

if TYPE_CHECKING:
    from yarnps import Batch, Future, Job, SparseTable
    from yarnps.apps._features import Inputs
    from yarnps.apps._model_folder import ModelFolder
    from yarnps.data import Rows
    from yarnps.spec import FtrlParams

APP = "ftrl"
TABLE = "w"


class Model:
    """Scores and gradients, by the job's parameters."""

    def __init__(self, params: FtrlParams) -> None:
        self.inputs = FeatureMap(APP, params.hash_buckets, params.bias)

    def scores(self, entries: Entries, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logits of the rows; `weights` are those of the batch's features."""
        found = logits(entries, weights)
        return found + weights[0] if self.inputs.bias else found

    def gradient(
        self, entries: Entries, errors: NDArray[np.float64], count: int
    ) -> NDArray[np.float32]:
        """Gradient of the rows' summed log loss, for the batch's `count` features."""
        found = gradient(entries, errors, count)
        if self.inputs.bias:
            found[0] = errors.sum()
        return found


def optimizer(params: FtrlParams) -> Ftrl:
    """What the servers do with the gradients."""
    return Ftrl(alpha=params.alpha, beta=params.beta, l1=params.l1, l2=params.l2)


def train(job: Job) -> None:
    """Train until the job's input has ended; called in each worker."""
    # Checked and complete since the submission: the job model need not be loaded for it.
    params = cast("FtrlParams", SimpleNamespace(**job.params))
    # A push is the gradient of a batch's summed loss, so a BSP step's is the sum of its parts'.
    table = job.sparse(
        TABLE,
        optimizer=optimizer(params),
        admit=params.admit,
        when_full=params.when_full,
        combine="sum",
    )
    model, labels = Model(params), Labels(APP)
    _try(model, table)
    progress = Progress(job, "train_logloss")

    def ahead(rows: Rows) -> Inputs:
        inputs = model.inputs(rows)
        table.arrange(inputs.keys)
        return inputs

    def pull(batch: Batch) -> Future:
        keys, _ = batch.ahead
        return table.pull(keys)

    for batch in job.data(_Evaluation(model), ahead=ahead, pull=pull):
        with batch:
            positive = labels.positive(batch.labels, where(batch))
            keys, entries = batch.ahead
            scores = model.scores(entries, batch.pulled.wait())
            found = model.gradient(entries, probabilities(scores) - positive, len(keys))
            table.push(keys, found, distinct=True)
            progress.add(log_loss(scores, positive), batch.rows)


def _try(model: Model, table: SparseTable) -> None:
    """Load what is compiled before work is asked for: with a lease in hand others would wait."""
    keys, entries = model.inputs(some_rows())
    scores = model.scores(entries, table.pull(keys).wait())
    model.gradient(entries, probabilities(scores), len(keys))


class _Evaluation:
    """Metrics of a test batch. With labels of its own: a test set may be labelled otherwise."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._labels = Labels(APP)

    def __call__(self, batch: Batch) -> dict[str, NDArray[np.float64]]:
        positive = self._labels.positive(batch.labels, where(batch))
        _, entries = batch.ahead
        scores = self._model.scores(entries, batch.pulled.wait())
        return binary_sums(scores, positive)


class Scorer:
    """Predictions of a model that a job has written."""

    regression = False

    def __init__(self, folder: ModelFolder, params: FtrlParams) -> None:
        self._model = Model(params)
        self._weights = folder.weights(TABLE)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Logits of rows."""
        keys, entries = self._model.inputs(rows)
        return self._model.scores(entries, self._weights.of(keys))
