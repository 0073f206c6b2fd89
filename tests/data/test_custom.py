from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reading import Write, read_all

from yarnps._errors import DataError
from yarnps.data import hash64
from yarnps.data._custom import load_function

PARSER = """
import numpy as np

def row(line):
    if line.startswith("#"):
        return None
    label, *words = line.split()
    return float(label), words, [1.0] * len(words)

def numbers(line):
    return np.float64(1), np.array([5, 5, 2**62]), np.array([1, 2, 3])

def words(line):
    return line.split()

def mixed(line):
    return (1, [1], [1]) if line == "1" else line

def strange(line):
    return (1.0, [2**70], [1]) if line == "big" else (1.0, [1], [1, 2])

value = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "my_parser.py").write_text(PARSER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(folder)
    load_function.cache_clear()
    yield
    sys.modules.pop("my_parser", None)


def test_rows_with_names_as_keys(write: Write) -> None:
    path = write("a", "1 a b a\n# no\n\nx a\n0 b\n")
    found = read_all(path, format="custom", parse="my_parser:row")
    assert found.rows == [(1, {hash64("a"): 2, hash64("b"): 1}), (0, {hash64("b"): 1})]
    assert [(bad.line, bad.text) for bad in found.bad] == [(4, "x a")]
    assert found.bad[0].error == "ValueError: could not convert string to float: 'x'"


def test_arrays(write: Write) -> None:
    found = read_all(write("a", "x\n"), format="custom", parse="my_parser:numbers")
    assert found.rows == [(1, {5: 3, 2**62: 3})]
    assert found.batches[0].rows.keys.dtype == np.int64  # type: ignore[union-attr]


def test_other_records(write: Write) -> None:
    found = read_all(
        write("a", "a b\r\nc\n"), format="custom", parse="my_parser:words", split_size=2
    )
    assert found.items == [["a", "b"], ["c"]]


def test_what_a_function_must_not_return(write: Write) -> None:
    found = read_all(write("a", "big\nx\n"), format="custom", parse="my_parser:strange")
    assert [bad.error for bad in found.bad] == [
        f"ValueError: the feature id is beyond 64 bits: {2**70}",
        "ValueError: 1 keys, but 2 values",
    ]
    with pytest.raises(DataError, match="for some lines and something else for others"):
        read_all(write("b", "1\n2\n"), format="custom", parse="my_parser:mixed")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no_such:f", "cannot import data.parse: no_such:f: ModuleNotFoundError"),
        ("my_parser:nope", "data.parse is not a function: my_parser:nope"),
        ("my_parser:value", "data.parse is not a function: my_parser:value"),
    ],
)
def test_functions_that_are_not_there(write: Write, name: str, error: str) -> None:
    with pytest.raises(DataError, match=error):
        read_all(write("a", "x\n"), format="custom", parse=name)
