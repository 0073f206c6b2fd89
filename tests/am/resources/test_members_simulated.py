"""`Members` in a cluster where everything goes wrong at random, and then calms down."""

from __future__ import annotations

import pytest
from fake_cluster import World


@pytest.mark.parametrize("max_restarts", [3, -1])
@pytest.mark.parametrize("seed", range(12))
def test_no_hang_and_no_two_of_a_rank(seed: int, max_restarts: int) -> None:
    world = World(seed, max_restarts)
    for _ in range(500):
        world.step(chaos=True)
    # Longer than every limit that a wait may have.
    for _ in range(750):
        world.step(chaos=False)
    assert world.members.missing() == []
    rows = world.members.processes(world.now)
    assert {row.state for row in rows} <= {"running", "failed"}
    assert max_restarts > 0 or not world.gave_up
    given_up = {(row.role, row.rank) for row in rows if row.state == "failed"}
    assert given_up == set(world.gave_up)
    world.replayed()
