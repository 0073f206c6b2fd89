"""Threads that stay on one core for a while, and are free again after it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnps.pslite import one_core
from yarnps.pslite.one_core import OneCore

NAME = "a-companion"
LIMIT_S = 10.0


@pytest.fixture
def companion() -> Iterator[int]:
    """A thread of that name."""
    end, there = threading.Event(), threading.Event()
    found: list[int] = []

    def live() -> None:
        Path("/proc/thread-self/comm").write_text(NAME)
        found.append(threading.get_native_id())
        there.set()
        end.wait(LIMIT_S)

    thread = threading.Thread(target=live)
    thread.start()
    assert there.wait(LIMIT_S)
    yield found[0]
    end.set()
    thread.join(LIMIT_S)


@pytest.fixture(autouse=True)
def my_cores() -> Iterator[set[int]]:
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What the clock says, to be set."""
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    yield moment


def busy_for_long(together: OneCore, now: list[float]) -> None:
    """As long as it takes until they are kept together."""
    together.busy()
    now[0] += one_core.KEEP_AFTER_S + 0.001
    together.busy()


def idle_for_long(together: OneCore, now: list[float]) -> None:
    """As long as it takes until they are free."""
    now[0] += one_core.FREE_AFTER_S + 0.001
    together.idle()


def test_both_are_on_my_core_until_there_is_a_pause(
    companion: int, my_cores: set[int], now: list[float]
) -> None:
    together = OneCore(NAME)
    for core in sorted(my_cores):
        os.sched_setaffinity(0, {core})  # so that it is known where this thread is
        busy_for_long(together, now)
        assert os.sched_getaffinity(0) == os.sched_getaffinity(companion) == {core}
        together.busy()
        assert os.sched_getaffinity(companion) == {core}
        idle_for_long(together, now)
        assert os.sched_getaffinity(0) == {core}, "as it was before"
        assert os.sched_getaffinity(companion) == my_cores
    os.sched_setaffinity(0, my_cores)
    busy_for_long(together, now)
    assert len(os.sched_getaffinity(0)) == 1
    idle_for_long(together, now)
    assert os.sched_getaffinity(0) == my_cores


def test_a_short_time_is_no_reason(companion: int, my_cores: set[int], now: list[float]) -> None:
    together = OneCore(NAME)
    for _ in range(10):
        together.busy()
        now[0] += 0.9 * one_core.KEEP_AFTER_S
        together.busy()
        assert not together.kept
        idle_for_long(together, now)
    assert os.sched_getaffinity(companion) == os.sched_getaffinity(0) == my_cores


def test_a_short_pause_is_none(companion: int, my_cores: set[int], now: list[float]) -> None:
    together = OneCore(NAME)
    together.busy()
    for _ in range(10):
        now[0] += 0.9 * one_core.FREE_AFTER_S
        together.busy()
        assert together.kept
        now[0] += 0.9 * one_core.FREE_AFTER_S
        together.idle()
        assert len(os.sched_getaffinity(companion)) == 1
        now[0] -= 0.9 * one_core.FREE_AFTER_S
    idle_for_long(together, now)
    assert not together.kept
    assert os.sched_getaffinity(companion) == my_cores


def test_the_core_is_chosen_anew(companion: int, my_cores: set[int], now: list[float]) -> None:
    together = OneCore(NAME)
    busy_for_long(together, now)
    end = now[0] + one_core.ANEW_S
    while now[0] < end:
        assert len(os.sched_getaffinity(companion)) == 1
        now[0] += 0.9 * one_core.FREE_AFTER_S
        together.busy()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(companion) == my_cores
    together.busy()
    assert os.sched_getaffinity(companion) == my_cores, "they are free for a moment"
    core = max(my_cores)
    os.sched_setaffinity(0, {core})
    now[0] += one_core.KEEP_AFTER_S + 0.001
    together.busy()
    assert os.sched_getaffinity(companion) == {core}
    idle_for_long(together, now)


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_it_is_not_allowed_all_goes_on(
    allowed: int,
    companion: int,
    my_cores: set[int],
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = []
    really = os.sched_setaffinity

    def refuse(thread: int, cores: set[int]) -> None:
        tries.append(thread)
        if len(tries) > allowed and len(cores) == 1:
            raise PermissionError("not in this container")
        really(thread, cores)

    together = OneCore(NAME)
    with monkeypatch.context() as there:
        there.setattr(os, "sched_setaffinity", refuse)
        for _ in range(3):
            busy_for_long(together, now)
            assert os.sched_getaffinity(companion) == my_cores
            assert os.sched_getaffinity(0) == my_cores
            idle_for_long(together, now)
    assert len(tries) == 1 + 2 * allowed, "it is tried once"


@pytest.mark.parametrize("which", ["mine", "the other"])
def test_one_that_has_ended_stays_nowhere(
    which: str,
    companion: int,
    my_cores: set[int],
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = OneCore(NAME)
    busy_for_long(together, now)
    really = os.sched_setaffinity

    gone = companion if which == "the other" else threading.get_native_id()

    def ended(thread: int, cores: set[int]) -> None:
        if thread == gone:
            raise ProcessLookupError
        really(thread, cores)

    with monkeypatch.context() as there:
        there.setattr(os, "sched_setaffinity", ended)
        idle_for_long(together, now)
    left = {companion, threading.get_native_id()} - {gone}
    assert [os.sched_getaffinity(thread) for thread in left] == [my_cores]
    os.sched_setaffinity(gone, my_cores)
    busy_for_long(together, now)
    assert len(os.sched_getaffinity(companion)) == 1, "others are kept as ever"
    idle_for_long(together, now)


def test_threads_that_end_meanwhile_are_passed_over(
    companion: int,
    my_cores: set[int],
    now: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "1").mkdir()  # as of one whose name cannot be read any more
    for thread in (companion, threading.get_native_id()):
        (tmp_path / str(thread)).symlink_to(f"/proc/self/task/{thread}")
    monkeypatch.setattr(one_core, "_TASKS", tmp_path)
    together = OneCore(NAME)
    busy_for_long(together, now)
    assert len(os.sched_getaffinity(companion)) == 1
    idle_for_long(together, now)
    assert os.sched_getaffinity(companion) == my_cores


def test_nobody_of_that_name(my_cores: set[int], now: list[float]) -> None:
    busy_for_long(OneCore("nobody"), now)
    assert os.sched_getaffinity(0) == my_cores, "alone there is nothing to gain"


def test_where_nothing_can_be_read_all_goes_on(
    companion: int,
    my_cores: set[int],
    now: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(one_core, "_TASKS", tmp_path / "none")
    together = OneCore(NAME)
    busy_for_long(together, now)
    assert not together.kept


def test_where_the_release_is_refused_it_is_said_once(
    companion: int,
    my_cores: set[int],
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    together = OneCore(NAME)
    busy_for_long(together, now)
    really = os.sched_setaffinity

    def refuse(thread: int, cores: set[int]) -> None:
        raise OSError(22, "Invalid argument")

    with monkeypatch.context() as there:
        there.setattr(os, "sched_setaffinity", refuse)
        idle_for_long(together, now)
    assert "a thread stays on one core" in caplog.text
    really(companion, my_cores)
    really(0, my_cores)
    busy_for_long(together, now)
    assert not together.kept, "it is not tried again"
