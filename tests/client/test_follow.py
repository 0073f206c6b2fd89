"""Following a job: what is said when, and how it ends."""

from __future__ import annotations

import pytest

from yarnps.client import exits
from yarnps.client.follow import LOST_AFTER_S, Follow, event_line
from yarnps.client.job import Sight
from yarnps.client.rm import Report
from yarnps.status import Event, Outcome, Progress, Status


def status(state: str = "TRAINING", *, events: tuple[Event, ...] = (), **more: object) -> Status:
    values = {"sentence": f"it is {state}", "events": events, **more}
    return Status("app", "job", "ada", state, **values)  # type: ignore[arg-type]


def report(state: str = "ACCEPTED", final: str = "UNDEFINED", text: str = "") -> Report:
    return Report("app", "job", "ada", "default", state, final, text, 0.0, None, None)


def event(seq: int, text: str = "something") -> Event:
    return Event(seq, 0.0, "note", text)


def live(*args: object, **more: object) -> Sight:
    return Sight(status=status(*args, **more), live=True)  # type: ignore[arg-type]


def ended(state: str, **more: object) -> Sight:
    outcome = Outcome(state, **more)  # type: ignore[arg-type]
    return Sight(status=status(state, outcome=outcome, sentence="it ended"), gone=True)


def test_before_an_am_the_resource_managers_words_are_passed_on() -> None:
    follow = Follow("app", 0)
    waits = report(text="Queue's AM resource limit exceeded.")
    lines = follow.see(Sight(report=waits, note="queue uses 1 of 2"), 1)
    assert lines == [
        "ACCEPTED in queue default; queue uses 1 of 2\n  Queue's AM resource limit exceeded."
    ]
    assert follow.see(Sight(report=waits, note="queue uses 1 of 2"), 2) == []
    assert follow.see(Sight(report=report("RUNNING")), 3) == ["RUNNING in queue default"]


def test_each_event_is_said_once_and_states_when_they_change() -> None:
    follow = Follow("app", 0)
    first = follow.see(live("STARTING", events=(event(1, "one"),)), 1)
    assert [line.split("  ")[-1] for line in first] == ["one", "it is STARTING"]
    second = follow.see(live("TRAINING", events=(event(1, "one"), event(2, "two"))), 2)
    assert [line.split("  ")[-1] for line in second] == ["two", "it is TRAINING"]
    assert follow.last_event == 2
    assert follow.see(live("TRAINING"), 3) == []


def test_a_line_every_30_s_when_nothing_happens() -> None:
    follow = Follow("app", 0)
    follow.see(live(), 1)
    said = [now for now in range(2, 100) if follow.see(live(), now)]
    assert said == [31, 61, 91]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome("SUCCEEDED"), 0),
        (Outcome("FAILED", "x", "script"), 1),
        (Outcome("FAILED", "x", "budget"), 1),
        (Outcome("FAILED", "x", "data"), 2),
        (Outcome("FAILED", "x", "environment"), 2),
        (Outcome("SUCCEEDED", skipped_splits=2), 4),
        (Outcome("KILLED", "x", "killed_by_user"), 5),
        (Outcome("FAILED", "x", "start_timeout"), 6),
    ],
)
def test_exit_statuses(outcome: Outcome, code: int) -> None:
    assert exits.exit_code(outcome) == code
    follow = Follow("app", 0)
    gone = Sight(status=status(outcome.state, outcome=outcome), gone=True)
    assert follow.see(gone, 1) == []
    assert follow.end is not None
    assert follow.end.code == code


def test_the_end_is_said_once_and_with_the_traceback() -> None:
    follow = Follow("app", 0)
    lines = follow.see(ended("FAILED", cause_code="script", traceback="Traceback\n  boom\n"), 1)
    assert lines == []
    assert follow.end is not None
    assert follow.end.sentence == "it ended\nTraceback\n  boom"


def test_a_job_with_its_outcome_is_waited_for_till_it_has_gone() -> None:
    follow = Follow("app", 0)
    done = status("FAILED", outcome=Outcome("FAILED", "x", "script"))
    follow.see(Sight(status=done, live=True), 1)
    assert follow.end is None
    # The next attempt of the AM comes up only to find that all is over: no news.
    assert follow.see(Sight(report=report("ACCEPTED")), 2) == []
    assert follow.end is None
    follow.see(Sight(report=report("FINISHED", "FAILED"), gone=True), 3)
    assert follow.end is not None
    assert follow.end.code == 1


def test_processes_that_do_not_go_do_not_hold_up_the_end_for_ever() -> None:
    follow = Follow("app", 0)
    done = Sight(status=status("SUCCEEDED", outcome=Outcome("SUCCEEDED")), live=True)
    times = []
    for now in range(1, 100):
        follow.see(done, now)
        if follow.end is not None:
            times.append(now)
            break
    assert times == [46]


def test_an_am_that_never_came_up() -> None:
    follow = Follow("app", 0)
    text = "Application driver failed with exit code 78, see logs for more information."
    over = Sight(report=report("FINISHED", "FAILED", text), gone=True)
    follow.see(over, 1)
    assert follow.end is None, "its own word may still come"
    follow.see(over, 7)
    assert follow.end is not None
    assert follow.end.code == 2
    assert follow.end.outcome is not None
    assert follow.end.outcome.cause_code == "environment"
    assert text in follow.end.sentence
    assert "venv:///path" in follow.end.sentence


def test_a_local_am_that_died_shows_its_last_words() -> None:
    follow = Follow("local_1", 0)
    for now in (1, 7):
        follow.see(Sight(gone=True, trouble="ModuleNotFoundError: no grpc"), now)
    assert follow.end is not None
    assert follow.end.code == 1
    assert "no grpc" in follow.end.sentence


def test_lost_sight_leaves_the_job_and_says_how_to_attach() -> None:
    follow = Follow("app", 0)
    follow.see(live(), 1)
    assert follow.see(Sight(trouble="no route"), 2) == ["no route"]
    assert follow.see(Sight(trouble="no route"), 3) == []
    follow.see(Sight(trouble="no route"), LOST_AFTER_S)
    assert follow.end is None
    follow.see(Sight(trouble="no route"), LOST_AFTER_S + 1)
    assert follow.end is not None
    assert (follow.end.code, follow.end.outcome) == (3, None)
    assert "yarnps attach app" in follow.end.sentence


def test_an_am_that_is_away_for_a_while_is_not_lost_while_the_rm_answers() -> None:
    follow = Follow("app", 0)
    follow.see(live(), 1)
    for now in range(2, 300):
        follow.see(Sight(report=report("RUNNING"), trouble="the AM does not answer"), now)
    assert follow.end is None


def test_an_event_line_names_its_rank_once() -> None:
    e = Event(1, 0.0, "death", "worker 2 died", role="worker", rank=2)
    assert event_line(e).endswith("death       worker 2 died")
    e = Event(1, 0.0, "save", "saved", role="server", rank=0)
    assert event_line(e).endswith("save        server 0: saved")


def test_the_object_for_programs_has_exactly_these_keys() -> None:
    seen = status(
        "SUCCEEDED",
        progress=Progress(rows=10, rows_per_s=5.0, splits_done=1, splits_all=3),
        metrics={"auc": 0.7},
        best={"auc": 0.8},
        model="hdfs:///m",
        job_dir="hdfs:///j",
        lost_rows=7,
    )
    answer = exits.result("app", Outcome("SUCCEEDED"), status=seen, elapsed_s=1.23456)
    assert answer == {
        "application": "app", "state": "SUCCEEDED", "cause": "", "cause_code": "",
        "retry_helps": None, "metrics": {"auc": 0.8}, "model": "hdfs:///m",
        "job_dir": "hdfs:///j", "elapsed_s": 1.235, "rows": 10, "rows_per_s": 5.0, "splits": 3,
        "lost_rows": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "final", "text", "expected"),
    [
        ("FINISHED", "SUCCEEDED", "", ("SUCCEEDED", "")),
        ("KILLED", "KILLED", "by ada", ("KILLED", "killed_by_user")),
        ("FAILED", "FAILED", "is running beyond physical memory limits", ("FAILED", "memory")),
        ("FAILED", "FAILED", "java.io.FileNotFoundException: x", ("FAILED", "localisation")),
        ("FAILED", "FAILED", "AM Container exited with exitCode: 1", ("FAILED", "am")),
    ],
)
def test_the_resource_managers_word_alone(
    state: str, final: str, text: str, expected: tuple[str, str]
) -> None:
    outcome = exits.outcome_of_report(report(state, final, text))
    assert (outcome.state, outcome.cause_code) == expected
