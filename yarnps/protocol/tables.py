"""What a table is: its shape, optimizer and initial values, as both sides of the wire know it.

Standard library only: a user's program names these before anything heavy is imported.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from yarnps._errors import InputError

Kind = Literal["sparse", "dense"]

DTYPES = ("float32", "float64")


def _check(condition: bool, what: str, remedy: str) -> None:
    if not condition:
        raise InputError(what, remedy)


@dataclass(frozen=True)
class Optimizer:
    """What a server does with a pushed row. Use one of the classes derived from this."""

    name: ClassVar[str]
    states: ClassVar[int]  # numbers kept per weight, the weight itself included


@dataclass(frozen=True)
class Add(Optimizer):
    """``w += g``: sums and counts."""

    name = "add"
    states = 1


@dataclass(frozen=True)
class Sgd(Optimizer):
    """``w -= learning_rate * g``."""

    learning_rate: float = 0.01
    name = "sgd"
    states = 1

    def __post_init__(self) -> None:
        _check(
            self.learning_rate > 0,
            f"Sgd(learning_rate={self.learning_rate}) does not learn",
            "give a learning rate above 0",
        )


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011).

    ``a += g²; w -= learning_rate * g / (sqrt(a) + epsilon)``, where a starts at `initial`.
    """

    learning_rate: float = 0.1
    epsilon: float = 1e-10
    initial: float = 0.0
    name = "adagrad"
    states = 2

    def __post_init__(self) -> None:
        _check(
            self.learning_rate > 0 and self.epsilon > 0 and self.initial >= 0,
            f"{self!r} cannot learn",
            "give learning_rate and epsilon above 0, and initial at least 0",
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
    states = 2

    def __post_init__(self) -> None:
        _check(
            self.alpha > 0 and min(self.beta, self.l1, self.l2) >= 0 and self.beta + self.l2 > 0,
            f"{self!r} has no finite learning rate",
            "give alpha above 0, the others at least 0, and beta or l2 above 0",
        )


@dataclass(frozen=True)
class Init:
    """A row's values before its first push; a function of (seed, table, key) only."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Zeros(Init):
    """All 0."""

    name = "zeros"


@dataclass(frozen=True)
class Uniform(Init):
    """Uniform in [low, high)."""

    low: float = -0.1
    high: float = 0.1
    name = "uniform"

    def __post_init__(self) -> None:
        _check(self.low < self.high, f"{self!r} is empty", "give low below high")


@dataclass(frozen=True)
class Normal(Init):
    """Normal with mean 0."""

    std: float = 0.01
    name = "normal"

    def __post_init__(self) -> None:
        _check(self.std > 0, f"{self!r} is all zeros", "give std above 0, or use Zeros()")


_OPTIMIZERS: dict[str, type[Optimizer]] = {kind.name: kind for kind in (Add, Sgd, Adagrad, Ftrl)}
_INITS: dict[str, type[Init]] = {kind.name: kind for kind in (Zeros, Uniform, Normal)}


@dataclass(frozen=True)
class TableSpec:
    """A table as every server and worker of a job must see it.

    Attributes
    ----------
    shape
        Dense: the array's shape. Sparse: ``(dim,)``.
    seed
        Of the initial values.
    model
        The table belongs to the model that the job writes.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    dtype: str = "float32"
    optimizer: Optimizer = field(default_factory=Sgd)
    init: Init = field(default_factory=Zeros)
    seed: int = 1
    model: bool = True

    def __post_init__(self) -> None:
        _check(
            bool(self.name) and len(self.name) <= 200 and "/" not in self.name,
            f"a table cannot be named {self.name!r}",
            "use a name of 1 to 200 characters without a slash",
        )
        _check(
            self.dtype in DTYPES,
            f"table {self.name}: numbers of type {self.dtype} are not kept",
            f"use one of {', '.join(DTYPES)}",
        )
        _check(
            len(self.shape) >= 1 and all(size >= 1 for size in self.shape),
            f"table {self.name}: the shape {self.shape} is empty",
            "give sizes of at least 1",
        )
        _check(
            not (isinstance(self.optimizer, Ftrl) and not isinstance(self.init, Zeros)),
            f"table {self.name}: FTRL's weights follow from its sums, which start at 0",
            "leave out init, or use another optimizer",
        )

    @property
    def dim(self) -> int:
        """Numbers of a row; 1 for a dense table, which is addressed by element."""
        return self.shape[0] if self.kind == "sparse" else 1

    @property
    def elements(self) -> int:
        """Numbers in a dense table."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 8

    def to_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "kind": self.kind,
                "shape": list(self.shape),
                "dtype": self.dtype,
                "optimizer": {"name": self.optimizer.name, **asdict(self.optimizer)},
                "init": {"name": self.init.name, **asdict(self.init)},
                "seed": self.seed,
                "model": self.model,
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> TableSpec:
        """The table that `to_json` described.

        Raises
        ------
        InputError
            Not such a text.
        """
        try:
            data = json.loads(text)
            return cls(
                name=str(data["name"]),
                kind="sparse" if data["kind"] == "sparse" else "dense",
                shape=tuple(int(size) for size in data["shape"]),
                dtype=str(data["dtype"]),
                optimizer=_named(_OPTIMIZERS, data["optimizer"]),
                init=_named(_INITS, data["init"]),
                seed=int(data["seed"]),
                model=bool(data["model"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"not the description of a table: {error!r}", "use job.sparse() or job.dense()"
            ) from error

    def difference(self, other: TableSpec) -> str:
        """What is not the same in another description, in words; empty when nothing is."""
        mine: dict[str, Any] = json.loads(self.to_json())
        theirs: dict[str, Any] = json.loads(other.to_json())
        return ", ".join(
            f"{key} {theirs[key]} instead of {value}"
            for key, value in mine.items()
            if theirs[key] != value
        )


def _named(kinds: dict[str, Any], data: dict[str, Any]) -> Any:
    settings = dict(data)
    return kinds[settings.pop("name")](**settings)
