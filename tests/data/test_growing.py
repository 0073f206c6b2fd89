"""Batches that grow with the training, and those that keep their size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reading import Write

from yarnps.data import DataSettings, RawBatch, Split, list_input, read_batches
from yarnps.data._growing import Cut, cut_of
from yarnps.protocol.settings import BATCH_ROWS
from yarnps.spec import Block

GROWING = DataSettings(growing=True, seed=5)
FIRST_SPLIT, LATER_SPLIT = (0.0, 0.25), (0.75, 1.0)


@pytest.fixture
def split(write: Write) -> Split:
    """70,000 rows; row i has the label i."""
    path = write("a.svm", "".join(f"{row} {row}:1\n" for row in range(70_000)))
    (split,) = list_input(str(path), replace(GROWING, split_size=1 << 30), workers=1).splits
    return split


def read(split: Split, span: tuple[float, float] | None, from_batch: int = 0) -> list[RawBatch]:
    return list(read_batches(split, GROWING, epoch=1, from_batch=from_batch, span=span))


def sizes(batches: list[RawBatch]) -> list[int]:
    return [len(batch.rows) for batch in batches]


def labels(batch: RawBatch) -> list[float]:
    found: list[float] = batch.rows.labels.tolist()  # type: ignore[union-attr]
    return found


def test_the_first_batches_of_a_training_are_small(split: Split) -> None:
    expected = [256] * 64 + [512] * 32 + [1024] * 32 + [2048, 2048, 368]
    assert sizes(read(split, FIRST_SPLIT)) == expected


def test_a_later_splits_are_as_large_as_its_place_says(split: Split) -> None:
    """Three times its own bytes came before: at 128 bytes a row, 20,000 rows."""
    before = 3 * split.length // 128
    assert 512 <= before / 32 < 1024
    found = sizes(read(split, LATER_SPLIT))
    assert found[:32] == [512] * 32
    assert found[32] == 1024
    assert sum(found) == 70_000


@pytest.mark.parametrize("span", [FIRST_SPLIT, LATER_SPLIT])
def test_whoever_reads_on_gets_the_same_batches(split: Split, span: tuple[float, float]) -> None:
    whole = read(split, span)
    assert [batch.index for batch in whole] == list(range(len(whole)))
    before = np.cumsum([0, *sizes(whole)])
    assert [batch.rows_before for batch in whole] == before[:-1].tolist()
    assert sorted(label for batch in whole for label in labels(batch)) == list(range(70_000))
    for first in (1, 31, 32, 33, 64, 70, len(whole) - 1):
        rest = read(split, span, from_batch=first)
        assert [batch.index for batch in rest] == list(range(first, len(whole)))
        assert [batch.rows_before for batch in rest] == before[first:-1].tolist()
        assert [labels(batch) for batch in rest] == [labels(batch) for batch in whole[first:]]


def test_outside_of_training_they_do_not_grow(split: Split) -> None:
    found = sizes(read(split, None))
    assert set(found[:-1]) == {BATCH_ROWS}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(0, 256), (16_383, 256), (16_384, 512), (65_535, 1024), (65_536, 2048), (10**9, 8192)],
)
def test_a_batch_has_at_most_a_thirty_second_of_the_rows_before_it(
    rows: int, expected: int
) -> None:
    assert Cut(16_384, None, rows).batch_rows(0) == expected
    assert Cut(16_384, None, 0).batch_rows(rows) == expected


def test_a_group_holds_the_shuffle_buffer_in_whole_batches() -> None:
    def group(buffer: int, shuffle: bool = True, **settings: Any) -> int:
        made = DataSettings(shuffle_buffer=buffer, **settings)
        return cut_of(made, 1000, shuffle=shuffle, span=(0.0, 0.5)).group_rows

    assert group(10_000, growing=True) == 16_384
    assert group(20_000, growing=True) == 32_768
    assert group(10_000, shuffle=False, growing=True) == 16_384
    assert group(10_000, batch_rows=2048) == 10_240
    assert group(10_000, shuffle=False, batch_rows=2048) == 2048


@pytest.mark.parametrize(
    ("app", "train", "expected"),
    [
        ("ftrl", {}, (BATCH_ROWS, True)),
        ("ftrl", {"batch_rows": 700}, (700, False)),
        ("ftrl", {"batch_rows": 2048}, (2048, False)),
        ("fm", {}, (BATCH_ROWS, False)),
        (None, {}, (BATCH_ROWS, False)),
    ],
)
def test_a_job_file_that_gives_a_size_means_it(
    app: str | None, train: dict[str, int], expected: tuple[int, bool]
) -> None:
    block = Block.model_validate({"app": app, "data": {"train": "x"}, "train": train})
    settings = DataSettings.from_block(block)
    assert (settings.batch_rows, settings.growing) == expected
    as_workers_get_it = json.dumps({"block": block.model_dump(mode="json")})
    assert DataSettings.from_job_json(as_workers_get_it) == settings
