"""`Clocks`: who is slow leaves the clock, who waits for it does not."""

from __future__ import annotations

import json
import random

import pytest

from yarnps.am.training.clocks import Change, Clocks

STALENESS = 4


class Fleet:
    """Workers under an SSP gate, simulated in steps of a tenth of a second."""

    def __init__(self, seconds_per_batch: dict[int, float], *, staleness: int | None = STALENESS):
        self.clocks = Clocks(staleness)
        self.cost = dict(seconds_per_batch)
        self.clock = dict.fromkeys(self.cost, 0)
        self.worked = dict.fromkeys(self.cost, 0.0)
        self.waited = dict.fromkeys(self.cost, 0.0)
        self.silent: set[int] = set()
        self.ticks = 0
        self.random = random.Random(3)
        for worker in self.cost:
            self.clocks.joined(worker, 0.0)

    @property
    def now(self) -> float:
        return self.ticks / 10

    def run(self, seconds: float) -> list[Change]:
        changes: list[Change] = []
        for _ in range(round(seconds * 10)):
            self.ticks += 1
            self.step()
            if self.ticks % 10 == 0:
                for worker in self.cost:
                    if worker not in self.silent:
                        self.clocks.stats(worker, self.clock[worker], self.waited[worker], self.now)
                changes += self.clocks.tick(self.now)
        return changes

    def step(self) -> None:
        outside = set(self.clocks.members().outside)
        low = min(clock for worker, clock in self.clock.items() if worker not in outside)
        for worker in self.cost:
            if worker in self.silent:
                continue
            if worker not in outside and self.clock[worker] > low + STALENESS:
                self.waited[worker] += 0.1
                continue
            self.worked[worker] += 0.1 * self.random.uniform(0.8, 1.2)
            if self.worked[worker] >= self.cost[worker]:
                batches = int(self.worked[worker] / self.cost[worker])
                self.worked[worker] -= batches * self.cost[worker]
                self.clock[worker] += batches


def test_a_slow_worker_leaves_the_clock_and_the_others_do_not() -> None:
    fleet = Fleet({1: 0.3, 2: 0.3, 3: 0.35, 4: 2.0})
    changes = fleet.run(30)
    assert [(change.worker, change.outside) for change in changes] == [(4, True)]
    assert list(fleet.clocks.members().incarnations) == [1, 2, 3]
    assert list(fleet.clocks.members().outside) == [4]
    assert fleet.clock[1] > 60, "the others are not held up any more"


def test_twice_as_slow_is_not_slow() -> None:
    assert Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 0.6}).run(60) == []


def test_three_are_enough_and_two_are_not() -> None:
    assert [c.worker for c in Fleet({1: 0.3, 2: 0.3, 3: 3.0}).run(30)] == [3]
    assert Fleet({1: 0.3, 2: 3.0}).run(60) == []


def test_without_a_gate_nobody_is_judged() -> None:
    assert Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 3.0}, staleness=None).run(60) == []


@pytest.mark.parametrize("silent", [True, False])
def test_a_frozen_worker_leaves_the_clock(silent: bool) -> None:
    fleet = Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 0.3})
    assert fleet.run(20) == []
    if silent:
        fleet.silent.add(4)
    else:
        fleet.cost[4] = 1e9
    changes = fleet.run(20)
    assert [(change.worker, change.outside) for change in changes] == [(4, True)]


def test_it_comes_back_when_it_keeps_up() -> None:
    fleet = Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 3.0})
    fleet.run(30)
    fleet.cost[4] = 0.3
    # A server takes a member's clock that comes back as the lowest live one.
    changes = fleet.run(3)
    fleet.clock[4] = fleet.clock[1]
    changes += fleet.run(20)
    assert changes == [Change(4, False, "it keeps up again")]
    assert list(fleet.clocks.members().incarnations) == [1, 2, 3, 4]


def test_a_short_pause_is_not_slowness_however_short_the_batches() -> None:
    clocks = Clocks(STALENESS)
    for worker in (1, 2, 3, 4):
        clocks.joined(worker, 0)
    for second in range(1, 10):
        for worker in (1, 2, 3, 4):
            frozen = worker == 4 and second >= 8
            clocks.stats(worker, 700 if frozen else 100 * second, 0, second)
        assert clocks.tick(second) == []


def test_time_without_a_server_counts_against_nobody() -> None:
    fleet = Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 0.5})
    fleet.run(20)
    fleet.silent = {1, 2, 3, 4}
    for _ in range(20):
        fleet.ticks += 10
        fleet.clocks.interrupted(fleet.now)
        assert fleet.clocks.tick(fleet.now) == []
    fleet.silent = set()
    assert fleet.run(20) == []


def test_a_worker_without_data_is_not_slow() -> None:
    fleet = Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 0.3})
    fleet.run(10)
    fleet.silent = {4}
    for _ in range(30):
        fleet.clocks.idle(4, fleet.now)
        assert fleet.run(1) == []


def test_members_come_and_go_with_a_new_version() -> None:
    clocks = Clocks(STALENESS)
    versions = [clocks.members().version]
    clocks.joined(7, 0)
    versions.append(clocks.members().version)
    clocks.joined(8, 0)
    versions.append(clocks.members().version)
    clocks.gone(7)
    versions.append(clocks.members().version)
    assert versions == sorted(set(versions))
    clocks.joined(8, 5)
    clocks.gone(7)
    clocks.stats(7, 1, 0, 1)
    assert clocks.members().version == versions[-1]
    assert list(clocks.members().incarnations) == [8]


def test_a_restored_one_judges_the_same() -> None:
    one, other = Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 2.0}), Fleet({1: 0.3, 2: 0.3, 3: 0.3, 4: 2.0})
    changes = one.run(30)
    seen = []
    for _ in range(30):
        seen += other.run(1)
        data = json.loads(json.dumps(other.clocks.snapshot()))
        other.clocks = Clocks(STALENESS)
        other.clocks.restore(data)
    assert seen == changes
