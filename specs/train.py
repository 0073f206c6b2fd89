"""A program of your own: a factorization machine (Rendle 2010) on yarnps' public API.

`specs/own_program.yaml` runs this file in each worker. A factorization machine is a linear model
whose features have short vectors, too; the dot product of two features' vectors is the weight of
their appearing together::

    score(x) = bias + Σ w_i x_i + Σ_{i<j} <v_i, v_j> x_i x_j

Read it from `main` on. What yarnps does for you: it deals the input out in batches, over all
epochs and workers; it keeps the tables on the servers, far more of them than one machine could
hold; and whoever dies on the way, every batch changes the tables exactly once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import yarnps

Array = NDArray[np.float64]


def main() -> None:
    """Train; the servers write the model when the last epoch is over."""
    # The job that this process is a worker of. `params` is what the job file says there; `rank`,
    # `workers` and `seed` are known, too.
    job = yarnps.connect()
    dim, rate = int(job.params["dim"]), float(job.params["learning_rate"])

    # Tables are on the servers. A sparse one has a row per key; rows come into being when they are
    # first pushed. A dense one is an array. The optimizer says what a pushed gradient does.
    tables = Tables(
        bias=job.dense("bias", shape=1, optimizer=yarnps.Adagrad(rate)),
        w=job.sparse("w", optimizer=yarnps.Adagrad(rate)),
        # All vectors 0 would stay 0. A row's first values depend on its key and the job's seed,
        # so every worker sees the same ones.
        v=job.sparse("v", dim=dim, optimizer=yarnps.Adagrad(rate), init=yarnps.Normal(0.01)),
    )

    # Batches of all epochs. After each epoch the workers go through the test input together, with
    # the function given as `evaluate`, while nothing changes the tables.
    for batch in job.data(evaluate=lambda batch: evaluate(tables, batch)):
        # Leaving the block commits the batch: all its pushes are on the servers, or none counts.
        with batch:
            machine = Machine(tables, batch)
            machine.push(tables)
            if batch.index % 10 == 0:
                job.report(train_loss=machine.loss)  # a curve on the web page, and in `status`


def evaluate(tables: Tables, batch: yarnps.Batch) -> dict[str, list[float]]:
    """Sums over one batch of the test input; yarnps adds them up over all of it.

    [sum, weight] becomes a metric, sum / weight: here `test_logloss` and `test_accuracy`.
    """
    machine = Machine(tables, batch)
    right = np.sum((machine.scores > 0) == machine.positive)
    return {
        "logloss": [machine.loss * batch.rows, batch.rows],
        "accuracy": [float(right), batch.rows],
    }


class Tables:
    """The three tables of the model."""

    def __init__(
        self, bias: yarnps.DenseTable, w: yarnps.SparseTable, v: yarnps.SparseTable
    ) -> None:
        self.bias = bias
        self.w = w
        self.v = v


class Machine:
    """The model as one batch sees it: its scores, and how it should change.

    A batch is a sparse matrix in CSR form: row r has the features `keys[indptr[r]:indptr[r + 1]]`
    with the `values` of the same places. `labels` has a number per row.
    """

    def __init__(self, tables: Tables, batch: yarnps.Batch) -> None:
        # Each feature once: it is pulled once, and its gradient is pushed as one sum.
        self.keys, self.places = np.unique(batch.keys, return_inverse=True)
        # A pull returns at once with a future; so these three travel at the same time.
        pulls = tables.bias.pull(), tables.w.pull(self.keys), tables.v.pull(self.keys)
        bias, w, v = (pull.wait() for pull in pulls)

        self.rows = np.repeat(np.arange(batch.rows), np.diff(batch.indptr))  # of each entry
        self.values = batch.values.astype(np.float64)
        self.vectors = v[self.places] * self.values[:, None]
        self.sums = self.per_row(self.vectors, batch.rows)
        linear = self.per_row((w[self.places] * self.values)[:, None], batch.rows)[:, 0]
        squares = self.per_row(self.vectors**2, batch.rows)
        self.scores = bias[0] + linear + 0.5 * (self.sums**2 - squares).sum(axis=1)
        self.positive = batch.labels > 0
        signed = np.where(self.positive, self.scores, -self.scores)
        self.loss = float(np.logaddexp(0, -signed).mean())

    def push(self, tables: Tables) -> None:
        """Send the gradient of the log loss, summed over the batch. Nobody needs to wait."""
        errors = 1 / (1 + np.exp(-self.scores)) - self.positive
        each = errors[self.rows] * self.values
        tables.bias.push([errors.sum()])
        tables.w.push(self.keys, self.per_key(each[:, None])[:, 0])
        others = self.sums[self.rows] - self.vectors
        tables.v.push(self.keys, self.per_key(each[:, None] * others))

    def per_row(self, entries: Array, rows: int) -> Array:
        """Sum the entries of each row."""
        return summed(self.rows, entries, rows)

    def per_key(self, entries: Array) -> Array:
        """Sum the entries of each feature."""
        return summed(self.places, entries, len(self.keys))


def summed(groups: NDArray[np.int64], entries: Array, count: int) -> Array:
    """Sum the rows of `entries` by their group, a number below `count`."""
    columns = [np.bincount(groups, weights=column, minlength=count) for column in entries.T]
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    main()
