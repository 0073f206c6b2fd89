"""Durations, sizes and shares as people write them, and the field types made of them."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30

_SECONDS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)

# The same units as in skein: `k` and `kb` are 1000, `ki` and `kib` are 1024.
_BYTES: Final = {
    "": 1,
    "b": 1,
    **{unit + b: 1000**n for n, unit in enumerate("kmgtp", 1) for b in ("", "b")},
    **{unit + "i" + b: 1024**n for n, unit in enumerate("kmgtp", 1) for b in ("", "b")},
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)

DURATION_HINT: Final = "a duration such as 60 s, 5 min or 2 h"
SIZE_HINT: Final = "a size such as 512 MiB or 1 GiB"


def parse_duration(value: str | float) -> float:
    """Seconds of a duration.

    Parameters
    ----------
    value : str or float
        A number of seconds, or a text such as ``"60 s"``, ``"5 min"``, ``"1 h 30 min"``.

    Raises
    ------
    ValueError
        The value is not a duration; its text says what was expected.

    Examples
    --------
    >>> parse_duration("5 min")
    300.0
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value) and value >= 0:
            return float(value)
        raise ValueError(f"expected {DURATION_HINT}, found {value}")
    if not isinstance(value, str):
        raise ValueError(f"expected {DURATION_HINT}")
    text = value.strip()
    parts = [*_DURATION.finditer(text)]
    units = [unit.lower() or "s" for _, unit in (part.groups() for part in parts)]
    bare = len(parts) > 1 and any(not part.group(2) for part in parts)
    if not parts or bare or "".join(part.group() for part in parts) != text:
        raise ValueError(f"expected {DURATION_HINT}, found {value!r}")
    if unknown := [unit for unit in units if unit not in _SECONDS]:
        raise ValueError(f"expected {DURATION_HINT}, found the unit {unknown[0]!r} in {value!r}")
    numbers = (float(part.group(1)) for part in parts)
    return math.fsum(n * _SECONDS[unit] for n, unit in zip(numbers, units, strict=True))


def parse_size(value: str | float, *, unit: int = 1) -> int:
    """Bytes of a size.

    Parameters
    ----------
    value : str or int
        A number of bytes, or a text such as ``"1 GiB"`` or ``"512 MiB"``.
    unit : int
        Bytes that a number without a unit counts in. skein's ``resources.memory`` counts in MiB.

    Raises
    ------
    ValueError
        The value is not a size; its text says what was expected.

    Examples
    --------
    >>> parse_size("1 GiB")
    1073741824
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value) and value >= 0:
            return math.ceil(value * unit)
        raise ValueError(f"expected {SIZE_HINT}, found {value}")
    if not isinstance(value, str):
        raise ValueError(f"expected {SIZE_HINT}")
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"expected {SIZE_HINT}, found {value!r}")
    number, name = match.groups()
    if name.lower() not in _BYTES:
        raise ValueError(f"expected {SIZE_HINT}, found the unit {name!r} in {value!r}")
    return math.ceil(float(number) * (_BYTES[name.lower()] if name else unit))


def format_size(size: int) -> str:
    """A size for people: ``"1.5 GiB"``."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}" if size % unit else f"{size // unit} {name}"
    return f"{size} bytes"


def format_duration(seconds: float) -> str:
    """A duration in its largest whole unit: ``"5 min"``."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds > unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def fault(message: str, **context: Any) -> PydanticCustomError:
    """An error of a validator whose text goes to the user as it is."""
    return PydanticCustomError("yarnps", "{message}", {"message": message, **context})


def _duration(value: Any) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise fault(str(error)) from None


def _size(value: Any) -> int:
    try:
        return parse_size(value)
    except ValueError as error:
        raise fault(str(error)) from None


def _memory(value: Any) -> int:
    try:
        return parse_size(value, unit=MIB)
    except ValueError as error:
        raise fault(str(error)) from None


def _bad_records(value: Any) -> int | float:
    hint = "a count such as 100, or a share of all records such as 0.1% or 0.001"
    share: object = value
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
        if match is None:
            raise fault(f"expected {hint}, found {value!r}")
        share = float(match.group(1)) / 100
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise fault(f"expected {hint}")
    if isinstance(share, int) and share >= 0:
        return share
    if not 0 <= share < 1:
        raise fault(f"expected {hint}, found {value}")
    return share or 0


def _addresses(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)):
        if not value:
            raise fault("expected at least one address, found an empty list")
        return tuple(value)
    raise fault("expected an address or a list of addresses")


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _split_size(value: Any) -> Any:
    if value == "auto":
        return value
    try:
        size = parse_size(value)
    except ValueError as error:
        raise fault(str(error).replace("expected a size", "expected auto or a size")) from None
    if size < 1:
        raise fault(f"expected auto or {SIZE_HINT}, found {value}")
    return size


def _one_of(*schemas: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(schemas)})


_NUMBER: Final = {"type": "number", "minimum": 0}
_DURATION_TEXT: Final = {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*[A-Za-z]*\s*)+$"}
_SIZE_TEXT: Final = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*[A-Za-z]*\s*$"}

Duration = Annotated[float, BeforeValidator(_duration), _one_of(_NUMBER, _DURATION_TEXT)]
"""Seconds."""

Size = Annotated[int, BeforeValidator(_size), _one_of(_NUMBER, _SIZE_TEXT)]
"""Bytes."""

Memory = Annotated[int, BeforeValidator(_memory), _one_of(_NUMBER, _SIZE_TEXT)]
"""Bytes; a number without a unit is MiB, as skein has it."""

SplitSize = Annotated[
    "int | str", BeforeValidator(_split_size), _one_of({"const": "auto"}, _NUMBER, _SIZE_TEXT)
]
"""Bytes, or ``"auto"``."""

BadRecords = Annotated[
    "int | float",
    BeforeValidator(_bad_records),
    _one_of(_NUMBER, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%\s*$"}),
]
"""A count (int) or a share below 1 (float)."""

Addresses = Annotated[
    "tuple[str, ...]",
    BeforeValidator(_addresses),
    _one_of({"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}),
]
"""One address or several; always a tuple."""

Text = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""

Texts = Annotated["tuple[str, ...]", BeforeValidator(_listed)]
"""A list of texts."""
