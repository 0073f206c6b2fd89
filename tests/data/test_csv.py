from __future__ import annotations

import gzip
import math

import pytest
from reading import Read, Write, plain, read_all

from yarnps._errors import DataError
from yarnps.data import CsvSettings, DataSettings, hash64, read_file

DIST, UA, AA = hash64("dist"), hash64("carrier=UA"), hash64("carrier=A,A")


def read(path: object, **more: object) -> Read:
    return read_all(str(path), format="csv", label="late", **more)  # type: ignore[arg-type]


def test_numbers_and_texts_become_features(write: Write) -> None:
    path = write("a.csv", 'late,carrier,dist\n1,UA,3.5\n0,"A,A",NA\n')
    assert read(path).rows == [(1, {UA: 1, DIST: 3.5}), (0, {AA: 1})]


def test_columns_are_matched_by_name_in_every_file(write: Write) -> None:
    write("a.csv", "late,carrier,dist\n1,UA,3\n")
    path = write("b.csv", "dist,late,carrier\r\n4,0,UA\r\n")
    rows = read(path.parent).rows
    assert rows == [(1, {UA: 1, DIST: 3}), (0, {DIST: 4, UA: 1})]


@pytest.mark.parametrize("size", [1, 3, 8, 20, 1000])
def test_the_header_is_no_record_whatever_the_split_size(write: Write, size: int) -> None:
    path = write("a.csv", "\ufefflate,dist\n" + "".join(f"1,{n}\n" for n in range(20)))
    rows = read(path, split_size=size).rows
    assert rows == [(1, {DIST: n}) for n in range(20)]


def test_bad_records_have_their_line(write: Write) -> None:
    path = write(
        "a.csv",
        'late,carrier,dist\nx,UA,1\n1,UA\n\n,UA,1\n1,UA,inf\n1,"UA,2\n1,UA,1e39\n0,UA,2\n',
    )
    for size in (9, 1000):
        found = read(path, split_size=size)
        assert found.rows == [(0, {UA: 1, DIST: 2})]
        assert [(bad.line, bad.error.split(" (")[0]) for bad in found.bad] == [
            (2, "column 'late' is not a number: 'x'"),
            (3, "2 fields, but the file has 3 columns"),
            (5, "no label in 'late'"),
            (6, "column 'dist' is not finite: 'inf'"),
            (7, "a quote is not closed in its line"),
            (8, "column 'dist' is not finite: '1e39'"),
        ]


def test_a_missing_column_names_the_file(write: Write) -> None:
    write("a.csv", "late,dist\n1,2\n")
    path = write("b.csv", "late,distance\n1,2\n")
    with pytest.raises(DataError, match=r"no column 'dist', .* has: file:.*b\.csv"):
        read(path.parent)
    with pytest.raises(DataError, match=r"no column 'dist' \(data\.features\): .*b\.csv") as caught:
        read(path.parent, features=("dist",))
    assert "Did you mean 'distance'?" in caught.value.remedy
    with pytest.raises(DataError, match=r"no column 'late' \(data\.label\): .*c\.csv"):
        read(write("c.csv", "Late,dist\n1,2\n"))
    with pytest.raises(DataError, match=r"data\.label is not set"):
        read_all(path, format="csv")
    with pytest.raises(DataError, match="same name, 'x'"):
        read(write("d.csv", "late,x,x\n1,2,3\n"))


def test_chosen_columns_and_kinds(write: Write) -> None:
    path = write("a.csv", "label,hour,flight,id,w\n1,7,12,9223372036854775807,0.5\n0,x,AA,5,\n")
    kinds = ("hour:number", "flight:category", "id:id:w")
    found = read_all(path, format="csv", features=kinds)
    assert found.rows == [
        (1, {hash64("hour"): 7, hash64("flight=12"): 1, 9223372036854775807: 0.5})
    ]
    assert [bad.error for bad in found.bad] == ["column 'hour' is not a number: 'x'"]
    ids = read_all(path, format="csv", features=("id:id",)).rows
    assert ids == [(1, {9223372036854775807: 1}), (0, {5: 1})]


def test_other_signs_and_no_header(write: Write) -> None:
    path = write("a.csv", "1;'a;b';-\n0;c;2\n")
    settings = CsvSettings(delimiter=";", quote="'", header=False, nulls=("-",))
    for size in (5, 1000):
        rows = read_all(path, format="csv", label="0", csv=settings, split_size=size).rows
        assert rows == [(1, {hash64("1=a;b"): 1}), (0, {hash64("1=c"): 1, hash64("2"): 2})]


def test_quoted_line_feeds_with_multiline(write: Write) -> None:
    path = write("a.csv", 'late,carrier\n1,"U\nA"\n0,b,c\n1,d\n')
    found = read(path, csv=CsvSettings(multiline=True), split_size=5)
    assert found.rows == [(1, {hash64("carrier=U\nA"): 1}), (1, {hash64("carrier=d"): 1})]
    assert [(bad.line, bad.error) for bad in found.bad] == [
        (4, "3 fields, but the file has 2 columns")
    ]


def test_folders_are_columns(write: Write) -> None:
    write("day=3/late=1/a.csv", "carrier,day\nUA,9\n")
    path = write("day=__HIVE_DEFAULT_PARTITION__/late=0/a.csv", "carrier,day\nUA,9\n")
    rows = read(path.parents[2]).rows
    assert rows == [(1, {UA: 1, hash64("day"): 3}), (0, {UA: 1})]


def test_compressed(write: Write) -> None:
    path = write("a.csv.gz", gzip.compress(b"late,dist\n1,2\n") + gzip.compress(b"0,3\n"))
    assert read(path, split_size=4).rows == [(1, {DIST: 2}), (0, {DIST: 3})]


def test_prediction_needs_no_label(write: Write) -> None:
    path = write("a.csv", "carrier,dist\nUA,3\n")
    settings = DataSettings(format="csv", label="late")
    (batch,) = read_file(str(path), settings)
    ((label, entries),) = plain(batch.rows)
    assert math.isnan(label)
    assert entries == {UA: 1, DIST: 3}


def test_a_long_cell_and_bytes_that_are_no_text(write: Write) -> None:
    long = "x" * 300_000
    path = write("a.csv", b"late,carrier\n1," + long.encode() + b"\n1,\xff\n0,UA\n")
    found = read(path)
    assert found.rows == [(1, {hash64(f"carrier={long}"): 1}), (0, {UA: 1})]
    assert [bad.line for bad in found.bad] == [3]


def test_the_cache_of_texts_is_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarnps.data._columns._CACHED_TEXTS", 10)
    path = write("a.csv", "late,dist\n" + "".join(f"1,{n}\n" for n in range(100)))
    monkeypatch.setattr("yarnps.files._base.PIECE_BYTES", 50)
    assert read(path).rows == [(1, {DIST: n}) for n in range(100)]
