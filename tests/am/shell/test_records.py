"""What is written down in the job directory, and when."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from little_job import config

from yarnps._errors import DataError
from yarnps.am.shell.events import EventLog
from yarnps.am.shell.records import Records
from yarnps.jobdir import OUTCOME, STATUS, JobDir
from yarnps.status import Event, Outcome, Status


class Place:
    """A job directory, and an AM's folder in which processes come one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job_dir = JobDir(str(folder / "job"))
        self.job_dir.create()
        self.asked_in: list[int] = []
        self.sentence = "it trains"
        self.start()

    def start(self) -> None:
        """A new process of the AM."""
        self.events = EventLog(self.folder / "events.jsonl")
        made = config(self.folder)
        self.records = Records(made, self.job_dir, self.events, self.status, self.folder)

    def die(self) -> None:
        self.events.close()

    def status(self) -> Status:
        self.asked_in.append(threading.get_ident())
        return Status("app", "little", "ada", "TRAINING", self.sentence)

    def log(self, text: str) -> None:
        self.events.add(Event(seq=0, time=1.0, kind="note", text=text))

    def written(self) -> list[str]:
        return [event["text"] for event in self.job_dir.events()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.die()


async def test_the_status_is_made_where_the_state_machine_changes(place: Place) -> None:
    """In another thread it would be read while it changes, which ends the process."""
    await place.records.write_status()
    await place.records.leave_word(Outcome("SUCCEEDED"))
    assert set(place.asked_in) == {threading.get_ident()}
    assert json.loads(place.job_dir.read(STATUS))["sentence"] == "it trains"


async def test_a_status_that_is_slow_to_be_written_does_not_replace_the_last_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, under_way, go = place.job_dir.write, threading.Event(), threading.Event()

    def slow(name: str, data: bytes, *, mode: int | None = None) -> None:
        if b"it trains" in data:
            under_way.set()
            assert go.wait(20)
        write(name, data, mode=mode)

    monkeypatch.setattr(place.job_dir, "write", slow)
    before = asyncio.ensure_future(place.records.write_status())
    await asyncio.to_thread(under_way.wait, 20)
    place.sentence = "it is over"
    last = asyncio.ensure_future(place.records.leave_word(Outcome("SUCCEEDED")))
    await asyncio.wait({last}, timeout=0.1)
    go.set()
    await asyncio.gather(before, last)
    assert json.loads(place.job_dir.read(STATUS))["sentence"] == "it is over"


async def test_a_process_that_comes_back_replaces_no_event_of_an_earlier_one(place: Place) -> None:
    """However often it does, and whatever it knows of the earlier ones."""
    for life in range(12):
        place.log(f"{life} a")
        await place.records.send_events()
        place.log(f"{life} b")
        await place.records.send_events()
        place.die()
        place.start()
    assert place.written() == [f"{life} {name}" for life in range(12) for name in "ab"]


async def test_what_was_not_marked_as_sent_is_written_again_in_its_place(place: Place) -> None:
    place.log("a")
    lines = place.events.take_unsent()
    place.job_dir.write_events(1, lines)
    place.log("b")
    place.die()
    place.start()
    await place.records.send_events()
    assert place.written() == ["a", "b"]
    assert len(list(place.folder.glob("job/events/*"))) == 1


async def test_an_outcome_that_cannot_be_written_is_written_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.shell.records.AGAIN_S", 0.01)
    write, refusals = place.job_dir.write, iter([True, True])

    def busy(name: str, data: bytes, *, mode: int | None = None) -> None:
        if name == OUTCOME and next(refusals, False):
            raise DataError("the name node is in safe mode", "wait")
        write(name, data, mode=mode)

    monkeypatch.setattr(place.job_dir, "write", busy)
    await place.records.leave_word(Outcome("SUCCEEDED"))
    assert json.loads(place.job_dir.read(OUTCOME))["state"] == "SUCCEEDED"


async def test_an_outcome_that_cannot_be_written_at_all_is_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.shell.records.AGAIN_S", 0.01)
    monkeypatch.setattr("yarnps.am.shell.records.OUTCOME_LIMIT_S", 0.05)

    def broken(name: str, data: bytes, *, mode: int | None = None) -> None:
        raise DataError("no space", "make some")

    monkeypatch.setattr(place.job_dir, "write", broken)
    with pytest.raises(DataError, match="no space"):
        await place.records.leave_word(Outcome("SUCCEEDED"))
    assert not (place.folder / "yarnps-ended").exists()
