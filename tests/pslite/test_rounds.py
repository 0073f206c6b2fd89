"""Barriers that are ended without the scheduler: nodes see no difference, and none is missed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping

import pytest
from pslite_nodes import World, barrier, heartbeat

from yarnps.pslite import wire_pb2 as pb
from yarnps.pslite.rounds import Rounds
from yarnps.pslite.wire import EVERYONE, HALL, SERVER_GROUP, WORKER_GROUP, Address, Seat

S0, W0, W1, W2 = Seat("server", 0), Seat("worker", 0), Seat("worker", 1), Seat("worker", 2)


class Port:
    """A scheduler behind `Rounds`, and how much each of them had to do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rounds = Rounds(lambda group: world.scheduler.round(group), self._hear, self._send)
        self.told: list[bytes] = []  # whose words the scheduler has heard
        self.whole = 0
        self._timestamp = 1000

    def _hear(self, port: Seat, sender: bytes, message: bytes) -> None:
        self.told.append(sender)
        self.world.take(self.world.scheduler.heard(port, sender, message, 0.0))

    def _send(self, nodes: Mapping[Seat, Address], message: bytes) -> None:
        self.whole += 1
        for seat, to in nodes.items():
            assert to == self.world.addresses[seat]
            self.world.inbox[seat].append(pb.Meta.FromString(message))

    def wait_at(self, group: int, *seats: Seat, port: Seat | None = None) -> None:
        for seat in seats:
            self._timestamp += 1
            self.rounds.heard(port or seat, seat.name, barrier(group, self._timestamp))


@pytest.fixture
def port() -> Port:
    """Of a job of three workers that have waited for one another once."""
    world = World(3, 1)
    world.start()
    made = Port(world)
    made.wait_at(WORKER_GROUP, W0, W1, W2)
    assert (len(made.told), made.whole) == (3, 0), "the first says that they have met"
    assert world.released() == [W0, W1, W2]
    made.told.clear()
    return made


def test_a_whole_one_leaves_no_trace(port: Port) -> None:
    before = port.world.scheduler.snapshot()
    for _ in range(3):
        port.wait_at(WORKER_GROUP, W2, W0, W1)
        assert port.world.released() == [W0, W1, W2]
    assert (port.told, port.whole) == ([], 3)
    assert port.world.scheduler.snapshot() == before


def test_what_is_not_whole_is_told_in_order_and_goes_on(port: Port) -> None:
    port.wait_at(WORKER_GROUP, W2, W0)
    port.rounds.pause()
    assert port.told == [W2.name, W0.name]
    assert port.world.released() == []
    (waiting,) = port.world.scheduler.waiting()
    assert (waiting.present, waiting.missing) == ((W2, W0), (W1,))
    port.wait_at(WORKER_GROUP, W1)
    assert port.world.released() == [W0, W1, W2]
    assert port.whole == 0


def test_other_words_come_after_those_before_them(port: Port) -> None:
    port.wait_at(WORKER_GROUP, W0, W1)
    port.rounds.heard(W2, W2.name, heartbeat(W2, 5))
    assert port.told == [W0.name, W1.name, W2.name]
    port.wait_at(WORKER_GROUP, W2)
    assert port.world.released() == [W0, W1, W2]


ODD: dict[str, Callable[[Port], None]] = {
    "the same twice": lambda p: p.wait_at(WORKER_GROUP, W0, W1, W1),
    "another group": lambda p: p.wait_at(SERVER_GROUP, W0),
    "everyone": lambda p: p.wait_at(EVERYONE, W0),
    "not in the group": lambda p: p.wait_at(WORKER_GROUP, S0),
    "another one's port": lambda p: p.wait_at(WORKER_GROUP, W0, port=W1),
    "the port of all, where there is none": lambda p: p.wait_at(WORKER_GROUP, W0, port=HALL),
    "garbage": lambda p: p.rounds.heard(W0, W0.name, b"\xff\xff"),
    "no ZeroMQ": lambda p: p.rounds.heard(W0, b"", b""),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_out_of_the_ordinary_is_told_at_once(what: str, port: Port) -> None:
    ODD[what](port)
    assert port.told
    assert port.whole == 0


def test_what_becomes_odd_before_its_last_word_is_told(port: Port) -> None:
    port.wait_at(WORKER_GROUP, W0, W1)
    port.world.scheduler.ended(S0, well=False, now=1.0)
    assert port.told == []
    port.wait_at(WORKER_GROUP, W2)
    assert (port.told, port.whole) == ([W0.name, W1.name, W2.name], 0)
    assert port.world.released() == [W0, W1, W2]


def test_two_groups_at_once(port: Port) -> None:
    port.wait_at(WORKER_GROUP, W0)
    port.wait_at(WORKER_GROUP + SERVER_GROUP, W1)
    port.wait_at(WORKER_GROUP, W2)
    assert (len(port.told), port.whole, port.world.released()) == (3, 0, [])


def test_groups_in_turns_are_usual(port: Port) -> None:
    all_but_the_scheduler = WORKER_GROUP + SERVER_GROUP
    port.wait_at(all_but_the_scheduler, S0, W0, W1, W2)
    told = len(port.told)
    for _ in range(3):
        port.wait_at(WORKER_GROUP, W0, W1, W2)
        port.wait_at(all_but_the_scheduler, W0, W1, W2, S0)
    assert (len(port.told), port.whole) == (told, 6)


def test_words_that_change_nothing_leave_it_usual(port: Port) -> None:
    port.rounds.heard(W0, W0.name, heartbeat(W0, 7))
    port.rounds.heard(W0, b"somebody", barrier(WORKER_GROUP, 8))
    port.rounds.heard(HALL, b"a stranger", b"?")
    assert len(port.told) == 3
    port.wait_at(WORKER_GROUP, W0, W1, W2)
    assert (len(port.told), port.whole) == (3, 1)


def test_one_of_everyone_is_never_usual() -> None:
    """The thread would end the program's, of which the scheduler has to know."""
    world = World(2, 1)
    world.start()
    assert world.scheduler.round(EVERYONE) is None
    world.wait_at(EVERYONE, *world.seats)
    assert world.scheduler.round(EVERYONE) is None
    assert world.scheduler.may_leave(S0)


def test_a_new_process_or_a_restored_state_is_not_usual(port: Port) -> None:
    scheduler = port.world.scheduler
    snapshot = json.loads(json.dumps(scheduler.snapshot()))
    assert scheduler.round(WORKER_GROUP)
    scheduler.restore(snapshot)
    assert scheduler.round(WORKER_GROUP) is None
    port.wait_at(WORKER_GROUP, W0, W1, W2)
    assert scheduler.round(WORKER_GROUP)
    scheduler.opened(W1, Address("10.0.0.1", 1))
    assert scheduler.round(WORKER_GROUP) is None


def test_there_are_none_where_words_may_come_twice() -> None:
    world = World(2, 1, resend=True)
    world.start()
    assert world.scheduler.round(WORKER_GROUP) is None
    world.wait_at(WORKER_GROUP, W0, W1)
    assert world.scheduler.round(WORKER_GROUP) is None


def test_a_death_an_end_and_a_new_process_are_seen(port: Port) -> None:
    scheduler = port.world.scheduler
    assert scheduler.round(WORKER_GROUP) is not None
    scheduler.ended(W1, well=False, now=1.0)
    assert scheduler.round(WORKER_GROUP) is None
    port.world.join(W1)
    assert scheduler.round(WORKER_GROUP) is None, "it may wait at a barrier of its start"
    port.world.released()
    port.wait_at(EVERYONE, W1)
    port.wait_at(WORKER_GROUP, W0, W1, W2)
    assert port.world.released() == [W0, W1, W2]
    assert port.whole == 0
    again = scheduler.round(WORKER_GROUP)
    assert again is not None
    assert again.nodes[W1] == port.world.addresses[W1]
    scheduler.ended(W2, well=True, now=2.0)
    assert scheduler.round(WORKER_GROUP) is None
    port.wait_at(WORKER_GROUP, W0, W1)
    assert port.world.released() == [W0, W1]


def test_in_the_hall() -> None:
    world = World(2, 1)
    world.scheduler.hall_opened(5000)
    world.start()
    port = Port(world)
    for _ in range(2):
        port.wait_at(WORKER_GROUP, W0, W1, port=HALL)
        assert world.released() == [W0, W1]
    assert (len(port.told), port.whole) == (2, 1)
    world.scheduler.ended(W1, well=False, now=1.0)
    world.join(W1)
    port.wait_at(EVERYONE, W1)
    for _ in range(2):
        port.wait_at(WORKER_GROUP, W0, port=HALL)
        port.wait_at(WORKER_GROUP, W1)
        assert W1 in world.released()
    assert port.whole == 2
    port.wait_at(WORKER_GROUP, W1, port=HALL)  # the dead one's connection is still there
    assert world.refusals() == ["worker 1: an earlier process of it has spoken on the port of all"]


@pytest.mark.parametrize("seed", range(40))
def test_nodes_see_no_difference(seed: int) -> None:
    """The same words, deaths and ends with and without it let the same nodes through."""
    chance = random.Random(seed)
    plain, behind = World(3, 2), World(3, 2)
    port = Port(behind)
    for world in (plain, behind):
        world.start()
    workers = [seat for seat in plain.seats if seat.role == "worker"]
    for turn in range(200):
        for count in range(chance.randrange(3)):
            group = chance.choice([WORKER_GROUP] * 9 + [SERVER_GROUP, EVERYONE])
            most = workers if chance.random() < 0.9 else plain.seats
            for seat in chance.sample(most, chance.choice([len(most), len(most), 1, 2])):
                said = barrier(group, 10_000 + 10 * turn + count)
                plain.say(seat, said)
                port.rounds.heard(seat, seat.name, said)
        port.rounds.pause()  # only between turns does anything else happen
        assert behind.released() == plain.released()
        assert behind.scheduler.waiting() == plain.scheduler.waiting()
        if chance.random() < 0.03:
            seat, well = chance.choice(plain.seats), chance.random() < 0.2
            for world in (plain, behind):
                world.take(world.scheduler.ended(seat, well=well, now=0.0))
                world.join(seat)
    assert port.whole > 0
