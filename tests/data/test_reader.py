from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reading import Write, plain, read_all

from yarnps.data import (
    DataSettings,
    RawBatch,
    Records,
    Rows,
    Split,
    list_input,
    read_batches,
    read_file,
)
from yarnps.files import _base


@pytest.fixture
def split(write: Write) -> Split:
    """One split of 1,000 rows; row i has the label i."""
    path = write("a.svm", "".join(f"{row} {row}:1 7000:2\n" for row in range(1000)))
    (split,) = list_input(str(path), SETTINGS, workers=1).splits
    return split


SETTINGS = DataSettings(batch_rows=64, shuffle_buffer=200, seed=3)


def labels(batches: list[RawBatch]) -> list[list[float]]:
    return [batch.rows.labels.tolist() for batch in batches]  # type: ignore[union-attr]


def joined(parts: list[list[float]]) -> list[float]:
    return [label for part in parts for label in part]


def read(
    split: Split, settings: DataSettings = SETTINGS, epoch: int = 0, from_batch: int = 0
) -> list[RawBatch]:
    return list(read_batches(split, settings, epoch=epoch, from_batch=from_batch))


def test_every_row_is_there_once_with_its_own_entries(split: Split) -> None:
    batches = read(split)
    assert sorted(joined(labels(batches))) == list(range(1000))
    for batch in batches:
        for label, entries in plain(batch.rows):
            assert entries == ({label: 1, 7000: 2})
    assert [len(batch.rows) for batch in batches] == [64] * 15 + [40]
    assert [batch.index for batch in batches] == list(range(16))
    assert [batch.rows_before for batch in batches] == [64 * number for number in range(16)]
    read_so_far = [batch.bytes_read for batch in batches]
    assert read_so_far == sorted(read_so_far)
    assert read_so_far[-1] == split.length
    assert read_so_far[7] == pytest.approx(split.length / 2, rel=0.1)


def test_rows_change_places_within_the_buffer_only(split: Split) -> None:
    order = joined(labels(read(split)))
    assert order != sorted(order)
    assert sorted(order[:256]) == list(range(256))  # 200 rows rounded up to whole batches
    assert sorted(order[256:512]) == list(range(256, 512))


def test_content_depends_on_seed_epoch_split_and_batch_only(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = labels(read(split))
    monkeypatch.setattr(_base, "PIECE_BYTES", 100)
    assert labels(read(split)) == first
    monkeypatch.setattr(_base, "PIECE_BYTES", 10_000_000)
    assert labels(read(split)) == first
    assert labels(read(split, epoch=1)) != first
    assert labels(read(split, DataSettings(batch_rows=64, shuffle_buffer=200, seed=4))) != first
    assert labels(read(replace(split, id=1))) != first


@pytest.mark.parametrize("from_batch", [1, 3, 4, 5, 15, 16])
def test_a_split_is_resumed_at_any_batch(split: Split, from_batch: int) -> None:
    whole = read(split)
    rest = read(split, from_batch=from_batch)
    assert labels(rest) == labels(whole[from_batch:])
    assert [batch.rows_before for batch in rest] == [b.rows_before for b in whole[from_batch:]]


def test_without_shuffle_the_order_is_the_files(split: Split) -> None:
    batches = list(read_batches(split, SETTINGS, epoch=0, shuffle=False))
    assert joined(labels(batches)) == list(range(1000))
    none = DataSettings(batch_rows=64, shuffle_buffer=0)
    assert joined(labels(read(split, none))) == list(range(1000))


def test_bad_records_are_cumulative_also_after_a_resume(write: Write) -> None:
    lines = [f"{row} 1:1" for row in range(100)]
    lines[5] = lines[60] = lines[99] = "bad"
    path = write("a.svm", "\n".join(lines))
    settings = DataSettings(batch_rows=10, shuffle_buffer=0)
    (split,) = list_input(str(path), settings, workers=1).splits
    batches = read(split, settings)
    assert batches[-1].bad_total == 3
    assert [bad.line for batch in batches for bad in batch.bad] == [6, 61, 100]
    assert read(split, settings, from_batch=9)[-1].bad_total == 3


def test_only_bad_records_give_one_batch_without_rows(write: Write) -> None:
    read_it = read_all(write("a.svm", "bad\n" * 50))
    assert [(batch.index, len(batch.rows)) for batch in read_it.batches] == [(0, 0)]
    assert read_it.bad_total == 50
    assert len(read_it.bad) == 20  # the first few; the rest are counted
    assert read_it.batches[0].bytes_read == 200


def test_read_file_gives_all_rows_in_order(split: Split) -> None:
    batches = list(read_file(split.path, SETTINGS))
    assert joined(labels(batches)) == list(range(1000))


def test_rows_can_be_cut_taken_and_joined() -> None:
    rows = Rows(
        np.array([1, 2, 3], np.float32),
        np.array([0, 2, 2, 3], np.int64),
        np.array([5, 6, 7], np.int64),
        np.array([0.5, 1, 2], np.float32),
    )
    plain_rows = [(1.0, {5: 0.5, 6: 1.0}), (2.0, {}), (3.0, {7: 2.0})]
    assert list(plain(rows)) == plain_rows
    assert list(plain(rows.slice(1, 3))) == plain_rows[1:]
    assert list(plain(rows.take(np.array([2, 0])))) == [plain_rows[2], plain_rows[0]]
    whole = Rows.concat([rows.slice(1, 3), Rows.empty(), rows])
    assert list(plain(whole)) == plain_rows[1:] + plain_rows
    assert len(Rows.concat([])) == 0
    order = np.array([4, 0, 3, 1, 2])
    shuffled = Rows.shuffled([rows.slice(1, 3), Rows.empty(), rows], order)
    assert list(plain(shuffled)) == list(plain(whole.take(order)))
    assert Records(["a", "b"]).take(np.array([1, 0])).items == ["b", "a"]


def test_a_split_survives_the_protocol() -> None:
    split = Split(3, "hdfs:///a=1/b", 10, 20, 100, -1, ("n1", "n2"), (("a", "1"), ("z", "x")))
    assert Split.from_pb(split.to_pb()) == split


def test_bad_records_after_the_last_full_batch_are_counted(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_base, "PIECE_BYTES", 8)
    path = write("a.svm", "".join(f"{row} 1:1\n" for row in range(8)) + "bad\n" * 5)
    settings = DataSettings(batch_rows=4, shuffle_buffer=4)
    (split,) = list_input(str(path), settings, workers=1).splits
    batches = read(split, settings)
    assert [len(batch.rows) for batch in batches] == [4, 4]
    assert batches[-1].bad_total == 5
    assert [bad.line for bad in batches[-1].bad] == [9, 10, 11, 12, 13]
