"""The stopwatch of waits."""

from __future__ import annotations

import threading

import pytest

from yarnps.worker import stopwatch
from yarnps.worker.stopwatch import Stopwatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: now[0])
    return now


def test_a_wait_counts_while_it_lasts(clock: list[float]) -> None:
    watch = Stopwatch()
    with watch:
        clock[0] += 3
        assert watch.seconds == 3
        clock[0] += 1
    clock[0] += 50
    assert watch.seconds == 4
    with watch:
        clock[0] += 2
        assert watch.seconds == 6


def test_a_wait_inside_a_wait_counts_once(clock: list[float]) -> None:
    watch = Stopwatch()
    with watch:
        clock[0] += 1
        with watch:
            clock[0] += 1
            assert watch.seconds == 2
        clock[0] += 1
    assert watch.seconds == 3


def test_a_wait_that_fails_has_been_one(clock: list[float]) -> None:
    watch = Stopwatch()
    with pytest.raises(TimeoutError), watch:
        clock[0] += 5
        raise TimeoutError
    clock[0] += 5
    assert watch.seconds == 5


def test_another_thread_sees_it_run(clock: list[float]) -> None:
    watch = Stopwatch()
    seen: list[float] = []
    with watch:
        clock[0] += 7
        reader = threading.Thread(target=lambda: seen.append(watch.seconds))
        reader.start()
        reader.join(10)
    assert seen == [7]
