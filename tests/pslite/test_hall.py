"""The scheduler's port of all, where nodes speak once they know each other."""

from __future__ import annotations

import json

from pslite_nodes import HERE, World, barrier, heartbeat, home, registration

from yarnps.pslite import wire
from yarnps.pslite import wire_pb2 as pb
from yarnps.pslite.scheduler import REFUSALS_TOLD, Effect, Refused, Scheduler, Send
from yarnps.pslite.wire import HALL, WORKER_GROUP, Address, Command, Seat

W0, W1 = Seat("worker", 0), Seat("worker", 1)
PORT = 5000


def with_hall(workers: int, servers: int) -> World:
    world = World(workers, servers)
    world.scheduler.hall_opened(PORT)
    world.start()
    return world


def scheduler_of(world: World, seat: Seat) -> tuple[str, int]:
    """Where the newest list that a node was sent says that the scheduler is."""
    lists = [m for m in world.inbox[seat] if m.control.cmd == Command.ADD_NODE]
    (node,) = [n for n in lists[-1].control.node if n.id == wire.SCHEDULER_ID]
    return node.hostname, node.port


def sent(effects: list[Effect]) -> list[pb.Meta]:
    return [pb.Meta.FromString(e.message) for e in effects if isinstance(e, Send)]


def test_nodes_that_know_each_other_speak_in_the_hall() -> None:
    world = World(2, 1)
    world.scheduler.hall_opened(PORT)
    for seat in world.seats:
        world.join(seat)
    for seat in world.seats:
        assert scheduler_of(world, seat) == (HERE.host, PORT)
    world.in_hall(W0, barrier(WORKER_GROUP, 1))
    world.say(W1, barrier(WORKER_GROUP, 1))  # at its own port it is heard as ever
    assert world.released() == [W0, W1]
    (answer,) = sent(world.in_hall(W0, heartbeat(W0, 2)))
    assert answer.control.node[0].port == PORT
    again = registration(W0, world.addresses[W0], customer=1)
    assert world.in_hall(W0, again) == []


def test_who_takes_a_dead_ones_place_stays_at_its_own_port() -> None:
    world = with_hall(2, 1)
    world.scheduler.ended(W1, well=False, now=1.0)
    world.join(W1)
    assert scheduler_of(world, W1) == home(W1)
    assert scheduler_of(world, W0) == (HERE.host, PORT)
    world.wait_at(WORKER_GROUP, W0)
    world.in_hall(W1, barrier(WORKER_GROUP, 9))
    assert world.released() == []
    assert world.refusals() == ["worker 1: an earlier process of it has spoken on the port of all"]
    world.say(W1, barrier(WORKER_GROUP, 9))
    assert world.released() == [W0, W1]


def test_a_death_before_all_have_met_leaves_the_hall_open_for_it() -> None:
    world = World(2, 0)
    world.scheduler.hall_opened(PORT)
    world.join(W1)
    world.scheduler.ended(W1, well=False, now=1.0)
    world.join(W1)
    world.join(W0)
    assert scheduler_of(world, W1) == (HERE.host, PORT)


def test_strangers_in_the_hall_are_told_a_few_times() -> None:
    world = with_hall(1, 1)
    hall = world.scheduler.heard
    assert hall(HALL, b"ps99", b"garbage", 0.0)[0] == Refused(
        None, "what came to the port of all is of none of them: b'ps99' has said b'garbage'"
    )
    said = [hall(HALL, b"", b"", 0.0) for _ in range(100)]
    assert "nothing ZeroMQ can read" in str(said[0])
    assert [bool(effects) for effects in said].count(True) == REFUSALS_TOLD - 1
    registers = registration(W0, Address("10.0.0.2", 1))
    assert hall(HALL, b"\0abcd", registers, 0.0) == []


def test_the_hall_is_known_after_a_restart_of_the_scheduler() -> None:
    world = with_hall(1, 1)
    taken = json.loads(json.dumps(world.scheduler.snapshot()))
    world.scheduler = Scheduler(1, 1)
    world.scheduler.restore(taken)
    homes = {seat: home(seat).port for seat in world.seats}
    assert dict(world.scheduler.homes()) == {HALL: PORT, **homes}
    world.in_hall(W0, barrier(WORKER_GROUP, 7))
    assert world.released() == [W0]
