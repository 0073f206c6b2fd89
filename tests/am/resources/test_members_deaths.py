"""What a death costs, what follows from it, and ends that are none."""

from __future__ import annotations

import pytest
from members_job import GIB, Job, incarnation, kinds, only, running

from yarnps.am.resources.decisions import Died, GaveUp, Limits, Release, Request, RolePlan, Up, Work
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

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
    job.members.role_failed("c", 0, failed)
    died = only(Died, job.exits("c", 1, restarting=True))
    assert (died.cause, died.traceback) == (Cause.SCRIPT, TRACEBACK)
    job.started("c", 1)
    job.members.role_failed("c", 0, failed)
    gave_up = only(GaveUp, job.exits("c", 1, 1, restarting=True))
    assert (gave_up.cause, gave_up.traceback) == (Cause.SCRIPT, TRACEBACK)


def test_an_exception_whose_exit_was_not_heard_is_the_container_s_cause() -> None:
    job = running()
    failed = pb.RoleFailed(error="KeyError: 'x'", traceback=TRACEBACK)
    job.members.role_failed("c", 0, failed)
    died = only(Died, job.end("c"))
    assert (died.cause, died.traceback) == (Cause.SCRIPT, TRACEBACK)


def test_a_user_s_mistake_is_not_tried_again() -> None:
    job = running()
    failed = pb.RoleFailed(error="DataError: a.libsvm:7: bad", traceback="", user_error=True)
    job.members.role_failed("c", 0, failed)
    out = job.exits("c", 1, restarting=True)
    assert kinds(out) == ["Died", "Release", "GaveUp"]
    assert only(GaveUp, out).cause is Cause.DATA
    assert only(GaveUp, out).text == "worker 0: a.libsvm:7: bad"


# ---------------------------------------------------------------- ends that are well


def test_a_finished_worker_s_exit_is_no_death() -> None:
    job = running()
    job.members.finished("worker", 0)
    out = job.exits("c", 0)
    release = only(Release, out)
    assert kinds(out) == ["Release"]
    assert release.polite
    assert job.state() == "finished"
    assert job.end("c") == []
    assert job.wait(1000) == []


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
