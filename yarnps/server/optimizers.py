"""The optimizers' kernels: applied to rows of a sparse table and to ranges of a dense one.

A sparse row is ``[state 0 (dim numbers), state 1 (dim numbers), …]``; a dense table has one array
per state. State 0 is the weight, except for FTRL, where it is z and the weight follows from
(z, n). Gradients have as many columns as a row has weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from yarnps._kernels import inlined, jit
from yarnps.protocol.tables import Adagrad, Add, Ftrl, Optimizer, Sgd

Array = Any  # numpy arrays of the table's dtype


@jit
def _add_rows(values, rows, grads, scale):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        row, grad = values[rows[i]], grads[i]
        for j in range(grads.shape[1]):
            row[j] += scale * grad[j]


@jit
def _add_range(weights, grads, scale):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        weights[i] += scale * grads[i]


@jit
def _adagrad_rows(values, rows, grads, rate, epsilon):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = values[rows[i]], grads[i]
        for j in range(dim):
            g = grad[j]
            a = row[dim + j] + g * g
            row[dim + j] = a
            row[j] -= rate * g / (np.sqrt(a) + epsilon)


@jit
def _adagrad_range(weights, sums, grads, rate, epsilon):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        g = grads[i]
        a = sums[i] + g * g
        sums[i] = a
        weights[i] -= rate * g / (np.sqrt(a) + epsilon)


@inlined
def _ftrl_weight(z, n, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    """Without a branch: a weight with |z| <= l1 comes out as 0 over something positive."""
    size = max(abs(z) - l1, z * 0)
    return -np.copysign(size, z) / ((beta + np.sqrt(n)) * inverse_alpha + l2)


@jit
def _ftrl_rows(values, rows, grads, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    dim = grads.shape[1]
    for i in range(rows.shape[0]):
        row, grad = values[rows[i]], grads[i]
        for j in range(dim):
            g, z, n = grad[j], row[j], row[dim + j]
            w = _ftrl_weight(z, n, inverse_alpha, beta, l1, l2)
            m = n + g * g
            row[j] = z + g - (np.sqrt(m) - np.sqrt(n)) * inverse_alpha * w
            row[dim + j] = m


@jit
def _ftrl_range(zs, ns, grads, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    for i in range(grads.shape[0]):
        g, z, n = grads[i], zs[i], ns[i]
        w = _ftrl_weight(z, n, inverse_alpha, beta, l1, l2)
        m = n + g * g
        zs[i] = z + g - (np.sqrt(m) - np.sqrt(n)) * inverse_alpha * w
        ns[i] = m


@jit
def _gather(values, rows, out):  # type: ignore[no-untyped-def]
    dim = out.shape[1]
    if dim == 1:
        for i in range(rows.shape[0]):
            out[i, 0] = values[rows[i], 0]
    else:
        for i in range(rows.shape[0]):
            row, target = values[rows[i]], out[i]
            for j in range(dim):
                target[j] = row[j]


@jit
def _ftrl_gather(values, rows, out, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    dim = out.shape[1]
    for i in range(rows.shape[0]):
        row, target = values[rows[i]], out[i]
        for j in range(dim):
            target[j] = _ftrl_weight(row[j], row[dim + j], inverse_alpha, beta, l1, l2)


@jit
def _ftrl_read(zs, ns, out, inverse_alpha, beta, l1, l2):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = _ftrl_weight(zs[i], ns[i], inverse_alpha, beta, l1, l2)


class Kernels(ABC):
    """What a table needs of its optimizer. `weights_only`: state 0 is the weight."""

    states: int
    weights_only = True

    @abstractmethod
    def push_rows(self, values: Array, rows: Array, grads: Array) -> None:
        """Apply gradients to rows of a sparse table. No row twice."""

    @abstractmethod
    def push_range(self, states: Array, grads: Array) -> None:
        """Apply gradients to a range of a dense table: `states` is (number of states, n)."""

    def pull_rows(self, values: Array, rows: Array, out: Array) -> None:
        """Weights of rows."""
        _gather(values, rows, out)

    def pull_range(self, states: Array, out: Array) -> None:
        """Weights of a range."""
        out[:] = states[0]

    def states_of(self, weights: Array, out: Array) -> None:
        """Fill `out` (states, n) so that the weights are these: for assigned or initial values."""
        out[:] = 0
        out[0] = weights


class _Scaled(Kernels):
    """Add (scale 1) and SGD (scale -rate)."""

    states = 1

    def __init__(self, scale: float, dtype: Any) -> None:
        self._scale = dtype(scale)

    def push_rows(self, values: Array, rows: Array, grads: Array) -> None:
        _add_rows(values, rows, grads, self._scale)

    def push_range(self, states: Array, grads: Array) -> None:
        _add_range(states[0], grads, self._scale)


class _Adagrad(Kernels):
    states = 2

    def __init__(self, settings: Adagrad, dtype: Any) -> None:
        self._rate = dtype(settings.learning_rate)
        self._epsilon = dtype(settings.epsilon)
        self._initial = dtype(settings.initial)

    def push_rows(self, values: Array, rows: Array, grads: Array) -> None:
        _adagrad_rows(values, rows, grads, self._rate, self._epsilon)

    def push_range(self, states: Array, grads: Array) -> None:
        _adagrad_range(states[0], states[1], grads, self._rate, self._epsilon)

    def states_of(self, weights: Array, out: Array) -> None:
        out[0] = weights
        out[1] = self._initial


class _Ftrl(Kernels):
    states = 2
    weights_only = False

    def __init__(self, settings: Ftrl, dtype: Any) -> None:
        self._settings = (
            dtype(1 / settings.alpha),
            dtype(settings.beta),
            dtype(settings.l1),
            dtype(settings.l2),
        )

    def push_rows(self, values: Array, rows: Array, grads: Array) -> None:
        _ftrl_rows(values, rows, grads, *self._settings)

    def push_range(self, states: Array, grads: Array) -> None:
        _ftrl_range(states[0], states[1], grads, *self._settings)

    def pull_rows(self, values: Array, rows: Array, out: Array) -> None:
        _ftrl_gather(values, rows, out, *self._settings)

    def pull_range(self, states: Array, out: Array) -> None:
        _ftrl_read(states[0], states[1], out, *self._settings)

    def states_of(self, weights: Array, out: Array) -> None:
        """n = 0, and the z whose weight is this one."""
        inverse_alpha, beta, l1, l2 = self._settings
        out[0] = -weights * (beta * inverse_alpha + l2) - np.sign(weights) * l1
        out[1] = 0


def kernels_for(optimizer: Optimizer, dtype: str) -> Kernels:
    """The kernels of an optimizer for tables of a dtype."""
    kind = np.dtype(dtype).type
    if isinstance(optimizer, Ftrl):
        return _Ftrl(optimizer, kind)
    if isinstance(optimizer, Adagrad):
        return _Adagrad(optimizer, kind)
    if isinstance(optimizer, Sgd):
        return _Scaled(-optimizer.learning_rate, kind)
    if isinstance(optimizer, Add):
        return _Scaled(1.0, kind)
    raise TypeError(f"no kernels for {optimizer!r}")
