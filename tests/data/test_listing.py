from __future__ import annotations

import os
from pathlib import Path

import pytest
from reading import Write

from yarnps._errors import DataError
from yarnps.data import DataSettings, list_input
from yarnps.data._listing import MAX_SPLIT, MIN_SPLIT, auto_split_size, partition_of

TEXT = DataSettings(format="text")


def names(tmp_path: Path, address: str) -> list[str]:
    listing = list_input(f"{tmp_path}/in/{address}", TEXT, workers=1)
    root = f"file://{tmp_path}/in/"
    return [split.path.removeprefix(root) for split in listing.splits]


def test_hidden_and_empty_files_are_named_and_not_read(write: Write, tmp_path: Path) -> None:
    for name in ("b", "a", "sub/c", "_SUCCESS", ".x.crc", "_temporary/0/d", "e._COPYING_", "f.crc"):
        write(name, "x\n")
    write("empty", "")
    os.symlink(tmp_path / "nowhere", tmp_path / "in" / "link")
    listing = list_input(str(tmp_path / "in"), TEXT, workers=1)
    assert names(tmp_path, "") == ["a", "b", "sub/c"]
    assert listing.files == 3
    assert listing.bytes == 6
    assert {Path(path).name: why for path, why in listing.skipped} == {
        "_SUCCESS": "a hidden file (its name starts with _)",
        ".x.crc": "a hidden file (its name starts with a dot)",
        "_temporary": "a hidden file (its name starts with _)",
        "e._COPYING_": "a copy that is not complete",
        "f.crc": "a checksum",
        "empty": "the file is empty",
        "link": "the file is empty",
    }


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["_h=1/e", "a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("*.txt", ["a.txt", "b.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("{a,sub/c}.txt", ["a.txt", "sub/c.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]),
        ("su?", ["sub/c.txt", "sub/deep/d.txt"]),
        ("_hidden", ["_hidden"]),
        ("we[i]rd", ["we[i]rd"]),
    ],
)
def test_globs(write: Write, tmp_path: Path, pattern: str, expected: list[str]) -> None:
    for name in ("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt", "_hidden", "_h=1/e"):
        write(name, "x\n")
    if pattern.startswith("we"):
        write("we[i]rd", "x\n")
    assert names(tmp_path, pattern) == expected


def test_what_matches_nothing_is_named(write: Write, tmp_path: Path) -> None:
    write("a", "x\n")
    for address in ("nope", "nope/*.txt", "*.csv"):
        with pytest.raises(DataError, match=r"matches nothing: .*") as caught:
            list_input([f"{tmp_path}/in/a", f"{tmp_path}/in/{address}"], TEXT, workers=1)
        assert address in str(caught.value)
    write("sub/_SUCCESS", "x")
    write("sub/empty", "")
    with pytest.raises(DataError, match=r"holds no file with data: .*/sub"):
        list_input(f"{tmp_path}/in/sub", TEXT, workers=1)


def test_a_file_named_twice_is_read_once(write: Write, tmp_path: Path) -> None:
    path = write("a", "x\n")
    listing = list_input([str(path), f"{tmp_path}/in/*", f"file://{path}"], TEXT, workers=1)
    assert listing.files == 1


def test_splits_cover_the_file(write: Write) -> None:
    path = write("a", "x\n" * 500)
    settings = DataSettings(format="text", split_size=300)
    splits = list_input(str(path), settings, workers=1).splits
    assert [split.length for split in splits] == [250] * 4
    assert [split.start for split in splits] == [0, 250, 500, 750]
    assert [split.id for split in splits] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("total", "workers", "size"),
    [(100, 3, MIN_SPLIT), (1 << 30, 8, 1 << 25), (1 << 40, 8, MAX_SPLIT)],
)
def test_the_automatic_size(total: int, workers: int, size: int) -> None:
    assert auto_split_size(total, workers) == size


def test_folders_as_columns() -> None:
    path = "hdfs:///data/day=2024-01-01/name=a%3Db%2Fc/z=__HIVE_DEFAULT_PARTITION__/x=1.csv"
    assert partition_of(path) == (("day", "2024-01-01"), ("name", "a=b/c"), ("z", ""))


def test_compressions_that_cannot_be_read_are_named(write: Write) -> None:
    path = write("a.snappy", "x")
    with pytest.raises(DataError, match=r"compressed as \.snappy cannot be read: .*a\.snappy"):
        list_input(str(path), TEXT, workers=1)
