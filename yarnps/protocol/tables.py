"""What a table is: its shape, optimizer, initial values and policies, as both sides know it.

Standard library only: a user's program names these before anything heavy is imported.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

from yarnps._errors import InputError
from yarnps.protocol.optimizers import (
    OPTIMIZERS,
    Adagrad,
    Adam,
    AdamW,
    Add,
    Clip,
    Ftrl,
    Optimizer,
    RmsProp,
    Sgd,
    built,
    check,
    described,
)

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Add",
    "Clip",
    "Ftrl",
    "Init",
    "NonFinite",
    "Normal",
    "Optimizer",
    "RmsProp",
    "Sgd",
    "TableSpec",
    "Uniform",
    "WhenFull",
    "Wire",
    "Zeros",
]

Kind = Literal["sparse", "dense"]
Combine = Literal["mean", "sum"]
NonFinite = Literal["fail", "skip", "clip"]
WhenFull = Literal["fail", "ignore", "evict"]
PushForm = Literal["exact", "float16", "bfloat16", "int8", "topk", "kkt"]
PullForm = Literal["exact", "float16", "bfloat16"]

DTYPES = ("float32", "float64")

AUDIT_TABLE = "yarnps.rows"  # counts the rows of committed batches, where a job asks for it


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
        check(self.low < self.high, f"{self!r} is empty", "give low below high")


@dataclass(frozen=True)
class Normal(Init):
    """Normal with mean 0."""

    std: float = 0.01
    name = "normal"

    def __post_init__(self) -> None:
        check(self.std > 0, f"{self!r} is all zeros", "give std above 0, or use Zeros()")


_INITS: dict[str, type[Init]] = {kind.name: kind for kind in (Zeros, Uniform, Normal)}


@dataclass(frozen=True)
class Wire:
    """How a table's numbers travel between workers and servers. The default loses nothing.

    Parameters
    ----------
    push
        ``exact``; ``float16``, ``bfloat16``: two bytes a number; ``int8``: one byte, with error
        feedback; ``topk``: of each push only what is largest, with error feedback: rows of a
        sparse table by their norms, single numbers of a dense one (Lin et al. 2018). Sparse tables
        only: ``kkt``: for FTRL, no gradients of weights that are 0 and that these gradients would
        leave at 0 (Li et al. 2014), with error feedback.
    pull
        ``exact``, ``float16`` or ``bfloat16``.
    keep
        ``topk``: the share of a push's rows (dense: numbers) that is sent.
    kkt
        ``kkt``: what has come together for a weight is sent when it is larger than so many times
        ``l1``. Only keys of the latest pull, when exactly these are pushed, can be left out.
    key_lists
        Sparse tables: a list of keys that was sent before is named by its hash (16 bytes). Nothing
        is lost. For networks slower than hashing (about 1 GB/s), where the same keys are pulled
        and pushed.

    Error feedback: what a push leaves out is added to the worker's next push of the same key or
    element. It is void when the tables go back to a checkpoint, and is counted then.
    """

    push: PushForm = "exact"
    pull: PullForm = "exact"
    keep: float = 0.1
    kkt: float = 0.1
    key_lists: bool = False

    def __post_init__(self) -> None:
        for what, form, forms in (
            ("push", self.push, get_args(PushForm)),
            ("pull", self.pull, get_args(PullForm)),
        ):
            check(form in forms, f"Wire({what}={form!r})", f"use one of {', '.join(forms)}")
        check(
            0 < self.keep <= 1 and self.kkt >= 0,
            f"{self!r} cannot work",
            "give keep in (0, 1], and kkt at least 0",
        )

    @property
    def loses(self) -> bool:
        """Whether workers keep what a push leaves out."""
        return self.push in ("int8", "topk", "kkt")


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
    combine
        What a BSP step makes of its parts' pushes: their ``mean`` weighted by rows, for gradients
        of a mean loss, or their ``sum``. None: the sum for `Add`, the mean for others.
    clip
        Limits on gradients.
    nonfinite
        What is done about a gradient with NaN or infinity in it. ``fail``: the push is refused.
        ``skip``: its rows (dense: elements) that have some are left out. ``clip``: NaN becomes 0,
        infinity becomes ``clip.value``.
    when_full
        What is done about new keys when the servers' table memory is used up. ``fail``: the push
        is refused. ``ignore``: they get no row. ``evict``: the rows that no push has touched for
        the longest time make room.
    admit
        A key gets a row with the n-th push that names it; earlier ones leave no trace but a count.
    expire
        A row that no push has touched for more than so many clocks is forgotten.
    wire
        How its numbers travel.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    dtype: str = "float32"
    optimizer: Optimizer = field(default_factory=Sgd)
    init: Init = field(default_factory=Zeros)
    seed: int = 1
    model: bool = True
    combine: Combine | None = None
    clip: Clip | None = None
    nonfinite: NonFinite = "fail"
    when_full: WhenFull = "fail"
    admit: int = 1
    expire: int | None = None
    wire: Wire = field(default_factory=Wire)

    def __post_init__(self) -> None:
        check(
            bool(self.name) and len(self.name) <= 200 and "/" not in self.name,
            f"a table cannot be named {self.name!r}",
            "use a name of 1 to 200 characters without a slash",
        )
        check(
            self.kind in get_args(Kind),
            f"table {self.name}: a table is not {self.kind!r}",
            f"use one of {', '.join(get_args(Kind))}",
        )
        check(
            self.dtype in DTYPES,
            f"table {self.name}: numbers of type {self.dtype} are not kept",
            f"use one of {', '.join(DTYPES)}",
        )
        check(
            self.combine in (None, "mean", "sum"),
            f"table {self.name}: pushes cannot be combined by {self.combine!r}",
            "use combine='mean' or combine='sum'",
        )
        check(
            len(self.shape) >= 1 and all(size >= 1 for size in self.shape),
            f"table {self.name}: the shape {self.shape} is empty",
            "give sizes of at least 1",
        )
        check(
            not (isinstance(self.optimizer, Ftrl) and not isinstance(self.init, Zeros)),
            f"table {self.name}: FTRL's weights follow from its sums, which start at 0",
            "leave out init, or use another optimizer",
        )
        self._check_policies()
        check(
            self.wire.push != "kkt" or self.kind == "sparse",
            f'table {self.name}: push="kkt" chooses among rows, and it is dense',
            'use push="topk" or "int8", or a sparse table',
        )
        check(
            self.wire.push != "kkt" or isinstance(self.optimizer, Ftrl),
            f'table {self.name}: push="kkt" is for weights that FTRL keeps at 0',
            "use optimizer=Ftrl(...), or another form",
        )

    def _check_policies(self) -> None:
        check(
            self.nonfinite in get_args(NonFinite),
            f"table {self.name}: nonfinite={self.nonfinite!r} is not known",
            f"use one of {', '.join(get_args(NonFinite))}",
        )
        check(
            self.nonfinite != "clip" or (self.clip is not None and self.clip.value is not None),
            f'table {self.name}: nonfinite="clip" does not say what infinity is clipped to',
            "give clip=Clip(value=…) with it",
        )
        check(
            self.when_full in get_args(WhenFull),
            f"table {self.name}: when_full={self.when_full!r} is not known",
            f"use one of {', '.join(get_args(WhenFull))}",
        )
        check(
            1 <= self.admit < 2**32 and (self.expire is None or 1 <= self.expire < 2**32),
            f"table {self.name}: admit={self.admit}, expire={self.expire}",
            "give whole numbers of at least 1",
        )
        needs_rows = (
            self.when_full != "fail"
            or self.admit > 1
            or self.expire is not None
            or (self.clip is not None and self.clip.row_norm is not None)
        )
        check(
            self.kind == "sparse" or not needs_rows,
            f"table {self.name}: a dense table has all its rows from the start",
            "leave out when_full, admit, expire and row_norm, or make it sparse",
        )

    @property
    def dim(self) -> int:
        """Numbers of a row; 1 for a dense table, which is addressed by element."""
        return self.shape[0] if self.kind == "sparse" else 1

    @property
    def sums(self) -> bool:
        """Whether pushes of a BSP step are added up, not averaged."""
        return self.combine == "sum" or (self.combine is None and isinstance(self.optimizer, Add))

    @property
    def elements(self) -> int:
        """Numbers in a dense table."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 8

    @property
    def stamped(self) -> bool:
        """Each row remembers the clock of its last push."""
        return self.when_full == "evict" or self.expire is not None

    def to_json(self) -> str:
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return json.dumps(
            {
                **plain,
                "shape": list(self.shape),
                "optimizer": described(self.optimizer),
                "init": described(self.init),
                "clip": None if self.clip is None else asdict(self.clip),
                "wire": asdict(self.wire),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> TableSpec:
        """The table that `to_json` described; what an older version did not know has its default.

        Raises
        ------
        InputError
            Not such a text.
        """
        try:
            data = json.loads(text)
            return cls(
                **{
                    **data,
                    "name": str(data["name"]),
                    "shape": tuple(int(size) for size in data["shape"]),
                    "optimizer": built(OPTIMIZERS, data["optimizer"]),
                    "init": built(_INITS, data["init"]),
                    "clip": Clip(**data["clip"]) if data.get("clip") else None,
                    "wire": Wire(**data.get("wire", {})),
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
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


def residual_spec(spec: TableSpec) -> TableSpec:
    """The table in which a worker keeps what its pushes have left out."""
    return TableSpec(f"{spec.name}.residuals", "sparse", spec.shape, spec.dtype, Add())
