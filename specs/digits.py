"""A program of your own: a network of two layers in plain numpy, trained in step by all workers.

`specs/digits.yaml` runs this file in each worker. The weights are dense tables on the servers.
Every batch is a part of a step: the worker pulls the weights, computes the gradient of its rows'
mean loss and pushes it; the servers average the parts' gradients, weighted by rows, and make one
step of the optimizer. So the training is the one that a single process would do with the union of
the parts, whatever the number of workers and servers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import yarnps

PIXELS, DIGITS = 64, 10

Array = NDArray[np.float64]


class Weights(NamedTuple):
    """The network: pixels → hidden units → one score for each digit."""

    hidden: Array  # (pixels, units)
    hidden_bias: Array  # (units,)
    scores: Array  # (units, digits)
    scores_bias: Array  # (digits,)


def main() -> None:
    """Train; after each epoch the workers evaluate the network on the test images."""
    job = yarnps.connect()
    units, optimizer = int(job.params["units"]), yarnps.Sgd(float(job.params["learning_rate"]))
    tables = [
        job.dense(name, shape, "float64", optimizer=optimizer, init=init)
        for name, shape, init in (
            ("hidden", (PIXELS, units), yarnps.Normal(0.15)),
            ("hidden_bias", (units,), yarnps.Zeros()),
            ("scores", (units, DIGITS), yarnps.Normal(0.25)),
            ("scores_bias", (DIGITS,), yarnps.Zeros()),
        )
    ]

    def pulled() -> Weights:
        pulls = [table.pull() for table in tables]  # all under way at the same time
        return Weights(*(pull.wait() for pull in pulls))

    def evaluate(batch: yarnps.Batch) -> dict[str, list[float]]:
        probabilities = forward(pulled(), images(batch))[1]
        labels = batch.labels.astype(int)
        right = np.sum(probabilities.argmax(axis=1) == labels)
        losses = -np.log(probabilities[np.arange(batch.rows), labels])
        return {
            "loss": [float(losses.sum()), batch.rows],
            "accuracy": [float(right), batch.rows],
        }

    for batch in job.data(evaluate=evaluate):
        with batch:
            gradients = backward(pulled(), images(batch), batch.labels.astype(int))
            for table, gradient in zip(tables, gradients, strict=True):
                table.push(gradient)


def images(batch: yarnps.Batch) -> Array:
    """The batch's rows as a matrix, one image a row."""
    rows = np.repeat(np.arange(batch.rows), np.diff(batch.indptr))
    pixels = np.zeros((batch.rows, PIXELS))
    pixels[rows, batch.keys] = batch.values
    return pixels


def forward(weights: Weights, pixels: Array) -> tuple[Array, Array]:
    """The hidden units' outputs, and each digit's probability."""
    hidden = np.tanh(pixels @ weights.hidden + weights.hidden_bias)
    scores = hidden @ weights.scores + weights.scores_bias
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def backward(weights: Weights, pixels: Array, labels: NDArray[np.int64]) -> Weights:
    """The gradient of the rows' mean cross-entropy."""
    hidden, errors = forward(weights, pixels)
    errors[np.arange(len(labels)), labels] -= 1
    errors /= len(labels)
    back = (errors @ weights.scores.T) * (1 - hidden**2)
    return Weights(pixels.T @ back, back.sum(axis=0), hidden.T @ errors, errors.sum(axis=0))


if __name__ == "__main__":
    main()
