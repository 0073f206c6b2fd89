"""Arrays in a message: their descriptions in its text, their bytes one after another.

What comes from another process is not trusted: only plain numbers, and lengths that fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_KINDS = "biuf"  # bool, integers, floats


class Packed(NamedTuple):
    """JSON-ready descriptions, and the bytes that they are of."""

    described: list[dict[str, Any]]
    data: bytes


def pack(arrays: Sequence[NDArray[Any]]) -> Packed:
    """The inverse of `unpack`.

    Raises
    ------
    ValueError
        Something else than plain numbers.
    """
    described, pieces = [], []
    for array in arrays:
        if array.dtype.kind not in _KINDS:
            raise ValueError(f"an array of {array.dtype}: numbers are expected")
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        described.append({"dtype": little.dtype.str, "shape": list(array.shape)})
        pieces.append(little.tobytes())
    return Packed(described, b"".join(pieces))


def unpack(described: Any, data: Any) -> list[NDArray[Any]]:
    """Arrays of their own from a message's buffer.

    Raises
    ------
    ValueError
        Descriptions that cannot be read, or that do not fit the data.
    """
    arrays = []
    at, view = 0, memoryview(data).cast("B") if len(data) else memoryview(b"")
    try:
        for entry in described:
            dtype = np.dtype(str(entry["dtype"]))
            shape = tuple(int(size) for size in entry["shape"])
            if dtype.kind not in _KINDS or any(size < 0 for size in shape):
                raise ValueError(f"an array of {dtype} with shape {shape}")
            end = at + dtype.itemsize * math.prod(shape)
            if end > len(view):
                raise ValueError(f"{end} bytes are described, {len(view)} came")
            arrays.append(np.frombuffer(view[at:end], dtype).reshape(shape).copy())
            at = end
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"arrays are not described: {error!r}") from error
    if at != len(view):
        raise ValueError(f"{at} bytes are described, {len(view)} came")
    return arrays
