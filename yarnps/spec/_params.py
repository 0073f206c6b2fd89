"""Parameters of the built-in programs (`yarnps.params` with `yarnps.app`)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

from ._section import Section


class FtrlParams(Section):
    """FTRL-proximal logistic regression (McMahan et al., KDD 2013)."""

    hash_buckets: int | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Feature ids are hashed into so many buckets. Not given: ids stay as they are.",
    )
    alpha: float = Field(
        default=0.1, gt=0, allow_inf_nan=False, description="Learning rate: alpha of the paper."
    )
    beta: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="Smooths the first steps: beta."
    )
    l1: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="L1 penalty: makes weights exactly 0."
    )
    l2: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="L2 penalty.")
    bias: bool = Field(default=True, description="Learn a constant term, too.")


class FmParams(Section):
    """Factorization machines for regression or two classes (Rendle, ICDM 2010)."""

    task: Literal["classification", "regression"] = Field(
        default="classification",
        description="`classification`: labels 0 and 1, or -1 and 1, log loss. `regression`: any "
        "numbers, squared loss.",
    )
    dim: int = Field(
        default=8, ge=1, le=4096, description="Factors of a feature: numbers of its vector."
    )
    hash_buckets: int | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Feature ids are hashed into so many buckets. Not given: ids stay as they are.",
    )
    optimizer: Literal["adagrad", "sgd", "ftrl"] = Field(
        default="adagrad",
        description="`ftrl`: for the weights, with `beta` and `l1`; the factors have Adagrad then.",
    )
    learning_rate: float = Field(
        default=0.1,
        gt=0,
        allow_inf_nan=False,
        description="Of the mean gradient of a batch's rows that have a feature; alpha of `ftrl`.",
    )
    l2: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Penalty on weights: half of it times the square, for each entry of a row.",
    )
    l2_factors: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="The same on factors."
    )
    l1: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Only with `ftrl`: makes weights exactly 0.",
    )
    beta: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Only with `ftrl`: smooths the first steps.",
    )
    init_std: float = Field(
        default=0.05,
        gt=0,
        allow_inf_nan=False,
        description="Factors begin as normal random numbers with this standard deviation.",
    )
    bias: bool = Field(default=True, description="Learn a constant term, too.")
    low: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Only for `regression`: predictions below this count as this.",
    )
    high: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Only for `regression`: predictions above this count as this.",
    )


APPS: Final[dict[str, type[BaseModel]]] = {"ftrl": FtrlParams, "fm": FmParams}

# Programs that go through the training input once before its first epoch.
PREPARING_APPS: Final = frozenset({"word2vec"})
