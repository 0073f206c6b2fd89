"""Job files that are no YAML, or cannot be read at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnps.spec import JobFileError, load

YAML = [
    ("", "job.yaml: is empty: expected a mapping"),
    ("# only this\n", "job.yaml: is empty: expected a mapping"),
    ("- a\n- b\n", "job.yaml:1: expected a mapping (key: value) at the top"),
    ("name: x\nservices:\n\tworker: 1\n", "job.yaml:3: indented with a tab: YAML wants spaces"),
    (
        "name: x\nservices: {a: 1\n",
        "job.yaml:3: not valid YAML: expected ',' or '}', but got '<stream end>' "
        "(while parsing a flow mapping from line 2)",
    ),
    ("a: b: c\n", "job.yaml:1: not valid YAML: mapping values are not allowed here"),
    ("a: *b\n", "job.yaml:1: not valid YAML: found undefined alias 'b'"),
    ("a: !!python/none x\n", "job.yaml:1: a: the tag 'tag:yaml.org,2002:python/none' is not "
     "supported: write plain YAML"),
    ("a: &a [*a]\n", "job.yaml:1: a[0]: an alias (*name) of something that contains it"),
    ("? [1, 2]\n: 3\n", "job.yaml:1: a key must be a plain text, found a list or mapping"),
    ("a: 1\n---\nb: 1\n", "job.yaml:2: not valid YAML: but found another document "
     "(expected a single document in the stream from line 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), YAML)
def test_yaml_errors_have_their_line(text: str, expected: str) -> None:
    Path("job.yaml").write_text(text)
    with pytest.raises(JobFileError) as caught:
        load("job.yaml", site=[])
    assert expected in [str(problem) for problem in caught.value.problems]


def test_a_bomb_of_aliases_is_refused_soon() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    Path("job.yaml").write_text("\n".join(lines))
    with pytest.raises(JobFileError, match="more than 200000 values, counting aliases"):
        load("job.yaml", site=[])


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(JobFileError) as caught:
        load("missing.yaml", site=[])
    assert caught.value.what == "missing.yaml: no such file"
    Path("folder.yaml").mkdir()
    with pytest.raises(JobFileError) as caught:
        load("folder.yaml", site=[])
    assert caught.value.what == "folder.yaml: cannot be read: Is a directory"
    Path("latin.yaml").write_bytes(b"a: 1\nname: caf\xe9\n")
    with pytest.raises(JobFileError) as caught:
        load("latin.yaml", site=[])
    assert caught.value.what == "latin.yaml:2: is not UTF-8 text (byte 0xe9)"
