"""The optimizers' formulas in numpy, written from their sources and not from the kernels.

Each takes the gradients of all steps, (steps, n), and says what the weights are after each of
them: (steps, n), from `start`. Dense: as Optax has them. Sparse Adam: as PyTorch's SparseAdam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from yarnps.protocol.optimizers import Adagrad, Adam, AdamW, Ftrl, RmsProp, Sgd, rate_at


def trajectory(start: Any, grads: Any, update: Callable[[Any, Any, int], Any]) -> Any:
    """`update` takes (weights, gradient, number of the step from 1)."""
    weights, found = np.array(start, float), []
    for number, grad in enumerate(grads, 1):
        weights = update(weights, grad, number)
        found.append(weights)
    return np.array(found)


def add(grads: Any, _: Any, start: Any) -> Any:
    return trajectory(start, grads, lambda w, g, t: w + g)


def sgd(grads: Any, o: Sgd, start: Any) -> Any:
    """chain(add_decayed_weights(decay), sgd(rate, momentum, nesterov))."""
    trace = np.zeros_like(start)

    def update(w: Any, g: Any, t: int) -> Any:
        nonlocal trace
        g = g + o.weight_decay * w
        trace = g + o.momentum * trace
        step = g + o.momentum * trace if o.nesterov else trace
        return w - rate_at(o.learning_rate, t - 1) * step

    return trajectory(start, grads, update)


def adagrad(grads: Any, o: Adagrad, start: Any) -> Any:
    sums = np.full_like(start, o.initial)

    def update(w: Any, g: Any, t: int) -> Any:
        nonlocal sums
        sums = sums + g**2
        return w - rate_at(o.learning_rate, t - 1) * g / (np.sqrt(sums) + o.epsilon)

    return trajectory(start, grads, update)


def rmsprop(grads: Any, o: RmsProp, start: Any) -> Any:
    """rmsprop(rate, decay, eps, eps_in_sqrt=False)."""
    mean = np.zeros_like(start)

    def update(w: Any, g: Any, t: int) -> Any:
        nonlocal mean
        mean = o.decay * mean + (1 - o.decay) * g**2
        return w - rate_at(o.learning_rate, t - 1) * g / (np.sqrt(mean) + o.epsilon)

    return trajectory(start, grads, update)


def adam(grads: Any, o: Adam, start: Any) -> Any:
    """adam and adamw: the moments are corrected before epsilon is added."""
    mu, nu = np.zeros_like(start), np.zeros_like(start)
    decay = o.weight_decay if isinstance(o, AdamW) else 0.0

    def update(w: Any, g: Any, t: int) -> Any:
        nonlocal mu, nu
        mu = o.beta1 * mu + (1 - o.beta1) * g
        nu = o.beta2 * nu + (1 - o.beta2) * g**2
        mu_hat, nu_hat = mu / (1 - o.beta1**t), nu / (1 - o.beta2**t)
        step = mu_hat / (np.sqrt(nu_hat) + o.epsilon) + decay * w
        return w - rate_at(o.learning_rate, t - 1) * step

    return trajectory(start, grads, update)


def ftrl(grads: Any, o: Ftrl, start: Any) -> Any:
    """McMahan et al. 2013, algorithm 1, as it is printed there. It starts at 0."""
    z, n = np.zeros_like(start), np.zeros_like(start)

    def weights() -> Any:
        free = (np.sign(z) * o.l1 - z) / ((o.beta + np.sqrt(n)) / o.alpha + o.l2)
        return np.where(np.abs(z) <= o.l1, 0.0, free)

    def update(w: Any, g: Any, t: int) -> Any:
        nonlocal z, n
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / o.alpha
        z = z + g - sigma * w
        n = n + g * g
        return weights()

    return trajectory(np.zeros_like(start), grads, update)


def sparse_adam(grads: Any, touched: Any, o: Adam, start: Any) -> Any:
    """torch.optim.SparseAdam: the step is everybody's, the rest is the touched rows' only.

    `touched` is (steps, rows), gradients (steps, rows, dim). AdamW's decay is on touch.
    """
    w = np.array(start, float)
    mu, nu = np.zeros_like(w), np.zeros_like(w)
    decay = o.weight_decay if isinstance(o, AdamW) else 0.0
    found = []
    for t, (g, rows) in enumerate(zip(grads, touched, strict=True), 1):
        rate = rate_at(o.learning_rate, t - 1)
        mu[rows] += (g[rows] - mu[rows]) * (1 - o.beta1)
        nu[rows] += (g[rows] ** 2 - nu[rows]) * (1 - o.beta2)
        size = rate * np.sqrt(1 - o.beta2**t) / (1 - o.beta1**t)
        old = w[rows]
        w[rows] = old - size * mu[rows] / (np.sqrt(nu[rows]) + o.epsilon) - rate * decay * old
        found.append(w.copy())
    return np.array(found)
