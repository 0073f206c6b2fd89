"""Ranks and their containers, race by race."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from members_job import GIB, Job, only, running

from yarnps.am.resources.decisions import (
    Died,
    Limits,
    Note,
    Release,
    Request,
    RolePlan,
    Settings,
    StartProcess,
    Up,
)
from yarnps.am.resources.members import Members
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

# ---------------------------------------------------------------- the way up


def test_the_life_of_a_rank() -> None:
    job = Job()
    request = job.requests[0]
    assert (request.role, request.rank, request.retry_memory) == ("worker", 0, False)
    assert request.env == {
        "YARNPS_ROLE": "worker",
        "YARNPS_RANK": "0",
        "YARNPS_NONCE": request.nonce,
    }
    assert job.state() == "requested"
    assert job.place(request, "c") == []
    assert job.grant("c") == []
    assert (job.state(), job.note()) == (
        "starting",
        "its container on n1 has started and its agent has not registered",
    )
    answer = job.register(request, "c")
    assert answer.accepted
    assert answer.decisions == (StartProcess("c", "worker", 0, 1),)
    up = only(Up, job.started("c"))
    assert (up.node, up.address, up.incarnation.container) == ("n1", "10.0.0.1", "c")
    assert not job.members.all_up_once
    assert "yarnps.connect()" in job.note()
    job.hello("c")
    assert job.members.all_up_once
    assert job.members.missing() == []
    row = job.members.processes(job.now)[0]
    assert (row.state, row.incarnation, row.deaths, row.note) == ("running", 1, 0, "")
    assert (row.memory_limit, row.last_heard) == (GIB, 0.0)


def test_nonces_differ_and_depend_on_the_seed() -> None:
    plans = {"worker": RolePlan(50)}
    jobs = [Members(plans, Settings("1", seed)).start(0.0) for seed in (b"a", b"a", b"b")]
    nonces = [[r.nonce for r in requests if isinstance(r, Request)] for requests in jobs]
    assert len(set(nonces[0])) == 50
    assert nonces[0] == nonces[1]
    assert not set(nonces[0]) & set(nonces[2])


def test_an_agent_may_be_faster_than_the_cluster_s_answer() -> None:
    job = Job()
    assert job.grant("c") == []
    assert job.register(job.requests[0], "c").accepted
    assert job.place(job.requests[0], "c") == []
    only(Up, job.started("c"))
    assert job.members.rank_of("c") == ("worker", 0)


def test_a_container_of_nobody_is_released_once_no_answer_is_outstanding() -> None:
    job = Job()
    assert job.grant("c") == []
    released = job.place(job.requests[0], "d")
    assert only(Release, released).container == "c"
    assert job.grant("c") == []
    assert only(Release, job.grant("e")).container == "e"
    assert job.grant("x", role="notebook") == []


def test_a_refused_request_is_made_again_later() -> None:
    job = Job()
    note = only(Note, job.members.request_failed(job.requests[0].nonce, "no queue", job.now))
    assert note.text == (
        "worker 0: the cluster did not take the request: no queue; asking again in 1 s"
    )
    again = only(Request, job.wait(1))
    assert again.nonce != job.requests[0].nonce
    # The cluster had taken it after all: that container is not wanted any more.
    late = job.place(job.requests[0], "c")
    assert only(Release, late).container == "c"
    assert not job.register(job.requests[0], "c").accepted


def test_several_processes_in_one_container() -> None:
    job = Job({"server": RolePlan(1, processes=2)})
    job.place(job.requests[0], "s")
    job.grant("s", role="server")
    answer = job.register(job.requests[0], "s")
    assert answer.decisions == (StartProcess("s", "server", 0, 2),)
    job.started("s", process=1)
    job.hello("s", 1)
    assert job.state() == "starting"
    assert not job.members.all_up_once
    job.started("s", process=0)
    job.hello("s", 0)
    assert job.state() == "running"
    assert job.members.all_up_once
    died = only(Died, job.exits("s", -9, restarting=True))
    assert [i.process for i in died.incarnations] == [0]
    (rank,) = job.members.snapshot()["ranks"]
    assert [p for p, state in rank["processes"].items() if state["alive"]] == [1]


# ---------------------------------------------------------------- registrations that are refused


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "0.9"}, "yarnps 0.9 and the ApplicationMaster of 1.0"),
        ({"nonce": "guess"}, "its nonce is not that of the current request"),
        ({"container": "d"}, "the container for worker 0 is c and not d"),
        ({"rank": 7}, "this job has no worker 7"),
        ({"role": "spy"}, "this job has no spy 0"),
    ],
)
def test_who_is_refused_and_why(change: dict[str, Any], says: str) -> None:
    job = running()
    reg = pb.Register(
        container="c", role="worker", rank=0, nonce=job.requests[0].nonce, version="1.0"
    )
    reg.MergeFrom(pb.Register(**change))
    answer = job.members.registered(reg, job.now)
    assert not answer.accepted
    assert says in answer.reason
    assert answer.decisions == ()
    assert job.state() == "running"


def test_an_older_container_that_registers_late_is_refused_and_released() -> None:
    limits = Limits(localise=20.0)
    job = Job(limits=limits)
    old = job.requests[0]
    job.place(old, "c")
    job.grant("c")
    lost = job.wait(20)
    assert only(Release, lost).container == "c"
    assert only(Died, lost).cause is Cause.LAUNCH
    new = only(Request, job.wait(1))
    job.run(new, "d", "n2")
    answer = job.register(old, "c")
    assert not answer.accepted
    assert only(Release, list(answer.decisions)).container == "c"
    assert job.members.rank_of("d") == ("worker", 0)


# ---------------------------------------------------------------- the job


def test_ten_thousand_ranks_are_no_burden() -> None:
    job = Job({"worker": RolePlan(10_000)}, nodes=5_000)
    for request in job.requests:
        job.run(request, f"w{request.rank}", f"n{request.rank % 5000}")
    assert job.members.all_up_once
    assert job.wait(3) == []
    assert len(job.members.processes(job.now)) == 10_000
    assert dataclasses.asdict(job.members.processes(job.now)[7])["container"] == "w7"
