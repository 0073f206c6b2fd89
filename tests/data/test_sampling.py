from __future__ import annotations

from typing import Any

import pytest
from reading import Write

from yarnps.data import DataSettings, Sample, list_input, sample


def look(path: object, **settings: Any) -> Sample:
    wanted = DataSettings(**settings)
    return sample(list_input(str(path), wanted, workers=1), wanted)


def test_ten_records_as_the_program_sees_them(write: Write) -> None:
    seen = look(write("a.svm", "".join(f"1 {n}:0.5 3:1\n" for n in range(50, 100))))
    assert seen.records[:2] == ("label 1  50:0.5 3:1", "label 1  51:0.5 3:1")
    assert len(seen.records) == 10
    assert seen.looked_at == 50
    assert seen.problems == ()


def test_named_columns_are_shown_by_name(write: Write) -> None:
    seen = look(write("a.csv", "label,carrier,dist\n1,UA,3\n"), format="csv")
    assert seen.records == ("label 1  carrier=UA:1 dist:3",)


def test_text(write: Write) -> None:
    assert look(write("a.txt", "so it is\n"), format="text").records == ("'so it is'",)


@pytest.mark.parametrize(
    ("name", "content", "format", "hint"),
    [
        ("a", "label,x\n1,2\n", "libsvm", "The file looks like csv: check data.format."),
        ("a", "1 1:1 2:1\n", "csv", "The file looks like libsvm: check data.format."),
        ("a", b"PAR1\0\0", "libsvm", "The file looks like parquet: check data.format."),
        ("a", b"\x1f\x8b\x08\0\0", "libsvm", "looks like gzip (.gz), but its name does not end so"),
    ],
)
def test_a_wrong_format_is_a_problem_with_a_hint(
    write: Write, name: str, content: str | bytes, format: str, hint: str
) -> None:
    path = write(name, content)
    settings = DataSettings(format=format)  # type: ignore[arg-type]
    if format == "csv":  # found when the header is looked at
        with pytest.raises(Exception, match=r"data\.label is not set"):
            list_input(str(path), settings, workers=1)
        return
    seen = look(path, format=format)
    assert len(seen.problems) == 1
    assert hint in seen.problems[0]
    assert f"file://{path}" in seen.problems[0]


def test_one_odd_file_among_many_is_found(write: Write) -> None:
    for number in range(7):
        path = write(f"{number}.svm", "1 1:1\n")
    write("5.svm", "1 1:1\noops\n")
    seen = look(path.parent)
    assert seen.bad_total == 1
    assert seen.looked_at == 7
    (problem,) = seen.problems
    assert "5.svm\n  line 2: the label is not a number: 'oops'" in problem
    assert look(path.parent, max_bad=1).problems == ()
    assert look(path.parent, max_bad=0.001).problems == ()
