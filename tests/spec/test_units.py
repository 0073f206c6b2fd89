from __future__ import annotations

from typing import Any

import pytest

from yarnps.spec import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("500 ms", 0.5),
        ("60 s", 60.0),
        ("60s", 60.0),
        ("5 min", 300.0),
        ("5m", 300.0),
        ("1.5 h", 5400.0),
        ("1 h 30 min", 5400.0),
        ("1h30m", 5400.0),
        ("30 d", 2_592_000.0),
        (" 2 Hours ", 7200.0),
    ],
)
def test_durations(value: Any, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "s", "soon", "5 fortnights", "-1 s", "1 h 30", "1,5 h", -1, True, None,
              float("nan"), float("inf")]
)  # fmt: skip
def test_not_durations(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 60 s, 5 min or 2 h"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1024, 1024),
        ("1024", 1024),
        ("1 GiB", 2**30),
        ("512MiB", 2**29),
        ("0.5 KiB", 512),
        ("1 GB", 10**9),
        ("1k", 1000),
        ("1 Ki", 1024),
        ("7 b", 7),
    ],
)
def test_sizes(value: Any, size: int) -> None:
    assert parse_size(value) == size


def test_a_number_without_a_unit_counts_in_the_given_unit() -> None:
    assert parse_size(512, unit=2**20) == 2**29
    assert parse_size("512", unit=2**20) == 2**29
    assert parse_size("1 GiB", unit=2**20) == 2**30


@pytest.mark.parametrize("value", ["", "GiB", "1 GiBi", "-1", "1 2 GiB", -1, True, None, [1]])
def test_not_sizes(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a size such as 512 MiB or 1 GiB"):
        parse_size(value)


def test_sizes_agree_with_skein() -> None:
    from skein.model import parse_memory

    for text in ("1 GiB", "1 GB", "2g", "2 gi", "512 mb", "0.3 tib", "64", "1000 k"):
        mebibytes = -(-parse_size(text, unit=2**20) // 2**20)
        assert mebibytes == parse_memory(text), text  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("size", "text"),
    [(7, "7 bytes"), (2**20, "1 MiB"), (1536 * 2**20, "1.5 GiB"), (10**6, "976.6 KiB")],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (60, "60 s"), (300, "5 min"), (7200, "2 h"), (2_592_000, "30 d")],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
