from __future__ import annotations

import random

import numpy as np
import pytest
from reading import Write, plain, read_all

from yarnps.data._libsvm import LibsvmParser, explain, parse_line
from yarnps.data._lines import Block


def parsed(text: str | bytes) -> tuple[list[tuple[float, dict[int, float]]], list[int]]:
    data = text.encode() if isinstance(text, str) else text
    rows, wrong = LibsvmParser().parse(Block(data, 0, 0, len(data)))
    return list(plain(rows)), wrong


@pytest.mark.parametrize(
    ("line", "label", "entries"),
    [
        ("1 0:1 3:2.5", 1, {0: 1, 3: 2.5}),
        ("-1 1:1e-3", -1, {1: float(np.float32(1e-3))}),
        ("+1\t7:.5  8:+1 ", 1, {7: 0.5, 8: 1}),
        ("0.25", 0.25, {}),
        ("  2 5:-4. # 6:1", 2, {5: -4}),
        ("1 5:4#6:1", 1, {5: 4}),
        ("0 qid:12 3:1", 0, {3: 1}),
        ("1 9223372036854775807:1 -5:2", 1, {9223372036854775807: 1, -5: 2}),
        ("1 -9223372036854775807:1", 1, {-9223372036854775807: 1}),
        ("1 0000000000000000000000007:1", 1, {7: 1}),
        ("1 9007199254740993:1", 1, {9007199254740993: 1}),
        ("1 3:1 2:5 3:2.5", 1, {3: 3.5, 2: 5}),
        ("1 3:1 3:2", 1, {3: 3}),
        ("1 1:-0.0 2:0", 1, {1: 0, 2: 0}),
        ("1 1:1e-60 2:1E+5", 1, {1: 0, 2: 1e5}),
        ("1 1:1\r", 1, {1: 1}),
    ],
)
def test_records_are_read_as_written(line: str, label: float, entries: dict[int, float]) -> None:
    assert parsed(line) == ([(label, entries)], [])
    _, keys, values = parse_line(line.encode())
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == entries


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("x 1:1", "the label is not a number: 'x'"),
        ("nan 1:1", "the label is not finite: 'nan'"),
        ("1e39 1:1", "the label is too large for 32 bits: '1e39'"),
        ("1:1 2:2", "the label is not a number: '1:1'"),
        ("1 5", "expected id:value, found '5'"),
        ("1 a:1", "the feature id is not an integer: 'a:1'"),
        ("1 1.5:1", "the feature id is not an integer: '1.5:1'"),
        ("1 :1", "the feature id is not an integer: ':1'"),
        ("1 9223372036854775808:1", "the feature id is beyond 64 bits: '9223372036854775808:1'"),
        ("1 99999999999999999999999:1", "the feature id is beyond 64 bits"),
        ("1 1:", "the value is not a number: ''"),
        ("1 1:2:3", "the value is not a number: '2:3'"),
        ("1 1:0x10", "the value is not a number: '0x10'"),
        ("1 1:1_0", "the value is not a number: '1_0'"),
        ("1 1:1e", "the value is not a number: '1e'"),
        ("1 1:-Inf", "the value is not finite: '-Inf'"),
        ("1 1:infinity", "the value is not finite: 'infinity'"),
        ("1 1:infinite", "the value is not a number: 'infinite'"),
        ("1 1:1e999", "the value is too large for 32 bits: '1e999'"),
        ("1 2:3e38 2:3e38", "the sum of a repeated feature is not finite"),
        ("1 qid: 3:1", "the feature id is not an integer: 'qid:'"),
        ("1,2,3", "the label is not a number: '1,2,3'"),
    ],
)
def test_bad_records_are_found_and_explained(line: str, error: str) -> None:
    with np.errstate(over="ignore"):
        assert explain(line.encode()).startswith(error)
    assert parsed(f"1 1:1\n{line}\n0 2:1") == ([(1, {1: 1}), (0, {2: 1})], [6])


def test_bytes_that_are_no_text_are_a_bad_record() -> None:
    assert parsed(b"1 1:1\n\xff\xfe 1:1\n1 1:\xc3\n") == ([(1, {1: 1})], [6, 13])


def test_numbers_are_those_of_python_to_the_last_bit() -> None:
    rng = random.Random(5)
    texts = []
    for _ in range(20_000):
        texts.append(repr(rng.random() * 10 ** rng.randint(-46, 37)))
        texts.append(f"{rng.random() * 10 ** rng.randint(-40, 37):.25e}")
        texts.append(str(rng.randint(0, 10 ** rng.randint(1, 30))))
        # Exactly between two float32, and next to it: the last bit is decided far behind.
        middle = float(np.float32(rng.random())) + 2.0**-25 * 2.0 ** -rng.randint(1, 3)
        texts += [f"{middle:.40f}", f"{middle:.40f}1"]
        # As most files have them.
        sign = rng.choice(("", "-"))
        texts.append(f"{sign}{rng.random() * 10 ** rng.randint(-3, 9):.{rng.randint(0, 12)}f}")
    texts += ["-0", "0.0", "5.", ".5", "-.25", "000000000000001", "0.000000000000001"]
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    for place, lines in (("labels", texts), ("values", [f"1 3:{text}" for text in texts])):
        rows, wrong = LibsvmParser().parse(Block("\n".join(lines).encode(), 0, 0, 0))
        assert wrong == []
        found = getattr(rows, place)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_the_compiled_parser_does_what_the_plain_one_does() -> None:
    rng = random.Random(7)
    pieces = [
        "1",
        "-1",
        ":",
        " ",
        " ",
        "\t",
        "2:",
        "3:1",
        " 7:1",
        " 07:-2.5",
        "\r",
        "\x01",
        ".5",
        "e3",
        "#",
        "nan",
        "qid:",
        "+",
        "9" * 19,
    ]
    lines = ["".join(rng.choices(pieces, k=rng.randint(1, 9))) for _ in range(20_000)]
    data = "\n".join(lines).encode()
    rows, wrong = LibsvmParser().parse(Block(data, 0, 0, 0))
    expected, bad, place = [], [], 0
    for line in lines:
        if line.split("#")[0].strip():
            try:
                label, keys, values = parse_line(line.encode())
                entries = dict(zip(keys.tolist(), values.tolist(), strict=True))
                expected.append((float(label), entries))
            except ValueError:
                bad.append(place)
        place += len(line) + 1
    assert wrong == bad
    assert list(plain(rows)) == expected
    assert len(expected) > 1000
    assert len(bad) > 1000


def test_a_long_row_with_repeats(write: Write) -> None:
    keys = [key % 30_000 for key in range(90_000)]
    path = write("a", "1 " + " ".join(f"{key}:1" for key in keys) + "\n0 4:1 4:1\n")
    rows = read_all(path).rows
    assert rows == [(1, dict.fromkeys(range(30_000), 3.0)), (0, {4: 2})]
