"""Whole jobs of ps-lite programs: what dies, what starts again, and how they end."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from dmlc_world import BATCHES, World, config

from yarnps.am import inputs as i
from yarnps.causes import Cause
from yarnps.pslite import wire_pb2 as ps
from yarnps.pslite.wire import HALL, Command

ASYNC = {"sync": {"mode": "asp"}, "dmlc": {"restart": "worker"}}


def world(folder: Path, seed: int = 1, **block: Any) -> World:
    return World(seed, config(folder, **block), work_s=20.0)


def cause(made: World) -> str:
    assert made.machine.outcome is not None
    return made.machine.outcome.cause_code


def test_an_undisturbed_job(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert made.run(60.0) == "SUCCEEDED"
    assert len(made.logged("joined")) == 5
    assert not made.logged("death")
    assert not made.ports, "ports are left open"


def test_what_a_process_is_told(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    env = made.process("worker", 2).env
    told = {name: env[name] for name in ("DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_NODE_HOST")}
    assert told == {"DMLC_NUM_WORKER": "3", "DMLC_NUM_SERVER": "2", "DMLC_NODE_HOST": "10.0.0.2"}
    assert env["DMLC_PS_ROOT_URI"] == "10.0.0.1"
    seats = made.machine.programs.scheduler.seats
    ports = {made.process(*seat).env["DMLC_PS_ROOT_PORT"] for seat in seats}
    assert len(ports) == 5, "two processes have the same port"


@pytest.mark.parametrize(("role", "rank"), [("worker", 1), ("worker", 0), ("server", 1)])
def test_the_gang_starts_again(role: str, rank: int, tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    made.kill(role, rank)
    assert made.run() == "SUCCEEDED"
    assert len(made.logged("death")) == 1
    assert len(made.logged("note", f"all start again (restart 1): {role} {rank} died")) == 1
    assert {node.try_number for node in made.nodes.values()} == {0, 1}
    assert len(made.logged("joined")) == 10
    # It was killed once, and pays for it alone.
    spent = {(p.role, p.rank): p.deaths for p in made.machine.members.processes(0)}
    assert {who for who, deaths in spent.items() if deaths} == {(role, rank)}


def test_workers_that_were_through_start_again_with_the_others(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    made.process("worker", 2).exit(0)  # it needs no barrier at its end
    made.until(lambda: made.machine.members.is_finished("worker", 2))
    made.kill("server", 0)
    assert made.run() == "SUCCEEDED"
    assert [n.try_number for n in made.nodes.values() if n.seat == ("worker", 2)] == [0, 1]


def test_an_asynchronous_worker_comes_back_alone_twice(tmp_path: Path) -> None:
    made = world(tmp_path, **ASYNC)
    made.until(made.working)
    for number in (1, 2):
        made.kill("worker", 1)
        made.until(lambda n=number: len(made.logged("joined", "worker 1 has joined again")) == n)
    assert made.run() == "SUCCEEDED"
    assert not made.logged("note", "all start again")
    assert made.nodes[max(made.nodes)].env["DMLC_NUM_ATTEMPT"] == "2"
    assert len(made.nodes) == 7


@pytest.mark.parametrize(("role", "rank"), [("worker", 0), ("server", 0)])
def test_who_cannot_come_back_alone(role: str, rank: int, tmp_path: Path) -> None:
    made = world(tmp_path, **ASYNC)
    made.until(made.working)
    made.kill(role, rank)
    assert made.run() == "SUCCEEDED"
    assert made.logged("note", "all start again")


def test_never_is_never(tmp_path: Path) -> None:
    made = world(tmp_path, dmlc={"restart": "never"})
    made.until(made.working)
    made.box_of("worker", 1).end("Container released on a *lost* node")
    assert made.run(5.0) == "FAILED"
    assert cause(made) == Cause.NODE_LOST
    assert "worker 1" in made.machine.outcome.cause
    assert "dmlc.restart is never" in made.machine.outcome.cause
    assert made.machine.outcome.exit_code is None


@pytest.mark.parametrize(("code", "shown"), [(7, 7), (-15, 143)])
def test_the_exit_status_of_the_program_that_ended_the_job(
    code: int, shown: int, tmp_path: Path
) -> None:
    made = world(tmp_path, dmlc={"restart": "never"})
    made.until(made.working)
    made.process("worker", 1).exit(code)
    assert made.run(5.0) == "FAILED"
    assert made.machine.outcome.exit_code == shown


def test_before_all_have_met_only_the_dead_start_again(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: len(made.logged("joined")) == 1)
    first = made.logged("joined")[0]
    made.kill(first.role, first.rank)
    assert made.run() == "SUCCEEDED"
    assert not made.logged("note", "all start again")
    assert len(made.nodes) == 6


def test_the_budget_ends_it(tmp_path: Path) -> None:
    made = world(tmp_path)
    for number in range(1, 5):
        made.until(lambda n=number: len(made.logged("barrier", "start")) == n)
        made.kill("worker", 1)
    assert made.run() == "FAILED"
    assert cause(made) == Cause.SIGNAL
    assert "used up its 3 restarts" in made.machine.outcome.cause
    assert made.machine.outcome.exit_code == 128 + signal.SIGKILL
    assert len(made.logged("note", "all start again")) == 3


def test_a_worker_that_never_joins_ends_the_job_by_name(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: any(node.seat == ("worker", 1) for node in made.nodes.values()))
    made.process("worker", 1).exit(0)
    assert made.run(10.0) == "FAILED"
    assert cause(made) == Cause.NOT_JOINED
    assert made.machine.outcome.cause.startswith("worker 1: its program ended")


def test_a_container_that_never_comes(tmp_path: Path) -> None:
    made = world(tmp_path, start_timeout="60 s")
    made.until(lambda: len(made.boxes) == 5)
    box = next(b for b in made.boxes.values() if (b.role, b.rank) == ("worker", 2))
    box.never = True
    assert made.run(100.0) == "FAILED"
    assert cause(made) == Cause.START_TIMEOUT
    assert "worker 2" in made.machine.outcome.cause
    assert "not been granted" in made.machine.outcome.cause


def test_one_that_hangs_before_it_joins(tmp_path: Path) -> None:
    made = world(tmp_path, start_timeout="60 s")
    made.until(lambda: any(node.seat == ("server", 1) for node in made.nodes.values()))
    made.process("server", 1).frozen = True
    assert made.run(100.0) == "FAILED"
    assert "server 1 (its process on n1 runs but has not joined the others)" in (
        made.machine.outcome.cause
    )


def test_one_that_does_not_come_to_a_barrier_is_taken_for_dead(tmp_path: Path) -> None:
    made = world(tmp_path, dmlc={"barrier_limit": "100 s"})
    made.until(made.working)
    made.process("worker", 1).frozen = True
    made.until(lambda: bool(made.machine.programs.waits(made.now)))
    (wait,) = made.machine.programs.waits(made.now)
    assert wait.startswith("a barrier of the workers has been waiting for 1")
    assert wait.endswith("for worker 1")
    assert made.run() == "SUCCEEDED"
    assert made.logged("death", "waited for it at a barrier for too long (dmlc.barrier_limit)")


def test_a_server_that_leaves_while_it_is_needed(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    made.process("server", 0).exit(0)
    assert made.run() == "SUCCEEDED"
    assert made.logged("death", "ended with exit status 0 while the workers need it")


def test_servers_may_crash_when_the_work_is_done(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: bool(made.logged("barrier", "end")))
    for rank in range(2):
        made.process("server", rank).frozen = True
    made.until(lambda: bool(made.logged("end_of_work")))
    made.kill("server", 0)
    assert made.run(90.0) == "SUCCEEDED", "server 1 does not end, and has had its time"
    assert not made.logged("death")


@pytest.mark.parametrize("when", [0.5, 3.0, 5.0, 9.0])
def test_the_am_dies(when: float, tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: made.now > 1000.0 + when)
    made.am_dies()
    assert made.run() == "SUCCEEDED"
    assert not made.logged("death")
    assert len(made.nodes) == 5


@pytest.mark.parametrize("what", ["registration", "barrier"])
def test_what_was_said_to_an_am_about_to_die(what: str, tmp_path: Path) -> None:
    made = world(tmp_path)
    if what == "barrier":
        made.until(made.working)
    else:
        made.until(lambda: len(made.logged("joined")) == 1)
    made.deaf = True
    end = made.now + 2.0
    made.until(lambda: made.now > end)
    made.am_dies()
    made.deaf = False
    assert made.run(120.0) == "SUCCEEDED"
    assert made.logged("death", "was lost with the ApplicationMaster's process")
    spent = sum(rank.budget.spent for rank in made.machine.members._ranks.values())
    assert spent == 0, "the AM's fault costs nobody anything"


def test_who_computes_for_long_after_a_restart_of_the_am_is_left_alone(tmp_path: Path) -> None:
    made = World(1, config(tmp_path), work_s=400.0)
    made.until(lambda: any(node.busy for node in made.nodes.values()))
    made.am_dies()
    assert made.run(600.0) == "SUCCEEDED"
    assert not made.logged("death")


def test_a_port_that_is_lost_with_the_am(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    made.am_dies()
    made.until(lambda: made.am_alive)
    made.feed(i.PortLost("worker", 0, "port 20001 of worker 0: address in use"))
    assert made.run() == "SUCCEEDED"
    assert made.logged("death", "the port of worker 0 is lost: port 20001")


def lose_hall(made: World) -> None:
    """The AM's process dies, and finds the port of all taken when it is back."""
    assert HALL in made.ports.values()
    made.am_dies()
    made.until(lambda: made.am_alive)
    made.ports = {port: seat for port, seat in made.ports.items() if seat != HALL}
    made.feed(i.PortLost(*HALL, "port 20000: address in use"))


@pytest.mark.parametrize("policy", [{}, ASYNC], ids=["gang", "worker"])
@pytest.mark.parametrize("through", [False, True], ids=["all at work", "worker 0 is through"])
def test_the_port_of_all_is_lost_with_the_am(
    policy: dict[str, Any], through: bool, tmp_path: Path
) -> None:
    made = world(tmp_path, **policy)
    made.until(lambda: sum(node.busy for node in made.nodes.values()) == 3)
    if through:
        made.process("worker", 0).exit(0)
    lose_hall(made)
    assert made.run() == "SUCCEEDED"
    assert made.logged("death", "the port of all is lost: port 20000")
    assert {node.try_number for node in made.nodes.values()} == {0, 1}


def test_the_port_of_all_is_lost_before_anybody_knows_of_it(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: HALL in made.ports.values())
    lose_hall(made)
    assert made.run() == "SUCCEEDED"
    assert not made.logged("death")


def test_all_start_again_with_another_port_of_all(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(made.working)
    (old,) = [port for port, seat in made.ports.items() if seat == HALL]
    made.kill("worker", 0)
    made.until(lambda: made.tries == 1)
    assert old not in made.ports
    assert made.run() == "SUCCEEDED"


def test_barriers_that_all_come_to_at_once_are_in_no_journal(tmp_path: Path) -> None:
    made = world(tmp_path)
    assert made.run() == "SUCCEEDED"
    told = sum('"NodeSaid"' in line for line in made.journal)
    # Registrations, barriers of all at start and end; of the workers at their start and after each.
    words = 5 * 3 + 3 * (1 + BATCHES)
    assert made.whole_rounds > 0
    assert told == words - 3 * made.whole_rounds


def test_a_second_attempt_counts_as_a_failure_before(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.config = config(tmp_path)
    object.__setattr__(made.config, "attempt", 2)
    second = World(1, made.config)
    second.until(lambda: bool(second.nodes))
    assert next(iter(second.nodes.values())).env["DMLC_NUM_ATTEMPT"] == "1"
    never = config(tmp_path, dmlc={"restart": "never"})
    object.__setattr__(never, "attempt", 2)
    assert World(1, never).run(1.0) == "FAILED"


def test_strangers_are_named_and_harm_nothing(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.until(lambda: bool(made.ports))
    port = next(iter(made.ports))
    made.arrives(port, b"x", b"\xff\xff garbage")
    node = ps.Node(role=1, hostname="10.66.6.6", port=1)
    control = ps.Control(cmd=Command.ADD_NODE, node=[node])
    made.arrives(port, b"x", ps.Meta(control=control).SerializeToString())
    assert made.run() == "SUCCEEDED"
    assert made.logged("refused", "no message of ps-lite")
    assert made.logged("refused", "10.66.6.6:1 has registered")


@pytest.mark.parametrize("seed", range(30))
def test_whatever_dies_it_ends(seed: int, tmp_path: Path) -> None:
    policy = ASYNC if seed % 2 else {}
    made = world(tmp_path, seed, **policy)
    for _ in range(made.random.randrange(1, 4)):
        made.later(made.uniform(0.5, 60.0), made.mishap)
    # Three restarts of each rank are enough for three mishaps.
    assert made.run(600.0) == "SUCCEEDED"
