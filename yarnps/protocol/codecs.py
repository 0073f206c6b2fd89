"""Shorter forms of numbers on the wire, for tables that ask for them.

========  ========  ==============================================================
form      bytes     what is lost
========  ========  ==============================================================
exact     4 or 8    nothing
bfloat16  2         all but 8 bits of precision; the range of float32 stays
float16   2         all but 11 bits of precision; numbers above 65,504 are infinite
int8      1         all but 127 steps of the largest number of the call
========  ========  ==============================================================

An int8 message has one scale, a power of two, in the header's `code`: rows can be cut and put in
another order like any others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.wire import DTYPE_OF, DType

# The header has a byte for the exponent of the scale: this stands for 0.
_EXPONENT_ZERO = 128
_EXPONENTS = range(-127, 128)

_BFLOAT16_NAN = np.uint16(0x7FC0)


class Encoded(NamedTuple):
    """Numbers as they travel: the shape stays; the header's `dtype` and `code`."""

    values: NDArray[Any]
    dtype: DType
    code: int = 0

    def decoded(self, into: np.dtype[Any]) -> NDArray[Any]:
        """What the server makes of them."""
        return decode(self.values, self.dtype, self.code, into)


def encode(values: NDArray[Any], form: str) -> Encoded:
    """Bring numbers into a form. What int8 cannot hold stays: NaN, infinity, above 1e40."""
    if form == "float16":
        with np.errstate(over="ignore"):
            return Encoded(values.astype(np.float16).view(np.uint16), DType.FLOAT16)
    if form == "bfloat16":
        return Encoded(_to_bfloat16(values), DType.BFLOAT16)
    if form == "int8":
        largest = float(np.abs(values).max(initial=0.0))
        exponent = math.frexp(largest / 127)[1] if math.isfinite(largest) else _EXPONENTS.stop
        if exponent < _EXPONENTS.stop:
            exponent = max(exponent, _EXPONENTS.start)
            steps = np.rint(values * 2.0**-exponent).astype(np.int8)
            return Encoded(steps, DType.INT8, exponent + _EXPONENT_ZERO)
    return Encoded(values, _EXACT[values.dtype])


def decode(values: NDArray[Any], dtype: int, code: int, into: np.dtype[Any]) -> NDArray[Any]:
    """The numbers that were brought into a form; `values` as `raw` has them."""
    if dtype == DType.FLOAT16:
        return values.view(np.float16).astype(into)
    if dtype == DType.BFLOAT16:
        wide = values.astype(np.uint32) << np.uint32(16)
        single: NDArray[Any] = wide.view(np.float32).astype(into, copy=False)
        return single
    if dtype == DType.INT8:
        scaled: NDArray[Any] = values.astype(into) * into.type(2.0 ** (code - _EXPONENT_ZERO))
        return scaled
    return values


def raw(dtype: int) -> np.dtype[Any] | None:
    """How the numbers of a form are read from a message; None: unknown."""
    return _RAW.get(dtype)


_RAW: dict[int, np.dtype[Any]] = {
    int(DType.FLOAT32): np.dtype(np.float32),
    int(DType.FLOAT64): np.dtype(np.float64),
    int(DType.FLOAT16): np.dtype(np.uint16),  # kernels know no float16
    int(DType.BFLOAT16): np.dtype(np.uint16),
    int(DType.INT8): np.dtype(np.int8),
    int(DType.UINT8): np.dtype(np.uint8),
}

# By dtype: its name is made anew each time that one asks for it.
_EXACT = {np.dtype(name): number for name, number in DTYPE_OF.items()}

# The forms that a table may ask for.
DTYPE_OF_FORM = {
    "float16": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "int8": DType.INT8,
}


def _to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """The upper half of float32's bits, rounded to the nearest, ties to even."""
    single = values.astype(np.float32, copy=False)
    bits = np.ascontiguousarray(single).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    halves: NDArray[np.uint16] = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(
        np.uint16
    )
    lost = np.isnan(single)
    if lost.any():
        halves[lost] = _BFLOAT16_NAN
    return halves
