"""The event log and its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from yarnps.am.shell.events import EventLog
from yarnps.status import Event


def event(text: str) -> Event:
    return Event(seq=0, time=1.0, kind="note", text=text)


def test_numbers_grow_over_restarts_and_attempts(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path / "first.jsonl")) as log:
        assert [log.add(event("a")).seq, log.add(event("b")).seq] == [1, 2]
    with closing(EventLog(tmp_path / "first.jsonl")) as log:
        assert [e.text for e in log.after()] == ["a", "b"]
        assert log.add(event("c")).seq == 3
    # Another container: the file of the first attempt is not there.
    with closing(EventLog(tmp_path / "second.jsonl", attempt=2)) as log:
        assert log.add(event("d")).seq > 3


def test_what_was_not_uploaded_comes_first_the_next_time(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        log.add(event("a"))
        lines = log.take_unsent()
        log.add(event("b"))
        log.put_back(lines)
        assert texts(log.take_unsent()) == ["a", "b"]
        assert log.take_unsent() == []


def test_what_was_not_uploaded_before_a_death_is_uploaded_afterwards(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        log.add(event("a"))
        log.mark_sent(log.take_unsent())
        log.add(event("b"))
        log.take_unsent()
        log.add(event("c"))
    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        assert texts(log.take_unsent()) == ["b", "c"]


def texts(lines: list[str]) -> list[str]:
    return [json.loads(line)["text"] for line in lines]


def test_an_event_that_comes_while_lines_are_put_back_is_not_lost(tmp_path: Path) -> None:
    """The upload runs in a thread; events come in the loop's."""
    with closing(EventLog(tmp_path / "events.jsonl")) as log:

        class Interrupted(list[str]):
            """Whoever goes through these lines is interrupted by an event."""

            def __add__(self, other: object) -> list[str]:
                whole = [*self, *other]  # type: ignore[misc]
                log.add(event("b"))
                return whole

            def __reversed__(self) -> Iterator[str]:
                log.add(event("b"))
                return reversed(list(self))

        log.add(event("a"))
        log.put_back(Interrupted(log.take_unsent()))
        assert texts(log.take_unsent()) == ["a", "b"]


def test_an_event_after_one_that_was_not_written_whole_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        log.add(event("a"))
    path.write_text(path.read_text() + '{"seq":2,"ti')  # the process, or its disk, was at its end
    with closing(EventLog(path)) as log:
        log.add(event("b"))
    with closing(EventLog(path)) as log:
        assert [(e.seq, e.text) for e in log.after()] == [(1, "a"), (2, "b")]
