"""Limits that run out: silence, starts, and whoever is missing."""

from __future__ import annotations

import dataclasses

import pytest
from members_job import WORKER, Job, incarnation, kinds, only, running

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import Decision, Died, GaveUp, Note, Release, Request, RolePlan
from yarnps.causes import Cause


def test_an_agent_has_longer_where_the_files_must_be_fetched_first() -> None:
    job = Job({"worker": RolePlan(2)})
    job.run(job.requests[0], "a", "n1")
    job.place(job.requests[1], "b")
    job.grant("b", "n2")
    job.members.heard("a", job.now)
    for _ in range(299):
        assert job.wait(1) == []
        job.members.heard("a", job.now)
    assert only(Died, job.wait(1)).container == "b"
    request = only(Request, job.wait(1))
    job.place(request, "d")
    job.grant("d", "n1")
    for _ in range(59):
        assert job.wait(1) == []
        job.members.heard("a", job.now)
    died = only(Died, job.wait(1))
    assert (died.container, died.text) == (
        "d",
        "its container runs on n1, but its agent has not registered",
    )


def test_a_broken_stream_is_no_death() -> None:
    job = running()
    note = only(Note, job.members.agent_gone("c", job.now))
    assert "lost its agent on n1" in note.text
    assert job.state() == "lost"
    assert job.wait(59) == []
    assert "not heard of for 59 s" in job.note()
    answer = job.register(job.requests[0], "c", (incarnation("c"),))
    assert answer.accepted
    assert answer.decisions == ()
    assert job.state() == "running"
    assert job.wait(59) == []


def test_silence_is_a_death_that_costs() -> None:
    job = running()
    job.members.agent_gone("c", job.now)
    out = job.wait(60)
    died = only(Died, out)
    assert (died.cause, died.charged, len(died.incarnations)) == (Cause.SILENT, True, 1)
    assert only(Release, out).container == "c"
    assert job.state() == "restarting"
    only(Request, job.wait(1))


def test_silence_counts_only_while_the_am_was_responsive() -> None:
    job = running()
    assert job.wait(200, responsive=False) == []
    # One gap of an hour between two ticks says nothing about containers either.
    job.now += 3600.0
    assert job.members.due(job.now) == []
    assert job.wait(54) == []
    assert only(Died, job.wait(1)).cause is Cause.SILENT


def test_a_node_of_which_no_container_is_heard_is_lost_for_free() -> None:
    job = Job({"worker": RolePlan(3, max_restarts=0)})
    for request, container, node in zip(job.requests, "abc", ("n1", "n1", "n2"), strict=True):
        job.run(request, container, node)
    out: list[Decision] = []
    for _ in range(61):
        out += job.wait(1)
        job.members.heard("c", job.now)
    died = [d for d in out if isinstance(d, Died)]
    assert [(d.container, d.cause, d.charged) for d in died] == [
        ("a", Cause.NODE_LOST, False),
        ("b", Cause.NODE_LOST, False),
    ]
    assert kinds(out).count("Request") == 2


def test_a_process_that_the_agent_does_not_start() -> None:
    job = Job()
    job.place(job.requests[0], "c")
    job.grant("c")
    job.register(job.requests[0], "c")
    for _ in range(59):
        assert job.wait(1) == []
        job.members.heard("c", job.now)
    out = job.wait(1)
    assert only(Died, out).cause is Cause.LAUNCH
    assert only(Release, out).container == "c"


@pytest.mark.parametrize("own_program", [True, False])
def test_a_process_that_says_no_hello(own_program: bool) -> None:
    job = Job({"worker": dataclasses.replace(WORKER, own_program=own_program)})
    job.place(job.requests[0], "c")
    job.grant("c")
    job.register(job.requests[0], "c")
    job.started("c")
    for _ in range(119):
        assert job.wait(1) == []
        job.members.heard("c", job.now)
    out = job.wait(1)
    if own_program:
        assert only(Died, out).cause is Cause.SILENT
        assert only(Release, out).container == "c"
    else:
        assert out == []  # a user's script may load its data first


def test_a_hello_while_the_am_was_away_is_waited_for_anew() -> None:
    job = Job({"worker": dataclasses.replace(WORKER, own_program=True)})
    job.place(job.requests[0], "c")
    job.grant("c")
    job.register(job.requests[0], "c")
    job.started("c")
    job.now += 200
    job.members.reconcile([ContainerInfo("c", "worker", "running", "n1")], job.now)
    job.register(job.requests[0], "c", running=(incarnation("c", 0, 0),))
    assert job.wait(1) == []


def test_the_start_limit_names_everybody_who_is_missing() -> None:
    job = Job({"server": RolePlan(1), "worker": RolePlan(2)})
    job.run(job.requests[0], "s")
    job.place(job.requests[1], "w")
    job.grant("w", "n2")
    job.register(job.requests[1], "w")
    job.started("w")
    out: list[Decision] = []
    for _ in range(600):
        out += job.wait(1)
        job.members.heard("s", job.now)
        job.members.heard("w", job.now)
    gave_up = [d for d in out if isinstance(d, GaveUp)]
    assert [(g.role, g.rank, g.cause) for g in gave_up] == [
        ("worker", 0, Cause.START_TIMEOUT),
        ("worker", 1, Cause.START_TIMEOUT),
    ]
    assert gave_up[0].text == (
        "worker 0: not up within 600 s; missing: worker 0 (its process on n1 runs but has not "
        "called yarnps.connect()), worker 1 (its container has been asked for and not been granted)"
    ).replace("on n1", "on n2")
    assert job.now == 600.0


def test_a_worker_that_does_not_come_back_stops_nobody_else() -> None:
    job = Job({"worker": RolePlan(2)})
    job.run(job.requests[0], "a", "n1")
    job.run(job.requests[1], "b", "n2")
    only(Request, job.end("a", "Container preempted by scheduler"))
    out: list[Decision] = []
    for _ in range(1300):
        out += job.wait(1)
        job.members.heard("b", job.now)
    assert kinds(out) == ["Note", "Note"]
    assert "worker 0: not back after 600 s: its container has been asked for" in str(out[0])


def test_a_server_that_does_not_come_back_fails() -> None:
    job = Job({"server": RolePlan(2)})
    job.run(job.requests[0], "a", "n1")
    job.run(job.requests[1], "b", "n2")
    job.end("a", "Container preempted by scheduler")
    for _ in range(599):
        assert job.wait(1) == []
        job.members.heard("b", job.now)
    assert only(GaveUp, job.wait(1)).cause is Cause.START_TIMEOUT
