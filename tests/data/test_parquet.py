from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

from reading import Read, Write, read_all  # noqa: E402

from yarnps._errors import DataError  # noqa: E402
from yarnps.data import hash64  # noqa: E402


def put(write: Write, name: str, columns: dict[str, Any], **options: Any) -> Path:
    path = write(name, b"")
    pq.write_table(pa.table(columns), path, **options)
    return path


def read(path: Path, **more: Any) -> Read:
    return read_all(path, format="parquet", label="y", **more)


def test_types_become_features(write: Write) -> None:
    path = put(
        write,
        "a.parquet",
        {
            "y": pa.array([1, 0], pa.int8()),
            "n": pa.array([1.5, None], pa.float32()),
            "big": pa.array([2, 3], pa.int64()),
            "b": [True, False],
            "c": ["UA", None],
            "d": pa.array(["x", "x"]).dictionary_encode(),
            "day": pa.array([0, None], pa.date32()),
        },
    )
    assert read(path).rows == [
        (
            1,
            {
                hash64("n"): 1.5,
                hash64("big"): 2,
                hash64("b"): 1,
                hash64("c=UA"): 1,
                hash64("d=x"): 1,
                hash64("day=1970-01-01"): 1,
            },
        ),
        (0, {hash64("big"): 3, hash64("b"): 0, hash64("d=x"): 1}),
    ]


def test_lists(write: Write) -> None:
    path = put(
        write,
        "a.parquet",
        {
            "y": [1, 0, 1],
            "ids": pa.array([[5, 2**62 + 1, 5], [], None], pa.list_(pa.int64())),
            "w": pa.array([[0.5, 1, 2], [], None], pa.list_(pa.float64())),
            "tags": [["a", None, "b"], ["a", "a"], None],
            "vector": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
        },
    )
    assert read(path, features=("ids",)).rows == [(1, {5: 2, 2**62 + 1: 1}), (0, {}), (1, {})]
    weighted = read(path, features=("ids:id:w",)).rows
    assert weighted == [(1, {5: 2.5, 2**62 + 1: 1}), (0, {}), (1, {})]
    a, b = hash64("tags=a"), hash64("tags=b")
    assert read(path, features=("tags",)).rows == [(1, {a: 1, b: 1}), (0, {a: 2}), (1, {})]
    first, second = hash64("vector[0]"), hash64("vector[1]")
    assert read(path, features=("vector",)).rows == [
        (1, {first: 1, second: 2}),
        (0, {first: 3, second: 4}),
        (1, {first: 5, second: 6}),
    ]


@pytest.mark.parametrize("size", [1, 300, 10_000_000])
def test_row_groups_are_read_once_whatever_the_split_size(write: Write, size: int) -> None:
    path = put(
        write, "a.parquet", {"y": list(range(100)), "n": list(range(100))}, row_group_size=10
    )
    found = read(path, split_size=size, batch_rows=7)
    assert found.rows == [(row, {hash64("n"): row}) for row in range(100)]
    if size == 1:
        assert len({batch.rows_before for batch in found.batches}) == 2  # ten splits of 7 + 3


def test_columns_are_matched_by_name(write: Write) -> None:
    path = put(write, "a.parquet", {"y": [1], "n": [2], "c": ["x"]})
    put(write, "b.parquet", {"c": ["x"], "n": [3], "y": [0]})
    n, c = hash64("n"), hash64("c=x")
    assert read(path.parent).rows == [(1, {n: 2, c: 1}), (0, {c: 1, n: 3})]
    put(write, "c.parquet", {"c": ["x"], "y": [0]})
    with pytest.raises(DataError, match=r"no column 'n', .*c\.parquet"):
        read(path.parent)


def test_folders_are_columns(write: Write) -> None:
    path = put(write, "hour=7/kind=x/a.parquet", {"y": [1]})
    expected = [(1, {hash64("hour"): 7, hash64("kind=x"): 1})]
    assert read(path.parents[2]).rows == expected


def test_bad_records_have_their_row(write: Write) -> None:
    path = put(
        write,
        "a.parquet",
        {
            "y": [1.0, None, float("inf"), 1, 1, 0],
            "n": [1.0, 1, 1, float("nan"), 1e300, 2],
        },
        row_group_size=2,
    )
    found = read(path, split_size=1)
    assert found.rows == [(1, {hash64("n"): 1}), (0, {hash64("n"): 2})]
    assert [(bad.line, bad.error) for bad in found.bad] == [
        (2, "no label in 'y'"),
        (3, "the label in 'y' is not finite"),
        (4, "column 'n' is not finite"),
        (5, "column 'n' is not finite"),
    ]


def test_ids_beyond_64_bits_and_lists_of_unequal_length(write: Write) -> None:
    path = put(
        write,
        "a.parquet",
        {
            "y": [1, 1, 0],
            "ids": pa.array([[2**63], [1, 2], [3]], pa.list_(pa.uint64())),
            "w": [[1.0], [1.0], [4.0]],
        },
    )
    found = read(path, features=("ids:id:w",))
    assert found.rows == [(0, {3: 4})]
    assert [(bad.line, bad.error) for bad in found.bad] == [
        (1, "a feature id in 'ids' is beyond 64 bits"),
        (2, "'ids' and 'w' are not of the same length"),
    ]


def test_columns_that_cannot_be_features_are_named(write: Write) -> None:
    path = put(write, "a.parquet", {"y": [1], "s": [{"a": 1}], "t": ["x"]})
    with pytest.raises(DataError, match=r"column 's' is of type struct.*a\.parquet"):
        read(path)
    with pytest.raises(DataError, match="column 't' is of type string, so it holds no feature ids"):
        read(path, features=("t:id",))


def test_what_is_no_parquet_is_named(write: Write) -> None:
    with pytest.raises(DataError, match=r"not a readable Parquet file: .*a\.parquet"):
        read(write("a.parquet", "hello"))


def test_without_pyarrow_the_remedy_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(write, "a.parquet", {"y": [1], "n": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError) as caught:
        read(path)
    assert "pip install 'yarnps[parquet]'" in caught.value.remedy
