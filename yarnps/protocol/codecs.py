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

A push of some elements of a dense table (`Flag.PICKED`) has their numbers in the table's own form,
then their places: numbers from 0 to that of the message's elements, increasing, as the smallest
unsigned integers that can hold all such places.
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
    """Numbers as they travel: the shape stays; the header's `dtype` and `code`.

    `places` are set where only some of the numbers travel: which ones, in increasing order.
    """

    values: NDArray[Any]
    dtype: DType
    code: int = 0
    places: NDArray[np.int64] | None = None

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


def picked(values: NDArray[Any], chosen: NDArray[np.int64]) -> Encoded:
    """Only those of the numbers, in one dimension; places in increasing order."""
    return Encoded(values[chosen], _EXACT[values.dtype], places=chosen)


def form_of_places(elements: int) -> np.dtype[Any]:
    """How places among so many elements travel."""
    return np.min_scalar_type(max(elements - 1, 0))


def spread(section: Any, elements: int, into: np.dtype[Any]) -> NDArray[Any]:
    """All elements of a message that holds some: the others are 0.

    Parameters
    ----------
    section
        The message's values: numbers of the dtype `into`, then their places.
    elements
        How many elements the message is about.

    Raises
    ------
    ValueError
        The section is no such thing, or names a place that there is not.
    """
    form, view = form_of_places(elements), memoryview(section)
    count, rest = divmod(len(view), into.itemsize + form.itemsize)
    if rest:
        raise ValueError(f"{len(view)} bytes are no numbers with their places")
    end = count * into.itemsize
    places = np.frombuffer(view[end:], form)
    if count and (int(places[-1]) >= elements or (places[1:] <= places[:-1]).any()):
        raise ValueError(f"{count} places are not in increasing order below {elements}")
    whole = np.zeros(elements, into)
    whole[places] = np.frombuffer(view[:end], into)
    return whole


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
