"""A request that the ResourceManager does not know is taken back; one that only waits is not."""

from __future__ import annotations

from yarnps.am.clusters._lost_requests import BLIND_WAIT_S, FIRST_WAIT_S, LostRequests


def test_a_request_that_nobody_knows_is_taken_back() -> None:
    watch = LostRequests()
    assert not watch.suspects(["server_0"], 100.0)
    assert not watch.suspects(["server_0"], 100.0 + FIRST_WAIT_S - 1)
    assert watch.suspects(["server_0"], 100.0 + FIRST_WAIT_S)
    assert watch.lost(0, 100.0 + FIRST_WAIT_S) == ["server_0"]


def test_what_is_pending_is_left_alone() -> None:
    watch = LostRequests()
    watch.suspects(["worker_0", "worker_1"], 0.0)
    assert watch.suspects(["worker_0", "worker_1"], FIRST_WAIT_S)
    assert watch.lost(2, FIRST_WAIT_S) == []


def test_the_wait_doubles_as_long_as_asking_again_does_not_help() -> None:
    watch = LostRequests()
    watch.suspects(["worker_0"], 0.0)
    assert watch.lost(0, FIRST_WAIT_S) == ["worker_0"]
    watch.suspects(["worker_1"], 10.0)
    assert not watch.suspects(["worker_1"], 10.0 + FIRST_WAIT_S)
    assert watch.suspects(["worker_1"], 10.0 + 2 * FIRST_WAIT_S)
    assert watch.lost(0, 10.0 + 2 * FIRST_WAIT_S) == ["worker_1"]


def test_without_the_resource_managers_word_the_wait_is_long() -> None:
    watch = LostRequests()
    watch.suspects(["worker_0"], 0.0)
    assert watch.suspects(["worker_0"], FIRST_WAIT_S)
    assert watch.lost(None, FIRST_WAIT_S) == []
    assert watch.lost(None, BLIND_WAIT_S) == ["worker_0"]


def test_a_granted_container_is_forgotten() -> None:
    watch = LostRequests()
    watch.suspects(["worker_0"], 0.0)
    assert not watch.suspects([], 100.0)
    assert not watch.suspects(["worker_1"], 101.0)
