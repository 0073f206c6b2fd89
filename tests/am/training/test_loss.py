"""What a lost server costs when nothing is done again."""

from __future__ import annotations

import json

from yarnps.am.training.loss import Losses


def test_what_is_lost_is_lost_once() -> None:
    losses = Losses()
    assert losses.add(0, done=1000, saved=400) == 600
    assert losses.add(1, done=1000, saved=400) == 600, "the other server's own"
    assert losses.add(0, done=1300, saved=400) == 300, "it had nothing else to lose"
    assert losses.add(0, done=2000, saved=1800) == 200
    assert losses.rows == 1700


def test_it_comes_back_from_a_snapshot() -> None:
    losses, again = Losses(), Losses()
    losses.add(1, done=50, saved=20)
    again.restore(json.loads(json.dumps(losses.snapshot())))
    assert (again.rows, again.add(1, done=60, saved=20)) == (30, 10)
