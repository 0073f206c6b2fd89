"""Tables that grow until their server has no more memory for them: told, not killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_harness import playing, write_input
from test_tables import World

from yarnps._errors import ServerRefused

MIB = 1 << 20
CONTAINER = 300 * MIB
ROWS, DIM = 20_000, 64


def resident(pid: int) -> int:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(fields["VmHWM"].split()[0]) << 10


@pytest.mark.parametrize("when_full", ["fail", "ignore", "evict"])
def test_a_full_server_says_so_before_and_is_never_killed(tmp_path: Path, when_full: Any) -> None:
    block = {"data": {"train": write_input(tmp_path / "in", 1, 1)}}
    env = {"YARNPS_MEMORY": str(CONTAINER)}
    with playing(tmp_path, block, "", servers=1, start=False, env=env) as player:
        server = player.start_server(0)
        player.wait(lambda: player._routes.servers[0].address, "ready")
        world = World(player)
        table = world.sparse("grows", DIM, dtype="float64", when_full=when_full)
        values = np.ones((ROWS, DIM))
        refused = None
        for part in range(20):  # 200 MiB and more: not all of it fits
            keys = np.arange(part * ROWS, part * ROWS + ROWS)
            try:
                table.push(keys, values).wait()
            except ServerRefused as error:
                refused = str(error)
                assert error.certain
                break

        def warnings() -> int:
            return sum(
                m.event.name == "tables" and m.event.text.startswith("tables take")
                for m in server.said
                if m.HasField("event")
            )

        player.wait(lambda: warnings() == 2, "it has said so at 80 % and at 90 %")
        rows = int(table.size().wait()[0])
        if when_full == "fail":  # what it had taken before is there, a refused call's rest is not
            taken = rows // ROWS * ROWS
            assert (table.pull(np.arange(taken - 5, taken)).wait() != 0).all()
        assert resident(server.popen.pid) < CONTAINER
        if when_full == "fail":
            assert refused is not None and "table grows" in refused and "more memory" in refused
        else:
            assert refused is None and 2 * ROWS < rows < 16 * ROWS
            losses = "ignored" if when_full == "ignore" else "evicted"
            player.wait(
                lambda: any(
                    getattr(t, losses) > 0
                    for m in server.said
                    if m.HasField("stats")
                    for t in m.stats.tables
                ),
                "it is counted",
            )
            last = np.arange(19 * ROWS, 20 * ROWS)
            there = table.contains(last).wait().mean()
            assert there == 1 if when_full == "evict" else there < 0.2
        assert server.popen.poll() is None
        world.client.close()
