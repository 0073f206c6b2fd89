"""Top-k of a dense table's pushes: what goes, what waits, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yarnps.protocol.codecs import Encoded
from yarnps.protocol.tables import TableSpec, Wire
from yarnps.protocol.wire import DType
from yarnps.worker import shorter
from yarnps.worker.shorter import DensePushes


def pushes(elements: int, keep: float, dtype: str = "float32") -> DensePushes:
    wire = Wire(push="topk", keep=keep)
    return DensePushes(TableSpec("d", "dense", (elements,), dtype, wire=wire), wire)


def whole(short: Encoded, elements: int) -> Any:
    """What has been sent, as a gradient of all elements."""
    found = np.zeros(elements, short.values.dtype)
    found[short.places] = short.values
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keep", [0.001, 0.1, 0.5, 1.0])
def test_what_is_sent_and_what_waits_is_all_there_was(keep: float, dtype: str) -> None:
    """Whole numbers: the sums are exact."""
    waits, rng = pushes(500, keep, dtype), np.random.default_rng(1)
    sent, total = np.zeros(500), np.zeros(500)
    for _ in range(30):
        values = rng.integers(-100, 100, 500).astype(dtype)
        before, total = total - sent, total + values
        short = waits.shortened(0, values, 1)
        assert short.places is not None and len(short.places) <= np.ceil(keep * 500)
        chosen = np.isin(np.arange(500), short.places)
        np.testing.assert_array_equal(short.values, (before + values)[chosen])
        if not chosen.all():
            assert np.abs(before + values)[chosen].min() >= np.abs(before + values)[~chosen].max()
        sent += whole(short, 500)
    assert waits._residuals is not None
    np.testing.assert_array_equal(waits._residuals.part(0, 500), total - sent)
    assert (keep == 1.0) == bool((total == sent).all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keep", [0.0001, 0.01, 0.1, 0.9])
@pytest.mark.parametrize("kind", ["normal", "tied", "sampled", "not sampled", "zeros"])
def test_of_many_numbers_it_is_the_largest_wherever_they_are(
    kind: str, keep: float, dtype: str
) -> None:
    n, rng = 30_000, np.random.default_rng(3)
    values = rng.normal(size=n).astype(dtype)
    if kind == "tied":
        values = np.sign(values)
    elif kind == "zeros":
        values[rng.random(n) < 0.95] = 0
    elif kind != "normal":  # all that is large is where a sample looks, or nothing of it is
        seen = np.arange(n) % shorter._SAMPLED == 0
        values[seen if kind == "sampled" else ~seen] *= 1000
    short = pushes(n, keep, dtype).shortened(0, values, 1)
    count = min(int(np.ceil(keep * n)), np.count_nonzero(values))
    assert short.places is not None and len(short.places) == count
    assert (np.diff(short.places) > 0).all()
    np.testing.assert_array_equal(
        np.sort(np.abs(short.values)), np.sort(np.abs(values))[n - count :]
    )


def test_a_number_that_waits_goes_when_it_has_grown() -> None:
    waits = pushes(4, 0.25)
    values = np.array([5.0, 2.0, 0.0, 0.0], np.float32)
    found = [whole(waits.shortened(0, values, 1), 4).tolist() for _ in range(3)]
    assert found == [[5, 0, 0, 0], [5, 0, 0, 0], [0, 6, 0, 0]]


def test_zeros_never_travel() -> None:
    waits = pushes(100, 0.5)
    values = np.zeros(100, np.float32)
    values[7] = -3
    assert whole(waits.shortened(0, values, 1), 100).tolist() == values.tolist()
    assert len(waits.shortened(0, np.zeros(100, np.float32), 1).values) == 0


def test_rows_have_residuals_of_their_own() -> None:
    waits = pushes(10, 0.5)
    short = waits.shortened(4, np.array([1.0, 9.0], np.float32), 1)
    assert short.places is not None and short.places.tolist() == [1]
    short = waits.shortened(0, np.zeros(10, np.float32), 1)
    assert whole(short, 10).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_not_finite_travels_as_it_is(strange: float) -> None:
    """The servers' policy decides; what waits goes on waiting."""
    waits = pushes(4, 0.25)
    waits.shortened(0, np.array([5.0, 2.0, 0.0, 0.0], np.float32), 1)
    values = np.array([0.0, strange, 1.0, 0.0], np.float32)
    short = waits.shortened(0, values, 1)
    assert short.places is None and short.dtype == DType.FLOAT32
    np.testing.assert_array_equal(short.values, values)
    assert whole(waits.shortened(0, np.zeros(4, np.float32), 1), 4).tolist() == [0, 2, 0, 0]


def test_what_waits_is_void_when_the_tables_go_back(caplog: pytest.LogCaptureFixture) -> None:
    waits = pushes(10, 0.3)
    values = np.arange(10).astype(np.float32)
    waits.shortened(0, values, 1)
    first = waits.shortened(0, values, 2)
    assert first.values.tolist() == [7, 8, 9]  # nothing of what was left out before
    assert waits.zeroed == 6
    assert "table d: 6 residuals are zeroed" in caplog.text
