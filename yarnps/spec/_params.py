"""Parameters of the built-in programs (`yarnps.params` with `yarnps.app`)."""

from __future__ import annotations

from typing import Final

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


APPS: Final[dict[str, type[BaseModel]]] = {"ftrl": FtrlParams}

# Programs that go through the training input once before its first epoch.
PREPARING_APPS: Final = frozenset({"word2vec"})
