"""Factorization machines (Rendle, ICDM 2010), `app: fm`: regression, or two classes.

``y(x) = b + sum_i w_i x_i + sum_{i<j} <v_i, v_j> x_i x_j``. The table ``w`` holds the weights, and
the constant term under the key `BIAS`; the table ``v`` holds ``dim`` factors for each feature.

A batch pushes for each feature the *mean* of the gradients of its rows that have it. So a step
does not depend on how many rows of a batch share a feature, and a learning rate means the same
whatever the size of a batch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from yarnps.apps import _fm_kernel as kernel
from yarnps.apps._features import FeatureMap, Labels, log_loss, probabilities, some_rows
from yarnps.apps._fm_kernel import Gradients
from yarnps.apps._progress import Progress, where
from yarnps.apps._rows import Entries, Floats, Int64s
from yarnps.apps.metrics import binary_sums, squared_sums
from yarnps.protocol.tables import Adagrad, Ftrl, Normal, Optimizer, Sgd

if TYPE_CHECKING:
    from yarnps import Batch, Future, Job, SparseTable
    from yarnps.apps._features import Inputs
    from yarnps.apps._model_folder import ModelFolder
    from yarnps.data import Rows
    from yarnps.spec import FmParams

APP = "fm"
WEIGHTS, FACTORS = "w", "v"


class Parameters(NamedTuple):
    """What the model knows about a batch's features.

    Attributes
    ----------
    weights
        float32, shape (features,).
    factors
        float32, shape (features, dim). That of the bias is 0.
    """

    weights: Floats
    factors: Floats


class Model:
    """Scores and gradients, by the job's parameters."""

    def __init__(self, params: FmParams) -> None:
        self.inputs = FeatureMap(APP, params.hash_buckets, params.bias)
        self.regression = params.task == "regression"
        self._penalties = (params.l2, params.l2_factors)
        self._low = -np.inf if params.low is None else params.low
        self._high = np.inf if params.high is None else params.high

    @property
    def first(self) -> int:
        """The first feature of a batch that is not the bias."""
        return int(self.inputs.bias)

    def scores(
        self, entries: Entries, parameters: Parameters
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of the rows, and the sums that their gradients need."""
        found, sums = kernel.scores(entries, *parameters)
        if self.inputs.bias:
            found += parameters.weights[0]
        return found, sums

    def gradients(
        self,
        entries: Entries,
        parameters: Parameters,
        sums: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> Gradients:
        """What is pushed; `errors` are the derivatives of the loss by the scores."""
        found = kernel.gradients(entries, errors, *parameters, sums, self._penalties)
        if self.inputs.bias:
            found.weights[0] = errors.mean()
        return found

    def bounded(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions of a regression."""
        return np.clip(scores, self._low, self._high)


def optimizers(params: FmParams) -> tuple[Optimizer, Optimizer]:
    """What the servers do with the gradients of weights, and with those of factors."""
    rate = params.learning_rate
    if params.optimizer == "sgd":
        return Sgd(rate), Sgd(rate)
    # Factors that FTRL starts would be 0, where their gradients are 0, too.
    factors = Adagrad(rate)
    if params.optimizer == "adagrad":
        return factors, factors
    return Ftrl(alpha=rate, beta=params.beta, l1=params.l1), factors


class _Seen(NamedTuple):
    """What the model sees of a batch: `Inputs`, and the keys that have factors.

    Each array of keys is one and the same in all calls: so their order is found once.
    """

    keys: Int64s
    with_factors: Int64s
    entries: Entries


class _Pulled(NamedTuple):
    """Parameters that are on their way."""

    weights: Future
    factors: Floats
    inner: Floats  # those of `factors` that are pulled
    pulled: Future
    known: Future | None  # which features have been trained on

    def wait(self) -> Parameters:
        weights = self.weights.wait()
        self.pulled.wait()
        if self.known is not None:
            self.inner[self.known.wait() == 0] = 0
        return Parameters(weights, self.factors)


class _Tables:
    """The model on the servers."""

    def __init__(self, job: Job, params: FmParams, first: int) -> None:
        for_weights, for_factors = optimizers(params)
        self._dim = params.dim
        self._first = first
        # Pushes are gradients of a batch's summed loss: a BSP step's is the sum of its parts'.
        self._weights: SparseTable = job.sparse(WEIGHTS, optimizer=for_weights, combine="sum")
        self._factors: SparseTable = job.sparse(
            FACTORS,
            params.dim,
            optimizer=for_factors,
            init=Normal(params.init_std),
            combine="sum",
        )

    def arranged(self, inputs: Inputs) -> _Seen:
        """Find the order in which the keys travel."""
        seen = _Seen(inputs.keys, inputs.keys[self._first :], inputs.entries)
        self._weights.arrange(seen.keys)
        self._factors.arrange(seen.with_factors)
        return seen

    def pull(self, seen: _Seen, *, known_only: bool = False) -> _Pulled:
        """Ask for parameters of features; with `known_only`, factors never trained on are 0."""
        factors = np.zeros((len(seen.keys), self._dim), np.float32)
        inner = factors[self._first :]
        pulled = self._factors.pull(seen.with_factors, out=inner)
        known = self._factors.contains(seen.with_factors) if known_only else None
        return _Pulled(self._weights.pull(seen.keys), factors, inner, pulled, known)

    def pull_for(self, batch: Batch) -> _Pulled:
        """Ask for what a batch needs."""
        return self.pull(batch.ahead, known_only=batch.phase != "train")

    def push(self, seen: _Seen, gradients: Gradients) -> None:
        self._weights.push(seen.keys, gradients.weights, distinct=True)
        factors = self._shaped(gradients.factors[self._first :])
        self._factors.push(seen.with_factors, factors, distinct=True)

    def _shaped(self, rows: Floats) -> Floats:
        return rows[:, 0] if self._dim == 1 else rows


def train(job: Job) -> None:
    """Train until the job's input has ended; called in each worker."""
    # Checked and complete since the submission: the job model need not be loaded for it.
    params = cast("FmParams", SimpleNamespace(**job.params))
    model = Model(params)
    tables = _Tables(job, params, model.first)
    _try(model, tables)
    learn = (_Regression if model.regression else _Classes)(job, model)

    def ahead(rows: Rows) -> _Seen:
        return tables.arranged(model.inputs(rows))

    for batch in job.data(_Evaluation(model), ahead=ahead, pull=tables.pull_for):
        with batch:
            seen: _Seen = batch.ahead
            parameters = batch.pulled.wait()
            scores, sums = model.scores(seen.entries, parameters)
            errors = learn.errors(scores, batch)
            tables.push(seen, model.gradients(seen.entries, parameters, sums, errors))


def _try(model: Model, tables: _Tables) -> None:
    """Load what is compiled before work is asked for: with a lease in hand others would wait."""
    seen = tables.arranged(model.inputs(some_rows()))
    parameters = tables.pull(seen).wait()
    scores, sums = model.scores(seen.entries, parameters)
    model.gradients(seen.entries, parameters, sums, scores)


class _Regression:
    """Squared loss, half of it for each row."""

    def __init__(self, job: Job, model: Model) -> None:
        self._model = model
        self._progress = Progress(job, "train_rmse", root=True)

    def errors(self, scores: NDArray[np.float64], batch: Batch) -> NDArray[np.float64]:
        """Derivatives of the loss by the scores."""
        found = scores - batch.labels
        missed = self._model.bounded(scores) - batch.labels
        self._progress.add(float((missed * missed).sum()), batch.rows)
        return found


class _Classes:
    """Log loss of two classes."""

    def __init__(self, job: Job, _model: Model) -> None:
        self._labels = Labels(APP)
        self._progress = Progress(job, "train_logloss")

    def errors(self, scores: NDArray[np.float64], batch: Batch) -> NDArray[np.float64]:
        """Derivatives of the loss by the scores."""
        positive = self._labels.positive(batch.labels, where(batch))
        self._progress.add(log_loss(scores, positive), batch.rows)
        return probabilities(scores) - positive


class _Evaluation:
    """Metrics of a test batch. With labels of its own: a test set may be labelled otherwise."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._labels = Labels(APP)

    def __call__(self, batch: Batch) -> dict[str, NDArray[np.float64]]:
        scores, _ = self._model.scores(batch.ahead.entries, batch.pulled.wait())
        if self._model.regression:
            return squared_sums(self._model.bounded(scores), batch.labels)
        return binary_sums(scores, self._labels.positive(batch.labels, where(batch)))


class Scorer:
    """Predictions of a model that a job has written."""

    def __init__(self, folder: ModelFolder, params: FmParams) -> None:
        self._model = Model(params)
        self.regression = self._model.regression
        self._weights, self._factors = folder.weights(WEIGHTS), folder.weights(FACTORS)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Logits, or the predictions of a regression."""
        keys, entries = self._model.inputs(rows)
        factors = self._factors.of(keys).reshape(len(keys), -1)
        parameters = Parameters(self._weights.of(keys), factors)
        scores, _ = self._model.scores(entries, parameters)
        return self._model.bounded(scores) if self.regression else scores
