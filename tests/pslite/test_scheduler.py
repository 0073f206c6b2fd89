"""Ids, barriers and recovery, message by message."""

from __future__ import annotations

import json

import pytest
from pslite_nodes import HERE, World, barrier, heartbeat, home, registration

from yarnps.pslite import wire
from yarnps.pslite.scheduler import REFUSALS_TOLD, Complete, Joined, Scheduler, Send
from yarnps.pslite.wire import EVERYONE, WORKER_GROUP, Address, Command, Seat

S0, S1 = Seat("server", 0), Seat("server", 1)
W0, W1, W2 = (Seat("worker", rank) for rank in range(3))


def test_ids_are_ps_lites() -> None:
    assert [seat.id for seat in (S0, S1, W0, W1, W2)] == [8, 10, 9, 11, 13]
    assert W2.name == b"ps13"


def test_nobody_is_sent_anything_before_all_have_registered() -> None:
    world = World(2, 1)
    assert world.join(W1) == [Joined(W1, world.addresses[W1], again=False)]
    world.join(S0)
    assert not any(world.inbox.values())
    world.join(W0)
    assert world.effects[-1] == Complete()
    for seat in world.seats:
        (told,) = world.inbox[seat]
        nodes = {node.id: (node.hostname, node.port) for node in told.control.node}
        everyone = {s.id: tuple(world.addresses[s]) for s in world.seats}
        # Each is told the scheduler's port that is its own.
        assert nodes == {**everyone, wire.SCHEDULER_ID: tuple(home(seat))}
        assert not any(node.is_recovery for node in told.control.node)


def test_ranks_follow_the_port_and_not_the_order_or_the_host() -> None:
    world = World(3, 0)
    for seat in (W2, W0, W1):
        world.join(seat)
    (told,) = world.inbox[W0]
    ports = {node.id: node.port for node in told.control.node}
    assert ports[W2.id] < ports[W0.id] < ports[W1.id]


def test_a_barrier_ends_when_all_of_its_group_are_there() -> None:
    world = World(2, 1)
    world.join_all()
    world.wait_at(WORKER_GROUP, W0)
    assert world.released() == []
    world.wait_at(EVERYONE, S0, W1)
    assert world.released() == []
    world.wait_at(WORKER_GROUP, W1)
    assert world.released() == [W0, W1]
    world.wait_at(EVERYONE, W0)
    assert world.released() == world.seats
    assert world.passed() == [(WORKER_GROUP, 1), (EVERYONE, 1)]


def test_a_barrier_says_who_is_missing_and_since_when() -> None:
    world = World(2, 1)
    world.join_all()
    world.wait_at(EVERYONE, W1, now=5.0)
    world.wait_at(EVERYONE, S0, now=7.0)
    (waiting,) = world.scheduler.waiting()
    assert (waiting.group, waiting.since) == (EVERYONE, 5.0)
    assert waiting.present == (W1, S0)
    assert waiting.missing == (W0,)


def test_a_repeated_message_counts_once() -> None:
    world = World(2, 0, resend=True)
    world.join_all()
    world.say(W0, barrier(WORKER_GROUP, 5))
    world.say(W1, barrier(WORKER_GROUP, 5))
    assert world.released() == [W0, W1]
    world.say(W0, barrier(WORKER_GROUP, 5))  # its acknowledgement was late
    world.say(W1, barrier(WORKER_GROUP, 6))
    assert world.released() == []


def test_acknowledgements_have_ps_lites_signature() -> None:
    world = World(1, 1, resend=True)
    world.join_all()
    world.say(W0, barrier(WORKER_GROUP + 2, 3))
    (ack,) = world.inbox[W0]
    assert ack.control.cmd == Command.ACK
    # app 0, sender 9, receiver 1, timestamp 3, a request
    assert ack.control.msg_sig == 9 << 40 | 1 << 32 | 3 << 1 | 1
    world.inbox[W0].clear()
    world.say(W0, heartbeat(W0, 4))
    ack, answer = world.inbox[W0]
    # no app: 2^31 - 1, of which 16 bits are taken
    assert ack.control.msg_sig == 0xFFFF << 48 | 9 << 40 | 1 << 32 | 4 << 1
    assert answer.control.cmd == Command.HEARTBEAT


def test_one_that_ended_well_counts_as_present() -> None:
    world = World(3, 0)
    world.start()
    world.wait_at(WORKER_GROUP, W0, W1)
    world.take(world.scheduler.ended(W2, well=True, now=1.0))
    assert world.released() == [W0, W1]
    world.wait_at(EVERYONE, W0)
    assert world.released() == []
    world.wait_at(EVERYONE, W1)
    assert world.released() == [W0, W1]


def test_one_that_died_is_waited_for() -> None:
    world = World(2, 0)
    world.start()
    world.wait_at(WORKER_GROUP, W1)
    assert world.scheduler.ended(W1, well=False, now=1.0) == []
    world.wait_at(WORKER_GROUP, W0)
    assert world.released() == []


def test_one_that_dies_before_the_workers_first_barrier_is_not_told_that_it_is_back() -> None:
    world = World(2, 1)
    world.start()
    world.wait_at(WORKER_GROUP, W0)  # MXNet's init of a key, which a recovery would leave out
    world.scheduler.ended(W1, well=False, now=1.0)
    assert world.join(W1)[0] == Joined(W1, world.addresses[W1], again=True)
    (told,) = world.inbox[W1]
    assert not any(n.is_recovery for n in told.control.node)
    world.released()
    world.wait_at(EVERYONE, W1)
    assert world.released() == [W1]
    world.wait_at(WORKER_GROUP, W1)
    assert world.released() == [W0, W1]


def test_a_worker_comes_back_twice() -> None:
    world = World(2, 1)
    world.start()
    world.wait_at(WORKER_GROUP, W0, W1)
    world.released()
    for _ in range(2):
        world.scheduler.ended(W1, well=False, now=1.0)
        effects = world.join(W1)
        assert effects[0] == Joined(W1, world.addresses[W1], again=True)
        assert {e.seat for e in effects if isinstance(e, Send)} == {S0, W0, W1}
        (told,) = world.inbox[W1]
        assert [n.id for n in told.control.node if n.is_recovery] == [W1.id]
        assert len(told.control.node) == 4
        (news,) = world.inbox[S0]
        assert [(n.id, n.is_recovery) for n in news.control.node] == [(11, True), (1, False)]
        assert news.control.node[0].port == world.addresses[W1].port
        world.released()
    # A blocking start waits for everyone, who are long past that: it is let through alone.
    world.wait_at(EVERYONE, W1)
    assert world.released() == [W1]
    world.wait_at(EVERYONE, W0, S0)
    assert world.released() == []
    world.wait_at(EVERYONE, W1)
    assert world.released() == world.seats


def test_a_death_before_the_first_barrier_leaves_a_new_node_not_a_recovery() -> None:
    world = World(2, 1)
    world.join_all()
    world.wait_at(EVERYONE, S0, W0)
    world.scheduler.ended(W1, well=False, now=1.0)
    world.join(W1)
    (told,) = world.inbox[W1]
    assert not any(n.is_recovery for n in told.control.node)
    world.released()
    world.wait_at(EVERYONE, W1)
    assert world.released() == world.seats


def test_a_death_before_all_are_there() -> None:
    world = World(2, 0)
    world.join(W0)
    world.scheduler.ended(W0, well=False, now=1.0)
    world.join(W1)
    assert not any(world.inbox.values())
    world.join(W0)
    (told,) = world.inbox[W1]
    assert told.control.node[0].port == world.addresses[W0].port


def test_the_dead_are_sent_nothing() -> None:
    world = World(3, 0)
    world.start()
    world.scheduler.ended(W1, well=False, now=1.0)
    world.scheduler.ended(W2, well=False, now=1.0)
    sent = {e.seat for e in world.join(W1) if isinstance(e, Send)}
    assert sent == {W0, W1}
    assert len(world.inbox[W1][-1].control.node) == 3  # two workers, the scheduler


def test_who_may_leave() -> None:
    world = World(1, 1)
    world.start()
    assert not world.scheduler.may_leave(S0)
    world.wait_at(EVERYONE, S0, W0)
    assert world.scheduler.may_leave(S0)


REFUSED = {
    "garbage": (b"\x07\xffgarbage", r"no message of ps-lite: b'\x07\xffgarbage'"),
    "empty": (b"", "no message of ps-lite: nothing that ZeroMQ can read"),
    "other role": (registration(S0, Address("10.0.0.2", 1)), "as a server on the port of a worker"),
    "other host": (registration(W0, Address("10.9.9.9", 1)), "this job's process is on 10.0.0.2"),
    "twice": (registration(W0, Address("10.0.0.2", 1)), "has that place already"),
    "again": (registration(W0, Address("10.0.0.2", 9001)), "has registered again"),
    "unnamed": (barrier(EVERYONE, 1), "calls itself"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_heeded_is_named_and_harms_nothing(name: str) -> None:
    world = World(1, 1)
    world.join(W0)
    message, text = REFUSED[name]
    world.say(W0, message, named=False)
    (refusal,) = world.refusals()
    assert refusal.startswith("worker 0: ")
    assert text in refusal
    world.join(S0)
    world.wait_at(EVERYONE, W0, S0)
    assert world.released() == [S0, W0]


def test_a_node_of_another_job_does_not_take_a_place() -> None:
    world = World(1, 1)
    stranger = registration(W0, Address("10.0.0.2", 555))
    world.say(W0, stranger, named=False)
    assert "no process of this job runs there" in world.refusals()[0]
    world.join(W0)
    assert world.effects[-1] == Joined(W0, world.addresses[W0], again=False)


def test_a_node_cannot_be_in_two_places() -> None:
    world = World(2, 0)
    world.join(W0)
    world.scheduler.opened(W1, home(W1))
    world.say(W1, registration(W1, world.addresses[W0]), named=False)
    assert "is worker 0 already" in world.refusals()[0]


def test_a_second_customer_of_a_process_is_no_second_node() -> None:
    world = World(1, 1)
    world.join_all()
    again = registration(W0, world.addresses[W0], customer=1)
    assert world.say(W0, again, named=False) == []


def test_a_group_that_it_is_not_in() -> None:
    world = World(1, 1)
    world.join_all()
    for group in (wire.SERVER_GROUP, 0, 8):
        world.wait_at(group, W0)
    assert len(world.refusals()) == 3
    assert world.scheduler.waiting() == []


def test_a_flood_of_garbage_is_told_a_few_times() -> None:
    world = World(1, 1)
    for _ in range(100):
        world.say(W0, b"\xff", named=False)
    assert len(world.refusals()) == REFUSALS_TOLD
    assert world.refusals()[-1].endswith("(more of this is not told)")


def test_after_a_restart_of_the_scheduler_only_the_list_is_sent_again() -> None:
    world = World(2, 0)
    assert world.scheduler.resumed() == []
    world.join_all()
    world.wait_at(EVERYONE, W1)
    world.take(world.scheduler.resumed())
    (told,) = world.inbox[W0]
    assert told.control.cmd == Command.ADD_NODE
    assert len(told.control.node) == 3
    assert not world.inbox[W1]


def test_snapshots() -> None:
    world = World(2, 1)
    world.start()
    world.wait_at(WORKER_GROUP, W0, W1)
    world.scheduler.ended(W1, well=False, now=1.0)
    world.join(W1)
    world.wait_at(EVERYONE, S0, now=2.0)
    world.released()
    taken = json.loads(json.dumps(world.scheduler.snapshot()))
    world.scheduler = Scheduler(2, 1)
    world.scheduler.restore(taken)
    assert world.scheduler.waiting()[0].missing == (W0, W1)
    world.wait_at(EVERYONE, W1)
    assert world.released() == [W1]
    world.wait_at(EVERYONE, W1, W0)
    assert world.released() == world.seats


def test_the_scheduler_listens_for_nobody_it_does_not_know() -> None:
    with pytest.raises(KeyError):
        Scheduler(1, 1).opened(W1, HERE)
