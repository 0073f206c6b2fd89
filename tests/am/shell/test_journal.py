"""The journal's file, record by record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yarnps.am import inputs as i
from yarnps.am.shell.journal import Journal, replay


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_what_may_wait_is_written_with_the_next_record_in_order(path: Path) -> None:
    journal = Journal(path)
    journal.append(b'{"n":1}', soon=True)
    assert list(replay(path)) == []
    journal.append(b'{"n":2}')
    assert [record["n"] for record in replay(path)] == [1, 2]
    journal.append(b'{"n":3}', soon=True)
    journal.flush()
    assert [record["n"] for record in replay(path)] == [1, 2, 3]
    journal.append(b'{"n":4}', soon=True)
    journal.close()
    assert [record["n"] for record in replay(path)] == [1, 2, 3, 4]


def test_a_snapshot_takes_the_place_of_what_waits(path: Path) -> None:
    journal = Journal(path)
    journal.append(b'{"n":1}', soon=True)
    journal.compact({"all": 1})
    journal.flush()
    assert list(replay(path)) == [{"snapshot": {"all": 1}}]
    journal.close()


def test_a_torn_line_is_cut_off(path: Path) -> None:
    path.write_bytes(b'{"n":1}\n{"n":')
    journal = Journal(path)
    journal.append(b'{"n":2}')
    journal.close()
    assert [record["n"] for record in replay(path)] == [1, 2]


@pytest.mark.parametrize(
    "event",
    [
        i.NodeSaid("worker", 3, b"ps15", bytes(range(256))),
        i.PortOpened("server", 0, 7000),
        i.KillOrdered("ada", 'a "reason" \n'),
    ],
)
def test_records_come_back_as_they_were(event: i.Input) -> None:
    read = json.loads(i.record(event, 1796055099.125))
    assert read["now"] == 1796055099.125
    assert i.decode(read["event"]) == event


def test_names_of_nodes_are_nothing_but_names() -> None:
    event = i.Listed((), (), racks={"pb": "/a", "tuple": "/b", "is": "/c", "bytes": "/d"})
    assert i.decode(json.loads(i.record(event, 1.0))["event"]) == event


def test_a_snapshot_larger_than_the_limit_is_not_made_with_every_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a job with very many splits."""
    monkeypatch.setattr("yarnps.am.shell.journal.COMPACT_BYTES", 100)
    journal = Journal(path)
    journal.append(b'"' + b"x" * 100 + b'"')
    assert journal.wants_compaction
    journal.compact({"splits": "x" * 500})
    written = 0
    while not journal.wants_compaction:
        journal.append(b'"' + b"x" * 98 + b'"')
        written += 1
    assert written == 6  # as much as the snapshot itself
    journal.close()
