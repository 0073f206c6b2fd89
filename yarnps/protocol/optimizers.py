"""What the servers do with gradients: optimizers, learning-rate schedules, clipping.

Standard library only: a user's program names these before anything heavy is imported.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from yarnps._errors import InputError


def check(condition: bool, what: str, remedy: str) -> None:
    """Refuse settings that cannot work."""
    if not condition:
        raise InputError(what, remedy)


# ---------------------------------------------------------------------- schedules


@dataclass(frozen=True)
class Schedule(ABC):
    """A learning rate that depends on the clock c. Use one of the classes derived from this.

    The clock is that of the push: the number of batches that its worker has begun (BSP: the
    number of steps). A push outside ``data()`` counts as made at the highest clock that its
    server has seen.
    """

    name: ClassVar[str]

    @abstractmethod
    def at(self, clock: int) -> float:
        """The learning rate at a clock."""


@dataclass(frozen=True)
class _Decay(Schedule):
    """What gets smaller by a factor, again and again."""

    start: float
    every: int
    factor: float

    def __post_init__(self) -> None:
        check(
            self.start > 0 and self.every >= 1 and 0 < self.factor <= 1,
            f"{self!r} is not a schedule",
            "give start above 0, every at least 1, and factor in (0, 1]",
        )


@dataclass(frozen=True)
class StepDecay(_Decay):
    """``start * factor ** floor(c / every)``."""

    factor: float = 0.1
    name = "step_decay"

    def at(self, clock: int) -> float:
        return self.start * self.factor ** (clock // self.every)


@dataclass(frozen=True)
class ExponentialDecay(_Decay):
    """``start * factor ** (c / every)``."""

    factor: float = 0.5
    name = "exponential_decay"

    def at(self, clock: int) -> float:
        return float(self.start * self.factor ** (clock / self.every))


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """``end + (start - end) * (1 + cos(pi * min(c / steps, 1))) / 2``."""

    start: float
    steps: int
    end: float = 0.0
    name = "cosine_decay"

    def __post_init__(self) -> None:
        check(
            self.start > 0 and self.steps >= 1 and 0 <= self.end <= self.start,
            f"{self!r} is not a schedule",
            "give start above 0, steps at least 1, and end in [0, start]",
        )

    def at(self, clock: int) -> float:
        share = min(clock / self.steps, 1.0)
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class WarmUp(Schedule):
    """From ``start`` to a learning rate in ``steps`` batches, then that one.

    ``start + (r(0) - start) * c / steps`` while c < steps, then ``r(c - steps)``, where r is
    `then`: a number or another schedule.
    """

    then: float | Schedule
    steps: int
    start: float = 0.0
    name = "warm_up"

    def __post_init__(self) -> None:
        check(
            self.steps >= 1 and self.start >= 0,
            f"{self!r} is not a schedule",
            "give steps at least 1, and start at least 0",
        )
        check_rate(self.then, self)

    def at(self, clock: int) -> float:
        if clock >= self.steps:
            return rate_at(self.then, clock - self.steps)
        return self.start + (rate_at(self.then, 0) - self.start) * clock / self.steps


Rate = float | Schedule


def rate_at(rate: Rate, clock: int) -> float:
    """The learning rate at a clock."""
    return rate.at(clock) if isinstance(rate, Schedule) else float(rate)


def check_rate(rate: Any, owner: Any) -> None:
    """Refuse what is neither a positive number nor a schedule."""
    number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    check(
        isinstance(rate, Schedule) or (number and 0 < rate < math.inf),
        f"{owner!r} does not learn",
        "give a learning rate above 0, or a schedule such as CosineDecay(0.1, steps=1000)",
    )


# ---------------------------------------------------------------------- clipping


@dataclass(frozen=True)
class Clip:
    """Limits on gradients, in this order.

    Parameters
    ----------
    norm
        Euclidean norm of one push: all its values, before they leave the worker (BSP: of each
        part, before the parts are added).
    value
        Each number, to ``[-value, value]``; on the servers.
    row_norm
        Euclidean norm of each row of a sparse table; on the servers.
    """

    norm: float | None = None
    value: float | None = None
    row_norm: float | None = None

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.norm, self.value, self.row_norm) if limit is not None]
        check(
            bool(limits) and all(0 < limit < math.inf for limit in limits),
            f"{self!r} does not clip",
            "give at least one of norm, value and row_norm, each above 0",
        )


# ---------------------------------------------------------------------- optimizers


@dataclass(frozen=True)
class Optimizer:
    """What a server does with a pushed row. Use one of the classes derived from this."""

    name: ClassVar[str]
    # The formula needs the number of the update.
    counts_steps: ClassVar[bool] = False

    @property
    def states(self) -> int:
        """Numbers kept per weight, the weight itself included."""
        return 1


@dataclass(frozen=True)
class Add(Optimizer):
    """``w += g``: sums and counts."""

    name = "add"


@dataclass(frozen=True)
class Sgd(Optimizer):
    """Stochastic gradient descent, with momentum (Polyak 1964, Nesterov 1983) if wanted.

    ``g += weight_decay * w``; without momentum ``w -= rate * g``; with it
    ``m = momentum * m + g`` and ``w -= rate * m``, with Nesterov's
    ``w -= rate * (g + momentum * m)``.

    In a sparse table all of it happens to the rows of a push only: the others neither decay nor
    move on.
    """

    learning_rate: Rate = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    name = "sgd"

    def __post_init__(self) -> None:
        check_rate(self.learning_rate, self)
        check(
            0 <= self.momentum < 1 and 0 <= self.weight_decay < math.inf,
            f"{self!r} cannot learn",
            "give momentum in [0, 1) and weight_decay at least 0",
        )
        check(
            self.momentum > 0 or not self.nesterov,
            f"{self!r} has no momentum to look ahead with",
            "give momentum, or leave out nesterov",
        )

    @property
    def states(self) -> int:
        return 2 if self.momentum else 1


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011).

    ``a += g²; w -= rate * g / (sqrt(a) + epsilon)``, where a starts at `initial`.
    """

    learning_rate: Rate = 0.1
    epsilon: float = 1e-10
    initial: float = 0.0
    name = "adagrad"

    def __post_init__(self) -> None:
        check_rate(self.learning_rate, self)
        check(
            self.epsilon > 0 and self.initial >= 0,
            f"{self!r} cannot learn",
            "give epsilon above 0, and initial at least 0",
        )

    @property
    def states(self) -> int:
        return 2


@dataclass(frozen=True)
class RmsProp(Optimizer):
    """RMSProp (Hinton 2012): ``a = decay * a + (1 - decay) * g²``,
    ``w -= rate * g / (sqrt(a) + epsilon)``.
    """

    learning_rate: Rate = 0.001
    decay: float = 0.9
    epsilon: float = 1e-8
    name = "rmsprop"

    def __post_init__(self) -> None:
        check_rate(self.learning_rate, self)
        check(
            self.epsilon > 0 and 0 <= self.decay < 1,
            f"{self!r} cannot learn",
            "give epsilon above 0, and decay in [0, 1)",
        )

    @property
    def states(self) -> int:
        return 2


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015).

    ``m += (1 - beta1) * (g - m); v += (1 - beta2) * (g² - v)``, and with the corrections
    ``c1 = 1 - beta1^t``, ``c2 = 1 - beta2^t``

    - dense: ``w -= rate * (m / c1) / (sqrt(v / c2) + epsilon)``;
    - sparse: ``w -= rate * sqrt(c2) / c1 * m / (sqrt(v) + epsilon)``, as PyTorch's SparseAdam.

    t counts the pushes that a shard of the table has applied, whichever rows they touched; rows
    that a push does not touch keep w, m and v.
    """

    learning_rate: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name = "adam"
    counts_steps = True

    def __post_init__(self) -> None:
        check_rate(self.learning_rate, self)
        check(
            0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0,
            f"{self!r} cannot learn",
            "give beta1 and beta2 in [0, 1), and epsilon above 0",
        )

    @property
    def states(self) -> int:
        return 3


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    As `Adam`, and ``w -= rate * weight_decay * w`` with the w before the step. In a sparse table
    a row decays when it is pushed, once for each push.
    """

    weight_decay: float = field(default=0.01, kw_only=True)
    name = "adamw"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            0 <= self.weight_decay < math.inf,
            f"{self!r} cannot learn",
            "give weight_decay at least 0",
        )


@dataclass(frozen=True)
class Ftrl(Optimizer):
    """FTRL-proximal with per-coordinate rates (McMahan et al. 2013, algorithm 1).

    Parameters
    ----------
    alpha, beta
        The learning rate of a coordinate is ``alpha / (beta + sqrt(sum of g²))``.
    l1, l2
        Regularisation; a weight whose ``|z| <= l1`` is exactly 0.
    """

    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    name = "ftrl"

    def __post_init__(self) -> None:
        check(
            self.alpha > 0 and min(self.beta, self.l1, self.l2) >= 0 and self.beta + self.l2 > 0,
            f"{self!r} has no finite learning rate",
            "give alpha above 0, the others at least 0, and beta or l2 above 0",
        )

    @property
    def states(self) -> int:
        return 2


# ---------------------------------------------------------------------- as JSON

OPTIMIZERS: dict[str, type[Optimizer]] = {
    kind.name: kind for kind in (Add, Sgd, Adagrad, RmsProp, Adam, AdamW, Ftrl)
}
_SCHEDULES: dict[str, type[Schedule]] = {
    kind.name: kind for kind in (StepDecay, ExponentialDecay, CosineDecay, WarmUp)
}


def described(record: Any) -> dict[str, Any]:
    """A named record, JSON-ready; records inside it likewise."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    return {
        "name": record.name,
        **{key: described(v) if is_dataclass(v) else v for key, v in values.items()},
    }


def built(kinds: dict[str, Any], data: dict[str, Any]) -> Any:
    """The inverse of `described`, for one of the kinds.

    Raises
    ------
    KeyError, TypeError
        Not a description of one of them.
    """
    settings = {
        key: built(_SCHEDULES, value) if isinstance(value, dict) else value
        for key, value in data.items()
    }
    return kinds[settings.pop("name")](**settings)
