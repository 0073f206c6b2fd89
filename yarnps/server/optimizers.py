"""An optimizer as a table uses it: pure functions of (states, gradient, when).

A gradient may be of one push or the sum of a step's parts: the caller adds, these apply once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from yarnps.protocol.optimizers import (
    Adagrad,
    Adam,
    AdamW,
    Add,
    Ftrl,
    Optimizer,
    RmsProp,
    Sgd,
    rate_at,
)
from yarnps.server import updates

Array = Any  # numpy arrays of the table's dtype; rows are addresses (int64)


class When(NamedTuple):
    """What an update depends on besides states and gradient.

    Attributes
    ----------
    clock
        For the learning rate's schedule.
    step
        The number of this update of the shard, from 1.
    """

    clock: int = 0
    step: int = 1


class Kernels(ABC):
    """What a table needs of its optimizer.

    Attributes
    ----------
    has_weights
        State 0 is the weight: nothing has to be computed for a pull.
    """

    has_weights = True

    def __init__(self, optimizer: Optimizer, dtype: Any) -> None:
        self.states = optimizer.states
        self.counts_steps = optimizer.counts_steps
        self._dtype = dtype

    @abstractmethod
    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        """Apply gradients to rows of a sparse table. No row twice."""

    @abstractmethod
    def push_range(self, states: Array, grads: Array, when: When) -> None:
        """Apply gradients to a range of a dense table: `states` is (number of states, n)."""

    def pull_rows(self, rows: Array, out: Array) -> None:
        """Weights of rows."""
        updates.gather(rows, out)

    def pull_range(self, states: Array, out: Array) -> None:
        """Weights of a range."""
        out[:] = states[0]

    def states_of(self, weights: Array, out: Array) -> None:
        """Fill `out` (states, …) so that the weights are these: for assigned or initial values."""
        out[:] = 0
        out[0] = weights

    def set_weights(self, states: Array, weights: Array) -> None:
        """Change the weights of `states` (states, …) in place; the rest of the state stays."""
        states[0] = weights

    def _cast(self, *numbers: float) -> tuple[Any, ...]:
        """In the table's dtype: a float64 among float32 numbers would widen the whole kernel."""
        return tuple(self._dtype(number) for number in numbers)


class _Add(Kernels):
    def __init__(self, settings: Add, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._one = dtype(1)

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        updates.add_rows(rows, grads, self._one)

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        updates.add_range(states[0], grads, *self._cast(1.0))


class _Sgd(Kernels):
    """Without momentum."""

    def __init__(self, settings: Sgd, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._rate = settings.learning_rate
        self._decay = settings.weight_decay

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        rate = rate_at(self._rate, when.clock)
        if self._decay:
            updates.decay_rows(rows, grads, *self._cast(rate, self._decay))
        else:
            updates.add_rows(rows, grads, *self._cast(-rate))

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        rate = rate_at(self._rate, when.clock)
        if self._decay:
            updates.decay_range(states[0], grads, *self._cast(rate, self._decay))
        else:
            updates.add_range(states[0], grads, *self._cast(-rate))


class _Momentum(Kernels):
    def __init__(self, settings: Sgd, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._rate = settings.learning_rate
        mu = settings.momentum
        of_g, of_m = (1.0, mu) if settings.nesterov else (0.0, 1.0)
        self._settings = self._cast(mu, settings.weight_decay, of_g, of_m)

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        rate = self._cast(rate_at(self._rate, when.clock))
        updates.momentum_rows(rows, grads, *rate, *self._settings)

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        rate = self._cast(rate_at(self._rate, when.clock))
        updates.momentum_range(states[0], states[1], grads, *rate, *self._settings)


class _Scaled(Kernels):
    """Adagrad and RMSProp."""

    def __init__(self, settings: Adagrad | RmsProp, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._rate = settings.learning_rate
        if isinstance(settings, RmsProp):
            keep, take, self._initial = settings.decay, 1 - settings.decay, dtype(0)
        else:
            keep, take, self._initial = 1.0, 1.0, dtype(settings.initial)
        self._settings = self._cast(settings.epsilon, keep, take)

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        rate = self._cast(rate_at(self._rate, when.clock))
        updates.scaled_rows(rows, grads, *rate, *self._settings)

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        rate = self._cast(rate_at(self._rate, when.clock))
        updates.scaled_range(states[0], states[1], grads, *rate, *self._settings)

    def states_of(self, weights: Array, out: Array) -> None:
        out[0] = weights
        out[1] = self._initial


class _Adam(Kernels):
    """Adam and AdamW. Sparse and dense put epsilon in different places, see `protocol`."""

    def __init__(self, settings: Adam, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._betas = settings.beta1, settings.beta2
        self._rate = settings.learning_rate
        self._epsilon = settings.epsilon
        self._decay = settings.weight_decay if isinstance(settings, AdamW) else 0.0
        self._takes = self._cast(1 - settings.beta1, 1 - settings.beta2)

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        rate, scale, _ = self._rates(when)
        updates.adam_rows(
            rows,
            grads,
            *self._cast(scale, self._epsilon),
            *self._takes,
            *self._cast(rate * self._decay),
        )

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        rate, scale, root = self._rates(when)
        updates.adam_range(
            states[0],
            states[1],
            states[2],
            grads,
            *self._cast(scale, self._epsilon * root),
            *self._takes,
            *self._cast(rate * self._decay),
        )

    def _rates(self, when: When) -> tuple[float, float, float]:
        """The learning rate, the same with the step's corrections, and sqrt(c2)."""
        rate = rate_at(self._rate, when.clock)
        c1, c2 = (1 - beta**when.step for beta in self._betas)
        return rate, rate * math.sqrt(c2) / c1, math.sqrt(c2)


class _Ftrl(Kernels):
    has_weights = False

    def __init__(self, settings: Ftrl, dtype: Any) -> None:
        super().__init__(settings, dtype)
        self._settings = self._cast(1 / settings.alpha, settings.beta, settings.l1, settings.l2)

    def push_rows(self, rows: Array, grads: Array, when: When) -> None:
        updates.ftrl_rows(rows, grads, *self._settings)

    def push_range(self, states: Array, grads: Array, when: When) -> None:
        updates.ftrl_range(states[0], states[1], grads, *self._settings)

    def pull_rows(self, rows: Array, out: Array) -> None:
        updates.ftrl_gather(rows, out, *self._settings)

    def pull_range(self, states: Array, out: Array) -> None:
        updates.ftrl_read(states[0], states[1], out, *self._settings)

    def states_of(self, weights: Array, out: Array) -> None:
        """n = 0, and the z whose weight is this one."""
        out[1] = 0
        out[0] = self._z_of(weights, out[1])

    def set_weights(self, states: Array, weights: Array) -> None:
        """The z that gives this weight at the n that there is; a 0 that stays 0 keeps its z."""
        l1 = self._settings[2]
        still = (weights == 0) & (np.abs(states[0]) <= l1)
        states[0] = np.where(still, states[0], self._z_of(weights, states[1]))

    def _z_of(self, weights: Array, n: Array) -> Array:
        inverse_alpha, beta, l1, l2 = self._settings
        return -weights * ((beta + np.sqrt(n)) * inverse_alpha + l2) - np.sign(weights) * l1


def kernels_for(optimizer: Optimizer, dtype: str) -> Kernels:
    """The kernels of an optimizer for tables of a dtype."""
    kind = np.dtype(dtype).type
    if isinstance(optimizer, Ftrl):
        return _Ftrl(optimizer, kind)
    if isinstance(optimizer, (Adagrad, RmsProp)):
        return _Scaled(optimizer, kind)
    if isinstance(optimizer, Adam):
        return _Adam(optimizer, kind)
    if isinstance(optimizer, Sgd):
        return (_Momentum if optimizer.momentum else _Sgd)(optimizer, kind)
    if isinstance(optimizer, Add):
        return _Add(optimizer, kind)
    raise TypeError(f"no kernels for {optimizer!r}")
