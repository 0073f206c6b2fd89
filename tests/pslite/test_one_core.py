"""Threads that stay on one core for a moment, and are free again after it."""

from __future__ import annotations

import os
import threading
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


def test_both_are_on_my_core_and_free_afterwards(companion: int, my_cores: set[int]) -> None:
    together = OneCore(NAME)
    for core in sorted(my_cores):
        os.sched_setaffinity(0, {core})  # so that it is known where this thread is
        for _ in range(2):
            with together.held():
                assert os.sched_getaffinity(0) == os.sched_getaffinity(companion) == {core}
            assert os.sched_getaffinity(0) == {core}
            assert os.sched_getaffinity(companion) == {core}, "until it is released"
        together.release()
        assert os.sched_getaffinity(companion) == my_cores


def test_mine_is_held_only_as_long_as_i_say(companion: int, my_cores: set[int]) -> None:
    together = OneCore(NAME)
    with pytest.raises(RuntimeError), together.held():
        assert len(os.sched_getaffinity(0)) == 1
        raise RuntimeError
    assert os.sched_getaffinity(0) == my_cores
    together.release()
    assert os.sched_getaffinity(companion) == my_cores


def test_the_core_is_chosen_anew(
    companion: int, my_cores: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_core, "ANEW_S", 0.0)
    together = OneCore(NAME)
    for core in sorted(my_cores):
        os.sched_setaffinity(0, {core})
        with together.held():
            assert os.sched_getaffinity(companion) == {core}
    together.release()
    assert os.sched_getaffinity(companion) == my_cores


def test_where_it_is_not_allowed_all_goes_on(
    companion: int, my_cores: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def refuse(thread: int, cores: set[int]) -> None:
        tries.append(thread)
        raise PermissionError("not in this container")

    together = OneCore(NAME)
    with monkeypatch.context() as there:
        there.setattr(os, "sched_setaffinity", refuse)
        for _ in range(3):
            with together.held():
                assert os.sched_getaffinity(companion) == my_cores
            together.release()
    assert len(tries) == 1, "it is tried once"


def test_threads_that_end_meanwhile_are_passed_over(
    companion: int, my_cores: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1").mkdir()  # as of one whose name cannot be read any more
    for thread in (companion, threading.get_native_id()):
        (tmp_path / str(thread)).symlink_to(f"/proc/self/task/{thread}")
    monkeypatch.setattr(one_core, "_TASKS", tmp_path)
    together = OneCore(NAME)
    with together.held():
        assert len(os.sched_getaffinity(companion)) == 1
    together.release()
    assert os.sched_getaffinity(companion) == my_cores


def test_nobody_of_that_name(my_cores: set[int]) -> None:
    with OneCore("nobody").held():
        assert os.sched_getaffinity(0) == my_cores, "alone there is nothing to gain"
    assert os.sched_getaffinity(0) == my_cores
