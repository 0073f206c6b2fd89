"""Whole splits to the program, and what it makes of them in the job directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from yarnps._errors import YarnpsError
from yarnps.protocol import control_pb2 as pb
from yarnps.worker.feed import Parsed
from yarnps.worker.leases import Held
from yarnps.worker.preparing import PreparedFiles, SplitBatches, result_of


def held(split: int, name: str = "abc") -> Held:
    return Held(1, "prepare", pb.SplitInfo(id=split), 1, 0, 0, input=name)


MINE, OTHER = held(7), held(8)


def split_of(*read: Parsed | None) -> SplitBatches:
    following = iter(read[1:])
    assert read[0] is not None
    return SplitBatches(read[0], lambda: next(following), lambda parsed: parsed.raw)


def lines(*texts: str) -> Parsed:
    return Parsed(MINE, list(texts))


def joined(batches: Iterator[Any]) -> bytes:
    return "".join(line for batch in batches for line in batch).encode()


def test_all_batches_of_a_split_and_empty_ones_passed_over() -> None:
    split = split_of(lines("a", "b"), lines(), lines("c"), Parsed(MINE))
    assert result_of(split, joined) == b"abc"
    assert split.end == Parsed(MINE)


def test_a_split_without_records_has_a_result_too() -> None:
    assert result_of(split_of(Parsed(MINE)), joined) == b""


def test_what_the_program_leaves_is_read_past() -> None:
    split = split_of(lines("a"), lines("b"), Parsed(MINE))
    assert result_of(split, lambda batches: b"".join(t.encode() for t in next(batches))) == b"a"  # type: ignore[attr-defined]
    assert split.end == Parsed(MINE)


@pytest.mark.parametrize("then", [Parsed(OTHER, ["x"]), Parsed(OTHER), None])
def test_a_lost_lease_has_no_result_and_what_came_instead_is_handed_on(then: Parsed | None) -> None:
    split = split_of(lines("a"), then)
    assert result_of(split, joined) is None
    assert (split.end, split.beyond, split.void) == (None, then, True)


def test_half_a_split_is_no_result() -> None:
    """Not even when the program takes the end of the batches for the end of the split."""
    error = Parsed(MINE, error=OSError("gone"))
    split = split_of(lines("a"), error)
    assert result_of(split, lambda batches: b"".join(b"" for _ in batches)) is None
    assert split.end == error


def careless(batches: Iterator[Any]) -> bytes:
    try:
        return joined(batches)
    except Exception:  # noqa: BLE001 - as programs do
        return b"half"


def test_a_program_that_swallows_the_error_has_no_result_either() -> None:
    assert result_of(split_of(lines("a"), None), careless) is None


@pytest.mark.parametrize("prepare", [None, lambda batches: "text"])
def test_without_a_function_or_bytes(prepare: Any) -> None:
    with pytest.raises(YarnpsError, match="prepare"):
        result_of(split_of(lines("a"), Parsed(MINE)), prepare)


def kept(folder: Path, leases: Sequence[Held]) -> PreparedFiles:
    files = PreparedFiles(f"file://{folder}")
    for lease in leases:
        files.keep(lease, b"of %d" % lease.split.id)
    return files


def test_results_come_in_the_order_of_splits_once_each(tmp_path: Path) -> None:
    files = kept(tmp_path, [held(11), held(2), held(2), held(0)])
    assert files.read("abc") == [b"of 0", b"of 2", b"of 11"]


def test_results_of_another_input_and_half_written_files_are_not_read(tmp_path: Path) -> None:
    files = kept(tmp_path, [held(1), held(3, "older")])
    (tmp_path / "prepared" / "abc" / ".00000002.tmp").write_bytes(b"ha")
    assert files.read("abc") == [b"of 1"]
    assert files.read("unknown") == []
