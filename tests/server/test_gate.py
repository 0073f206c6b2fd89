"""The gate of stale synchronous training."""

from __future__ import annotations

import numpy as np
import pytest

from yarnps.server.clocks import Clocks


@pytest.mark.parametrize("staleness", [0, 1, 4])
@pytest.mark.parametrize("seed", range(10))
def test_nobody_reads_further_ahead_than_the_bound(seed: int, staleness: int) -> None:
    rng = np.random.default_rng(seed)
    clocks = Clocks(staleness)
    workers = {who: clocks.join(who, None) for who in range(5)}
    clocks.set_members(list(workers), [])
    waited = 0
    for _ in range(2000):
        who = int(rng.choice(list(workers)))
        if clocks.is_open(workers[who]):
            assert workers[who] - min(workers.values()) <= staleness
            workers[who] += 1
            clocks.advance(who, workers[who])
        else:
            waited += 1
            assert workers[who] - min(workers.values()) > staleness
    assert waited > 0 and min(workers.values()) > 50


def test_without_a_gate_nobody_waits() -> None:
    clocks = Clocks(None)
    clocks.join(1, 0)
    clocks.join(2, 0)
    assert clocks.is_open(1000)


def test_a_joiner_starts_at_the_lowest_live_clock() -> None:
    clocks = Clocks(2)
    assert clocks.join(1, None) == 0
    clocks.advance(1, 7)
    assert clocks.join(2, None) == 7
    clocks.advance(1, 9)
    assert clocks.join(3, None) == 7
    clocks.leave(1)
    clocks.leave(2)
    clocks.leave(3)
    assert clocks.join(4, None) == 9  # nobody is left: where the fastest was


def test_leaving_and_dying_open_the_gate() -> None:
    clocks = Clocks(0)
    for who in (1, 2, 3):
        clocks.join(who, 0)
    clocks.set_members([1, 2, 3], [])
    clocks.advance(1, 1)
    assert not clocks.is_open(1)
    clocks.leave(2)
    assert not clocks.is_open(1)
    assert "0000000000000003" in clocks.who_is_missing()
    assert clocks.set_members([1, 2], []) == [3]
    assert clocks.is_open(1)
    clocks.join(3, 0)  # a message of the dead that was still under way
    assert clocks.is_open(1)


def test_a_slow_worker_outside_the_clock_holds_nobody_up() -> None:
    clocks = Clocks(0)
    clocks.join(1, 0)
    clocks.join(2, 0)
    clocks.advance(1, 1)
    assert not clocks.is_open(1)
    clocks.set_members([1], [2])
    assert clocks.is_open(1)
    clocks.set_members([1, 2], [])
    assert not clocks.is_open(1)


def test_after_a_restart_the_gate_waits_for_every_worker_to_say_where_it_is() -> None:
    clocks = Clocks(1)
    clocks.set_members([1, 2, 3], [])
    clocks.wait_for([1, 2, 3])
    clocks.join(1, 8)
    assert not clocks.is_open(8)
    clocks.heard(2)  # it is in no clock
    assert not clocks.is_open(8)
    assert "0000000000000003" in clocks.who_is_missing()
    clocks.join(3, 6)
    assert not clocks.is_open(8)
    assert clocks.is_open(7)


def test_who_joins_first_after_a_restart_goes_on_where_the_checkpoint_was() -> None:
    clocks = Clocks(2)
    clocks.begin_at(40)
    assert clocks.lowest() == 40
    assert clocks.join(1, None) == 40
    clocks.begin_at(7)
    assert clocks.join(2, None) == 40 and clocks.is_open(42) and not clocks.is_open(43)
