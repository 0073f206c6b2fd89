"""The event log and its numbers."""

from __future__ import annotations

from pathlib import Path

from yarnps.am.events import EventLog
from yarnps.status import Event


def event(text: str) -> Event:
    return Event(seq=0, time=1.0, kind="note", text=text)


def test_numbers_grow_over_restarts_and_attempts(tmp_path: Path) -> None:
    first = EventLog(tmp_path / "first.jsonl")
    assert [first.add(event("a")).seq, first.add(event("b")).seq] == [1, 2]
    again = EventLog(tmp_path / "first.jsonl")
    assert [e.text for e in again.after()] == ["a", "b"]
    assert again.add(event("c")).seq == 3
    # Another container: the file of the first attempt is not there.
    second = EventLog(tmp_path / "second.jsonl", attempt=2)
    assert second.add(event("d")).seq > 3


def test_what_was_not_uploaded_comes_first_the_next_time(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add(event("a"))
    lines = log.take_unsent()
    log.add(event("b"))
    log.put_back(lines)
    assert ['"a"' in line for line in log.take_unsent()] == [True, False]
    assert log.take_unsent() == []
