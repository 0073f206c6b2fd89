"""Forms of numbers, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from yarnps.protocol.codecs import encode, form_of_places, picked, spread
from yarnps.protocol.wire import DType

SPECIAL = [0.0, -0.0, 1.0, -1.5, 1e-30, 3e38, np.inf, -np.inf, np.nan, 65504.0, 1 + 2**-9]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("form", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_two_bytes(form: str, bits: int, dtype: type) -> None:
    values = np.random.default_rng(0).normal(size=(1000, 3)).astype(dtype)
    encoded = encode(values, form)
    assert encoded.values.nbytes == 2 * values.size and encoded.values.shape == values.shape
    back = encoded.decoded(np.dtype(dtype))
    assert back.dtype == dtype
    np.testing.assert_allclose(back, values, rtol=2.0**-bits, atol=1e-7)


def test_special_numbers_in_bfloat16() -> None:
    values = np.array(SPECIAL, np.float32)
    back = encode(values, "bfloat16").decoded(np.dtype(np.float32))
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    np.testing.assert_array_equal(np.isinf(back), np.isinf(values))
    finite = np.isfinite(values)
    np.testing.assert_allclose(back[finite], values[finite], rtol=2.0**-8)
    assert np.signbit(back[1])
    # All bits of a NaN's fraction set: rounding must not carry into the sign.
    worst = np.array([0x7FFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(encode(worst, "bfloat16").decoded(np.dtype(np.float32))).all()
    # Ties go to even.
    tie = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    assert encode(tie, "bfloat16").values.tolist() == [0x3F80, 0x3F82]


@pytest.mark.parametrize("largest", [1e-20, 0.3, 127.0, 128.0, 1e6, 1e39])
def test_int8_is_off_by_half_a_step_at_most(largest: float) -> None:
    values = np.random.default_rng(1).uniform(-largest, largest, 500)
    values[7] = largest
    encoded = encode(values, "int8")
    assert encoded.values.dtype == np.int8 and 0 <= encoded.code < 256
    step = 2 * largest / 127  # a power of two is up to twice the step that would do
    assert np.abs(encoded.decoded(values.dtype) - values).max() <= step / 2
    assert np.abs(encoded.values.astype(int)).max() >= 63


def test_int8_of_nothing_and_of_what_it_cannot_hold() -> None:
    assert encode(np.zeros(5, np.float32), "int8").decoded(np.dtype(np.float32)).tolist() == [0] * 5
    assert encode(np.zeros((0, 3), np.float32), "int8").values.shape == (0, 3)
    kept = encode(np.array([1.0, np.nan], np.float32), "int8")
    assert kept.dtype == DType.FLOAT32 and np.isnan(kept.values[1])
    assert encode(np.array([1e300]), "int8").dtype == DType.FLOAT64
    assert encode(np.array([1e-300]), "int8").decoded(np.dtype(np.float64)).tolist() == [0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("elements", "size"), [(1, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_some_numbers_with_their_places(elements: int, size: int, dtype: str) -> None:
    values = np.arange(1, elements + 1).astype(dtype)
    chosen = np.flatnonzero(values % 3 == values[-1] % 3)
    short = picked(values, chosen)
    assert short.places is not None and form_of_places(elements).itemsize == size
    section = short.values.tobytes() + short.places.astype(form_of_places(elements)).tobytes()
    assert len(section) == len(chosen) * (values.itemsize + size)
    whole = spread(section, elements, values.dtype)
    np.testing.assert_array_equal(whole, np.where(values % 3 == values[-1] % 3, values, 0))
    assert whole.dtype == dtype


def test_no_numbers_at_all() -> None:
    assert spread(b"", 3, np.dtype(np.float32)).tolist() == [0, 0, 0]
    assert spread(b"", 0, np.dtype(np.float32)).tolist() == []


@pytest.mark.parametrize(
    "places", [[3], [0, 3], [255], [1, 1], [2, 1], [0, 1, 2, 3]], ids=lambda found: str(found)
)
def test_places_that_there_are_not(places: list[int]) -> None:
    section = np.ones(len(places), np.float32).tobytes() + np.array(places, np.uint8).tobytes()
    with pytest.raises(ValueError, match="not in increasing order below 3"):
        spread(section, 3, np.dtype(np.float32))
    with pytest.raises(ValueError, match="no numbers with their places"):
        spread(section + b"x", 3, np.dtype(np.float32))
