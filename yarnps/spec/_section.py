"""What all models of the job file have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A mapping of the job file: known keys only, no silent conversion of types.

    A key without a value (``stop:`` with all its lines commented out) means its default.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, validate_default=True, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data
