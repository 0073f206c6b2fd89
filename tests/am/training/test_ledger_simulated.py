"""`Ledger` in jobs where workers, servers and the ApplicationMaster die at random."""

from __future__ import annotations

import pytest
from ledger_world import World


@pytest.mark.parametrize("seed", range(12))
def test_every_split_of_every_epoch_is_done_exactly_once(seed: int) -> None:
    world = World(seed)
    for _ in range(1200):
        world.step(chaos=True)
    for _ in range(20_000):
        world.step(chaos=False)
        if world.through:
            break
    assert world.through, "it hangs"
    assert not world.ledger.skipped
    world.check_end()


@pytest.mark.parametrize("seed", range(8))
def test_broken_splits_are_given_up_and_all_others_done(seed: int) -> None:
    world = World(1000 + seed)
    world.broken = {3, 17}
    for _ in range(1000):
        world.step(chaos=True)
    for _ in range(20_000):
        world.step(chaos=False)
        if world.through:
            break
    assert world.through, "it hangs"
    assert {letter.split for letter in world.ledger.skipped} == {3, 17}
    world.check_end()


def test_the_same_inputs_give_the_same_ledger() -> None:
    one, other = World(5), World(5)
    for _ in range(800):
        one.step(chaos=True)
        other.step(chaos=True)
    assert one.ledger.snapshot() == other.ledger.snapshot()
