"""Ranks and their containers, race by race."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypeVar

import pytest

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import (
    Decision,
    Died,
    GaveUp,
    Limits,
    Note,
    Registration,
    Release,
    Request,
    RolePlan,
    Settings,
    StartProcess,
    Up,
    Work,
)
from yarnps.am.resources.members import Members
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

GIB = 1 << 30
SKEIN = "Container failed during execution, see logs for more information."
WORKER = RolePlan(1, memory=GIB)

D = TypeVar("D")


def only(kind: type[D], decisions: list[Decision]) -> D:
    """The one decision of a kind."""
    found = [d for d in decisions if isinstance(d, kind)]
    assert len(found) == 1, decisions
    return found[0]


def kinds(decisions: list[Decision]) -> list[str]:
    return [type(d).__name__ for d in decisions]


class Job:
    """A `Members` with short words for its inputs."""

    def __init__(
        self,
        plans: dict[str, RolePlan] | None = None,
        limits: Limits | None = None,
        nodes: int = 2,
    ) -> None:
        settings = Settings("1.0", b"secret", limits or Limits())
        self.members = Members(plans or {"worker": WORKER}, settings)
        self.now = 0.0
        self.first = self.members.start(self.now, nodes)
        self.requests = [r for r in self.first if isinstance(r, Request)]

    def place(self, request: Request, container: str) -> list[Decision]:
        return self.members.request_placed(request.nonce, container, self.now)

    def grant(self, container: str, node: str = "n1", role: str = "worker") -> list[Decision]:
        info = ContainerInfo(container, role, "running", node)
        return self.members.container_changed(info, self.now)

    def end(self, container: str, message: str = SKEIN, tail: str = "") -> list[Decision]:
        info = ContainerInfo(container, "worker", "ended", "n1", exit_message=message)
        peak = self.members.peak_of(container)
        return self.members.container_changed(info, self.now, peak=peak, tail=tail)

    def register(
        self, request: Request, container: str, running: tuple[pb.Incarnation, ...] = ()
    ) -> Registration:
        reg = pb.Register(
            container=container,
            role=request.role,
            rank=request.rank,
            nonce=request.nonce,
            host="n1",
            address="10.0.0.1",
            version="1.0",
            running=running,
        )
        return self.members.registered(reg, self.now)

    def started(self, container: str, start: int = 0, process: int = 0) -> list[Decision]:
        started = pb.RoleStarted(incarnation=incarnation(container, start, process))
        return self.members.role_started(container, started, self.now)

    def hello(self, container: str, process: int = 0) -> None:
        assert self.members.said_hello(container, process, self.now) == []

    def exits(
        self,
        container: str,
        code: int,
        start: int = 0,
        *,
        restarting: bool = False,
        tail: str = "",
        work: Work | None = None,
    ) -> list[Decision]:
        exited = pb.RoleExited(
            incarnation=incarnation(container, start),
            exit_code=code,
            restarting=restarting,
            output_tail=tail,
        )
        peak = self.members.peak_of(container)
        return self.members.role_exited(container, exited, self.now, work=work, peak=peak)

    def run(self, request: Request, container: str, node: str = "n1") -> None:
        """Bring a rank up."""
        self.place(request, container)
        self.grant(container, node, request.role)
        assert self.register(request, container).accepted
        for process in range(self.members.plans[request.role].processes):
            self.started(container, process=process)
            self.hello(container, process)

    def wait(self, seconds: int, responsive: bool = True) -> list[Decision]:
        """Let time pass, a tick a second."""
        out: list[Decision] = []
        for _ in range(seconds):
            self.now += 1.0
            out += self.members.tick(self.now, responsive)
        return out

    def state(self, rank: int = 0) -> str:
        return self.members.processes(self.now)[rank].state

    def note(self, rank: int = 0) -> str:
        return self.members.processes(self.now)[rank].note


def incarnation(container: str, start: int = 0, process: int = 0) -> pb.Incarnation:
    number = int.from_bytes(f"{container}/{process}/{start}".encode()[-7:], "big")
    return pb.Incarnation(container=container, start=start, process=process, id=number)


def running(plan: RolePlan = WORKER, limits: Limits | None = None) -> Job:
    """One worker that is up in container ``c``."""
    job = Job({"worker": plan}, limits)
    job.run(job.requests[0], "c")
    assert job.state() == "running"
    return job


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
    assert not answer.resumed
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
    assert [i.process for i in job.members.incarnations("server")] == [1]


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


# ---------------------------------------------------------------- limits


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
    assert answer.resumed
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
    assert job.members.tick(job.now) == []
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


# ---------------------------------------------------------------- deaths


def test_a_process_that_the_agent_restarts_in_place() -> None:
    job = running()
    out = job.exits("c", -9, restarting=True)
    died = only(Died, out)
    assert kinds(out) == ["Died"]
    assert (died.cause, died.charged, died.restarting_in_place) == (Cause.SIGNAL, True, True)
    assert job.state() == "restarting"
    assert job.exits("c", -9, restarting=True) == []  # said again after a broken stream
    up = only(Up, job.started("c", 1))
    assert up.incarnation.start == 1
    assert up.incarnation.id != died.incarnations[0].id
    job.hello("c")
    row = job.members.processes(job.now)[0]
    assert (row.state, row.incarnation, row.deaths) == ("running", 2, 1)


def test_when_the_agent_gives_up_a_new_container_is_asked_for_after_a_wait() -> None:
    job = running()
    out = job.exits("c", 1)
    assert kinds(out) == ["Died", "Release"]
    assert job.state() == "restarting"
    assert "asked for again in 1 s: the process ended with exit status 1" in job.note()
    again = only(Request, job.wait(1))
    job.run(again, "d")
    assert kinds(job.exits("d", 1)) == ["Died", "Release"]
    assert job.wait(1) == []
    only(Request, job.wait(1))


def test_the_budget_of_a_rank_in_place() -> None:
    job = running(RolePlan(1, max_restarts=2))
    for start in range(2):
        assert kinds(job.exits("c", 1, start, restarting=True)) == ["Died"]
        job.started("c", start + 1)
    out = job.exits("c", 1, 2, restarting=True)
    assert kinds(out) == ["Died", "Release", "GaveUp"]
    assert not only(Died, out).restarting_in_place
    gave_up = only(GaveUp, out)
    assert gave_up.cause is Cause.EXIT
    assert gave_up.text == (
        "worker 0: the process ended with exit status 1; it has used up its 2 restarts "
        "(max_restarts)"
    )
    assert job.state() == "failed"
    row = job.members.processes(job.now)[0]
    assert (row.container, row.node) == ("c", "n1")
    assert job.wait(100) == []
    assert job.members.left("worker") == []


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Container preempted by scheduler", Cause.PREEMPTED),
        ("Container released on a *lost* node", Cause.NODE_LOST),
        ("Killed by user request.", Cause.OUR_KILL),
    ],
)
def test_what_is_free_is_free_and_at_once(message: str, cause: Cause) -> None:
    job = running(RolePlan(1, max_restarts=0))
    for container in "cdefgh":
        out = job.end(container, message)
        died = only(Died, out)
        assert (died.cause, died.charged) == (cause, False)
        job.run(only(Request, out), chr(ord(container) + 1))


def test_a_container_that_ended_after_its_process_counts_once() -> None:
    job = running()
    job.exits("c", 1)
    assert job.end("c") == []
    assert job.members.processes(job.now)[0].deaths == 1


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Container preempted by scheduler", Cause.PREEMPTED),
        ("1.2 GB of 1 GB physical memory used", Cause.MEMORY),
    ],
)
def test_why_its_node_ends_a_container_is_the_cluster_s_word(message: str, cause: Cause) -> None:
    """The agent, ended by a signal, is quicker to say that its process is gone."""
    job = running()
    exited = pb.RoleExited(incarnation=incarnation("c"), exit_code=-15, leaving=True)
    assert job.members.role_exited("c", exited, job.now) == []
    assert only(Died, job.end("c", message)).cause is cause


def test_a_container_that_its_node_ends_and_nobody_speaks_of_is_silent() -> None:
    job = running(limits=Limits(silence=30.0))
    exited = pb.RoleExited(incarnation=incarnation("c"), exit_code=-15, leaving=True)
    job.members.role_exited("c", exited, job.now)
    assert only(Died, job.wait(31)).cause in (Cause.SILENT, Cause.NODE_LOST)


def test_our_own_release_is_no_death() -> None:
    job = running()
    assert kinds(job.members.shutdown("the job has ended")) == ["Release"]
    assert job.end("c", "Killed by user request.") == []
    assert job.wait(1000) == []
    assert job.state() == "finished"
    assert not job.register(job.requests[0], "c").accepted


def test_memory_asks_for_a_bigger_container_where_there_is_one() -> None:
    job = running(RolePlan(1, memory=GIB, retry_memory=2 * GIB))
    died = only(Died, job.end("c", "1.2 GB of 1 GB physical memory used"))
    assert (died.cause, died.charged) == (Cause.MEMORY, True)
    again = only(Request, job.wait(1))
    assert again.retry_memory
    assert job.members.processes(job.now)[0].memory_limit == 2 * GIB


def test_a_process_killed_near_the_limit_leaves_its_small_container() -> None:
    job = running(RolePlan(1, memory=GIB, retry_memory=2 * GIB))
    usage = pb.ProcessUsage(cpu_percent=90.0, memory_bytes=GIB - 1, memory_peak_bytes=GIB)
    job.members.heard("c", job.now, pb.Heartbeat(usage=[usage]))
    row = job.members.processes(job.now)[0]
    assert (row.cpu_percent, row.memory, row.memory_peak) == (90.0, GIB - 1, GIB)
    out = job.exits("c", -9, restarting=True)
    assert kinds(out) == ["Died", "Release"]
    assert not only(Died, out).restarting_in_place
    assert only(Request, job.wait(1)).retry_memory


def test_a_rank_is_not_sent_to_a_node_again_where_it_died_twice() -> None:
    job = Job(nodes=3)
    request = job.requests[0]
    for container in "ab":
        job.run(request, container, "bad")
        job.exits(container, 1)
        request = only(Request, job.wait(5))
    for container in "cde":
        job.place(request, container)
        out = job.grant(container, "bad")
        assert kinds(out) == ["Note", "Release", "Request"]
        assert only(Release, out).cause is Cause.OUR_KILL
        request = only(Request, out)
    job.place(request, "f")
    assert job.grant("f", "bad") == []
    assert job.state() == "starting"
    assert job.members.processes(job.now)[0].deaths == 2


# ---------------------------------------------------------------- deaths that would repeat


def test_a_missing_package_fails_at_once() -> None:
    job = Job()
    job.place(job.requests[0], "c")
    job.grant("c")
    job.register(job.requests[0], "c")
    job.started("c")
    out = job.exits("c", 1, restarting=True, tail="ModuleNotFoundError: No module named 'numpy'")
    assert kinds(out) == ["Died", "Release", "GaveUp"]
    gave_up = only(GaveUp, out)
    assert gave_up.cause is Cause.ENVIRONMENT
    assert "lacks the package numpy" in gave_up.text


def test_a_package_missing_on_one_node_is_that_node_s() -> None:
    job = Job({"worker": RolePlan(2)}, nodes=3)
    job.run(job.requests[0], "a", "n1")
    job.place(job.requests[1], "b")
    job.grant("b", "n2")
    job.register(job.requests[1], "b")
    job.started("b")
    out = job.exits("b", 1, tail="ModuleNotFoundError: No module named 'numpy'")
    assert kinds(out) == ["Died", "Release"]
    job.members.heard("a", job.now)
    request = only(Request, job.wait(1))
    job.place(request, "c")
    assert kinds(job.grant("c", "n2")) == ["Note", "Release", "Request"]


def test_containers_that_end_before_any_agent_came_up_are_the_environment_s_fault() -> None:
    job = Job({"worker": RolePlan(3)})
    for request, container in zip(job.requests, "abc", strict=True):
        job.place(request, container)
        job.grant(container)
    first = job.end("a")
    assert kinds(first) == ["Died"]
    assert only(Died, first).cause is Cause.LAUNCH
    gave_up = only(GaveUp, job.end("b"))
    assert gave_up.cause is Cause.ENVIRONMENT
    assert "the nodes lack the job's Python" in gave_up.text


def test_the_first_container_s_output_is_enough_where_it_can_be_had() -> None:
    job = Job()
    job.place(job.requests[0], "c")
    job.grant("c")
    tail = "/usr/bin/python3: No module named yarnps.agent"
    gave_up = only(GaveUp, job.end("c", tail=tail))
    assert gave_up.cause is Cause.ENVIRONMENT


TRACEBACK = "Traceback (most recent call last):\n  …\nKeyError: 'x'"


def test_an_exception_of_the_program_costs_and_is_shown_in_the_end() -> None:
    job = running(RolePlan(1, max_restarts=1))
    failed = pb.RoleFailed(error="KeyError: 'x'", traceback=TRACEBACK)
    job.members.role_failed("c", 0, failed, job.now)
    died = only(Died, job.exits("c", 1, restarting=True))
    assert (died.cause, died.traceback) == (Cause.SCRIPT, TRACEBACK)
    job.started("c", 1)
    job.members.role_failed("c", 0, failed, job.now)
    gave_up = only(GaveUp, job.exits("c", 1, 1, restarting=True))
    assert (gave_up.cause, gave_up.traceback) == (Cause.SCRIPT, TRACEBACK)


def test_an_exception_whose_exit_was_not_heard_is_the_container_s_cause() -> None:
    job = running()
    failed = pb.RoleFailed(error="KeyError: 'x'", traceback=TRACEBACK)
    job.members.role_failed("c", 0, failed, job.now)
    died = only(Died, job.end("c"))
    assert (died.cause, died.traceback) == (Cause.SCRIPT, TRACEBACK)


def test_a_user_s_mistake_is_not_tried_again() -> None:
    job = running()
    failed = pb.RoleFailed(error="DataError: a.libsvm:7: bad", traceback="", user_error=True)
    job.members.role_failed("c", 0, failed, job.now)
    out = job.exits("c", 1, restarting=True)
    assert kinds(out) == ["Died", "Release", "GaveUp"]
    assert only(GaveUp, out).cause is Cause.DATA
    assert only(GaveUp, out).text == "worker 0: a.libsvm:7: bad"


# ---------------------------------------------------------------- ends that are well


def test_a_finished_worker_s_exit_is_no_death() -> None:
    job = running()
    assert job.members.finished("worker", 0, job.now) == []
    out = job.exits("c", 0)
    release = only(Release, out)
    assert kinds(out) == ["Release"]
    assert release.polite
    assert job.state() == "finished"
    assert job.end("c") == []
    assert job.wait(1000) == []
    assert job.members.left("worker") == [0]


def test_exit_0_when_all_input_is_done_is_well() -> None:
    job = running()
    assert kinds(job.exits("c", 0, work=Work(asked=False, input_left=False))) == ["Release"]
    assert job.state() == "finished"


def test_exit_0_without_having_asked_for_input() -> None:
    job = running()
    out = job.exits("c", 0, restarting=True, work=Work(asked=False, input_left=True))
    gave_up = only(GaveUp, out)
    assert gave_up.cause is Cause.NO_INPUT_READ
    assert "job.data()" in gave_up.text


def test_exit_0_before_the_input_is_done() -> None:
    job = running()
    died = only(Died, job.exits("c", 0, work=Work(asked=True, rows=4096, input_left=True)))
    assert (died.cause, died.charged) == (Cause.EXIT, True)
    assert "before the input was done, after 4,096 rows" in died.text


def test_a_server_that_exits_with_0_by_itself_has_died() -> None:
    job = Job({"server": RolePlan(1)})
    job.run(job.requests[0], "s")
    died = only(Died, job.exits("s", 0, restarting=True))
    assert (died.cause, died.charged) == (Cause.EXIT, True)


def test_an_ordered_stop_is_free_and_starts_again_in_place() -> None:
    job = running(RolePlan(1, max_restarts=0))
    exited = pb.RoleExited(incarnation=incarnation("c"), exit_code=-15, ordered=True)
    out = job.members.role_exited("c", exited, job.now)
    assert kinds(out) == ["Died", "StartProcess"]
    assert only(Died, out).cause is Cause.OUR_KILL
    only(Up, job.started("c", 1))


# ---------------------------------------------------------------- restarts of the AM


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
    assert answer.resumed
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


def test_giving_up_by_order() -> None:
    job = running()
    out = job.members.give_up("worker", 0, Cause.DATA, "too many bad records")
    assert kinds(out) == ["Died", "Release", "GaveUp"]
    assert only(GaveUp, out).cause is Cause.DATA
    assert job.members.give_up("worker", 0, Cause.DATA, "again") == []


def test_ten_thousand_ranks_are_no_burden() -> None:
    job = Job({"worker": RolePlan(10_000)}, nodes=5_000)
    for request in job.requests:
        job.run(request, f"w{request.rank}", f"n{request.rank % 5000}")
    assert job.members.all_up_once
    assert job.wait(3) == []
    assert len(job.members.processes(job.now)) == 10_000
    assert dataclasses.asdict(job.members.processes(job.now)[7])["container"] == "w7"
