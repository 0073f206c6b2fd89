"""Restarts of the ApplicationMaster: what `Members` makes of those it finds."""

from __future__ import annotations

import json

from members_job import Job, incarnation, kinds, only, running

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import Died, Release, Request, RolePlan, StartProcess, Up
from yarnps.am.resources.members import Members
from yarnps.causes import Cause


def restarted(job: Job) -> None:
    """Replace the machine by what its snapshot makes of it."""
    text = json.dumps(job.members.snapshot())
    job.members = Members(job.members.plans, job.members.settings)
    job.members.restore(json.loads(text))
    assert json.dumps(job.members.snapshot()) == text


def test_after_a_restart_known_containers_go_on() -> None:
    job = running()
    restarted(job)
    info = ContainerInfo("c", "worker", "running", "n1")
    assert job.members.reconcile([info], job.now) == []
    assert job.wait(30) == []
    answer = job.register(job.requests[0], "c", (incarnation("c"),))
    assert answer.accepted
    assert answer.decisions == ()
    assert job.state() == "running"


def test_after_a_restart_an_agent_that_stays_away_is_silent() -> None:
    job = running()
    restarted(job)
    job.now += 500.0
    info = ContainerInfo("c", "worker", "running", "n1")
    assert job.members.reconcile([info], job.now) == []
    assert job.wait(60) == []
    assert only(Died, job.wait(1)).cause is Cause.SILENT


def test_after_a_restart_the_cluster_s_list_decides() -> None:
    job = Job({"worker": RolePlan(4)})
    job.run(job.requests[0], "gone")
    job.run(job.requests[1], "ended")
    job.run(job.requests[2], "fine")
    restarted(job)
    out = job.members.reconcile(
        [
            ContainerInfo("ended", "worker", "ended", "n1", exit_message="preempted"),
            ContainerInfo("fine", "worker", "running", "n1"),
            ContainerInfo("stranger", "worker", "requested"),
            ContainerInfo("notebook_0", "notebook", "running", "n1"),
            ContainerInfo("old", "worker", "ended", "n1"),
        ],
        job.now,
    )
    assert only(Release, out).container == "stranger"
    died = {d.container: d.cause for d in out if isinstance(d, Died)}
    assert died == {"gone": Cause.UNKNOWN, "ended": Cause.PREEMPTED}
    # At once: the preempted rank and the one whose request has no answer.
    assert [r.rank for r in out if isinstance(r, Request)] == [1, 3]
    late = job.place(job.requests[3], "w3")
    assert only(Release, late).container == "w3"


def test_a_release_that_was_not_carried_out_is_decided_again() -> None:
    job = running()
    job.exits("c", 1)
    restarted(job)
    out = job.members.reconcile([ContainerInfo("c", "worker", "running", "n1")], job.now)
    assert only(Release, out).container == "c"


def test_an_order_to_start_that_was_lost_is_given_again() -> None:
    job = Job()
    job.place(job.requests[0], "c")
    job.grant("c")
    job.register(job.requests[0], "c")
    restarted(job)
    answer = job.register(job.requests[0], "c")
    assert answer.decisions == (StartProcess("c", "worker", 0, 1),)


def test_a_process_replaced_while_nobody_listened() -> None:
    job = running()
    restarted(job)
    answer = job.register(job.requests[0], "c", (incarnation("c", 2),))
    assert kinds(list(answer.decisions)) == ["Died", "Up"]
    assert only(Died, list(answer.decisions)).restarting_in_place
    assert only(Up, list(answer.decisions)).incarnation.start == 2
    assert job.state() == "running"
    # The report of the old one's end comes late, or the old one's start twice.
    assert job.exits("c", 1, 0) == []
    assert job.started("c", 0) == []


def test_an_expiry_of_a_container_that_is_gone_does_nothing() -> None:
    job = running()
    expiry = job.members.due(job.now + 1)
    assert expiry == []
    for _ in range(70):
        job.now += 1.0
        expiry = job.members.due(job.now)
        if expiry:
            break
    assert [e.kind for e in expiry] == ["silence"]
    job.run(only(Request, job.end("c", "Container preempted by scheduler")), "d")
    assert job.members.expire(expiry[0], job.now) == []
    assert job.state() == "running"
