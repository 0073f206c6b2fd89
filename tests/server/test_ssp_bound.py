"""The bound of stale synchronous training, over random schedules of messages and mishaps."""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

import pytest
from engine_values import JOB, SHARDS, TOKEN, sparse

from yarnps.protocol import wire
from yarnps.protocol.wire import NO_CLOCK, Flag, Header, Op
from yarnps.server.clocks import Clocks
from yarnps.server.service import Reply, Service
from yarnps.server.store import Store

SERVERS = 3
STEPS = 3000
SPEC = sparse()


class Worker:
    """A worker's side of the clock: it joins, pulls from every server, commits, and leaves."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.clock: int | None = None
        self.lowest: list[int] = []  # what the servers have answered to joining
        self.waits_for = 0  # answers
        self.computes = False  # while the pulls of its next batch are under way


class Asked(NamedTuple):
    worker: Worker
    header: Header


class Schedule:
    """Messages of workers to servers, delivered in a random order.

    `worst` is the largest distance of a worker from the slowest member at any answered pull, by
    the workers' own counts, of which a server hears late.
    """

    def __init__(self, seed: int, staleness: int, *, gate: bool = True) -> None:
        self.random = random.Random(seed)
        self.servers = [
            Service(
                Store(list(range(SHARDS)), SHARDS),
                Clocks(staleness if gate else None),
                job=JOB,
                token=TOKEN,
                generation=1,
            )
            for _ in range(SERVERS)
        ]
        self.workers: dict[int, Worker] = {}
        self.lanes: dict[tuple[int, int], deque[Header]] = {}  # worker, server: kept in order
        self.asked: dict[int, Asked] = {}
        self.worst = self.pulls = self.waited = self.deaths = 0
        for number in range(1, 6):
            self.start(number)

    def start(self, number: int) -> None:
        worker = self.workers[number] = Worker(number)
        for index in range(SERVERS):
            self.lanes[number, index] = deque()
        self.say(worker, Op.HELLO, NO_CLOCK)
        self.say(worker, Op.OPEN, NO_CLOCK)
        self.publish()

    def publish(self) -> None:
        for server in self.servers:
            self.answered(server.set_members(list(self.workers), []))

    def say(self, worker: Worker, op: Op, clock: int, flags: int = 0) -> None:
        """To every server; each hears it in its own time."""
        for index in range(SERVERS):
            number = len(self.asked) + 1
            header = Header(
                op,
                job=JOB,
                request=number,
                incarnation=worker.number,
                generation=1,
                table=wire.table_id(SPEC.name),
                clock=clock,
                flags=flags,
            )
            self.asked[number] = Asked(worker, header)
            self.lanes[worker.number, index].append(header)

    # ------------------------------------------------------------ what happens

    def step(self) -> None:
        busy = [lane for lane in self.lanes if self.lanes[lane]]
        chance = self.random.random()
        if chance < 0.003:
            self.die()
        elif busy and chance < 0.85:
            self.deliver(*self.random.choice(busy))
        else:
            self.act(self.random.choice(list(self.workers.values())))

    def act(self, worker: Worker) -> None:
        """What its program does next, unless it waits for answers."""
        if worker.waits_for:
            return
        if worker.clock is None:
            worker.waits_for, worker.lowest = SERVERS, []
            self.say(worker, Op.JOIN, NO_CLOCK)
        elif self.random.random() < 0.02:
            worker.clock = None  # its input has ended for now
            self.say(worker, Op.LEAVE, NO_CLOCK)
        else:
            worker.waits_for = SERVERS
            self.say(worker, Op.PULL, worker.clock)

    def deliver(self, number: int, index: int) -> None:
        header, server = self.lanes[number, index].popleft(), self.servers[index]
        keys = b""
        if header.op == Op.HELLO:
            keys = f'{{"token": "{TOKEN}"}}'.encode()
        elif header.op == Op.OPEN:
            keys = SPEC.to_json().encode()
        before = server.waiting
        frames = wire.encode(header, keys=keys)
        self.answered(server.handle(b"%d" % number, frames, 0.0))
        self.waited += server.waiting > before

    def answered(self, replies: list[Reply]) -> None:
        for reply in replies:
            answer = wire.decode(reply.frames).header
            assert answer.op == Op.OK
            worker, header = self.asked[answer.request]
            if self.workers.get(worker.number) is not worker:
                continue  # it has died
            if header.op == Op.JOIN and header.clock == NO_CLOCK:
                self.joins(worker, answer.clock)
            elif header.op == Op.PULL:
                self.pulled(worker, header.clock)

    def joins(self, worker: Worker, lowest: int) -> None:
        worker.lowest.append(lowest)
        worker.waits_for -= 1
        if not worker.waits_for:
            worker.clock = max(worker.lowest)
            self.say(worker, Op.JOIN, worker.clock)

    def pulled(self, worker: Worker, clock: int) -> None:
        assert worker.clock is not None
        self.pulls += 1
        members = [w.clock for w in self.workers.values() if w.clock is not None]
        self.worst = max(self.worst, clock - min(members))
        worker.waits_for -= 1
        if not worker.waits_for:  # computed, pushed, acknowledged
            worker.clock += 1
            self.say(worker, Op.JOIN, worker.clock)

    def die(self) -> None:
        number = self.random.choice(list(self.workers))
        del self.workers[number]
        for index in range(SERVERS):
            del self.lanes[number, index]
        self.deaths += 1
        self.publish()
        self.start(10 + self.deaths)


class EarlySchedule(Schedule):
    """Workers pull for their next batch while they compute, and say so if they are `honest`."""

    honest = True

    def act(self, worker: Worker) -> None:
        if worker.clock is None:
            super().act(worker)
        elif worker.computes:  # computed, pushed, acknowledged
            worker.computes = False
            worker.clock += 1
            self.say(worker, Op.JOIN, worker.clock)
        elif not worker.waits_for:
            worker.computes, worker.waits_for = True, SERVERS
            flags = int(Flag.EARLY) if self.honest else 0
            self.say(worker, Op.PULL, worker.clock + 1, flags)

    def pulled(self, worker: Worker, clock: int) -> None:
        worker.waits_for += 1  # its clock moves when it has computed
        super().pulled(worker, clock)
        worker.waits_for -= 1


class DishonestSchedule(EarlySchedule):
    """The early pulls look like those of a worker that has got there."""

    honest = False


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_early_pulls_do_not_violate_it(seed: int, staleness: int) -> None:
    schedule = EarlySchedule(seed, staleness)
    for _ in range(STEPS):
        schedule.step()
    assert schedule.worst <= staleness
    assert schedule.pulls > 200 and schedule.waited > 10 and schedule.deaths > 0


def test_early_pulls_that_do_not_say_so_would() -> None:
    """The control: by their clocks a server takes those for done who are only on their way."""
    found = []
    for seed in range(20):
        schedule = DishonestSchedule(seed, 1)
        for _ in range(STEPS):
            schedule.step()
        found.append(schedule.worst)
    assert max(found) > 1


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_never_violated(seed: int, staleness: int) -> None:
    schedule = Schedule(seed, staleness)
    for _ in range(STEPS):
        schedule.step()
    assert schedule.worst <= staleness
    assert schedule.pulls > 200 and schedule.waited > 10 and schedule.deaths > 0


@pytest.mark.parametrize("seed", range(20))
def test_without_the_gate_it_is(seed: int) -> None:
    """The control: the same schedules, and servers that never let a pull wait."""
    schedule = Schedule(seed, 3, gate=False)
    for _ in range(STEPS):
        schedule.step()
    assert schedule.waited == 0
    assert schedule.worst > 3
