from __future__ import annotations

import random

import pytest
from reading import Write, read_all

from yarnps._errors import DataError
from yarnps.data import FileChanged, list_input, read_batches
from yarnps.data._lines import line_blocks
from yarnps.data._settings import DataSettings
from yarnps.files import _base


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few bytes, so that every seam is met."""
    monkeypatch.setattr(_base, "PIECE_BYTES", 7)


FILES = [
    b"a\nbb\nccc\ndddd\n",
    b"a\nbb\nccc\ndddd",
    b"a\r\nbb\r\n\r\nccc\r\n",
    b"\n\n\na\n\n",
    b"one line that is longer than many splits and many pieces",
    b"short\n" + b"x" * 100 + b"\nshort\n" + b"y" * 50 + b"\nz\n",
    b"\xef\xbb\xbfa\nb\n",
    "ä\nöö\n☃☃☃\n".encode(),
    b"\n",
    b"a",
]


@pytest.mark.parametrize("content", FILES)
def test_any_split_size_gives_the_same_records(write: Write, content: bytes) -> None:
    path = write("a.txt", content)
    text = content.decode("utf-8-sig").replace("\r\n", "\n")
    expected = text.removesuffix("\n").split("\n")
    for size in range(1, len(content) + 2):
        read = read_all(path, format="text", split_size=size, batch_rows=2)
        assert read.items == expected, size
        assert read.bad_total == 0


def test_random_files_in_random_splits(write: Write) -> None:
    rng = random.Random(3)
    for number in range(40):
        lines = ["x" * int(rng.expovariate(0.1)) for _ in range(rng.randint(1, 40))]
        path = write(f"{number}.txt", rng.choice(["\n", "\r\n"]).join(lines) + "\n")
        size = rng.randint(1, path.stat().st_size + 3)
        assert read_all(path, format="text", split_size=size).items == lines


def test_a_split_owns_the_records_that_begin_in_it(write: Write) -> None:
    path = write("a.txt", "aa\nbb\ncc\ndd\n")  # 12 bytes, 4 splits
    settings = DataSettings(format="text", split_size=3)
    splits = list_input(str(path), settings, workers=1).splits
    assert [b"".join(block.data for block in line_blocks(split)) for split in splits] == [
        b"aa\n",
        b"bb\n",
        b"cc\n",
        b"dd\n",
    ]


@pytest.mark.parametrize("size", [1, 5, 10, 17, 1000])
def test_line_numbers_are_those_of_the_file(write: Write, size: int) -> None:
    lines = [f"1 {number}:1" for number in range(30)]
    lines[3] = lines[17] = lines[29] = "bad"
    path = write("a.svm", "\n".join(lines))
    read = read_all(path, split_size=size)
    assert [record.line for record in read.bad] == [4, 18, 30]
    assert read.bad_total == 3
    assert read.bad[0].path == f"file://{path}"
    assert read.bad[0].text == "bad"
    assert len(read.rows) == 27


def test_lines_that_are_not_utf8_are_bad_records(write: Write) -> None:
    path = write("a.txt", b"a\n\xff\xfe\xff\nc\n")
    read = read_all(path, format="text")
    assert read.items == ["a", "c"]
    assert [(bad.line, bad.text) for bad in read.bad] == [(2, r"\xff\xfe\xff")]


def test_utf16_is_named(write: Write) -> None:
    path = write("a.txt", "hello".encode("utf-16"))
    with pytest.raises(DataError, match=r"UTF-16, not UTF-8: file:.*a\.txt"):
        read_all(path, format="text")


def test_a_file_that_changed_is_named(write: Write) -> None:
    path = write("a.txt", "a\nb\n")
    settings = DataSettings(format="text")
    (split,) = list_input(str(path), settings, workers=1).splits
    path.write_text("a\nb\nc\n")
    with pytest.raises(FileChanged, match=r"changed .*a\.txt: 4 bytes then, 6 now"):
        list(read_batches(split, settings, epoch=0))
    path.unlink()
    with pytest.raises(DataError, match="no such file"):
        list(read_batches(split, settings, epoch=0))
