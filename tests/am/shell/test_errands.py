"""Actions that take time, where they fail."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from little_job import config
from shell_world import QuietCluster, until

from yarnps._errors import ClusterError
from yarnps.am import inputs as i
from yarnps.am.actions import GiveBack, StartTracker
from yarnps.am.shell.agents import Agents
from yarnps.am.shell.errands import Errands
from yarnps.am.shell.telemetry import Telemetry
from yarnps.am.shell.trackers import Trackers
from yarnps.jobdir import JobDir


class Refuses(QuietCluster):
    """Does not take a container back at first."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def release(self, container: str) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise ClusterError("no answer")
        await super().release(container)


@pytest.mark.parametrize(("refusals", "left"), [(0, -1), (3, -1), (9, 4)])
async def test_a_container_is_given_back_again_where_the_cluster_did_not_hear(
    refusals: int, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.shell.errands.RELEASE_AGAIN_S", 0.0)
    nobody: Any = None
    cluster = Refuses(refusals)
    fed: list[i.Input] = []
    errands = Errands(
        config(tmp_path),
        cluster,
        JobDir(str(tmp_path)),
        Agents(Telemetry(), 1.0, feed=lambda _: [], members=lambda: nobody),
        feed=fed.append,
        env=dict,
        metrics=dict,
    )
    errands.run(GiveBack("worker_1", "not needed"))
    await until(lambda: cluster.refusals == left)
    await errands.stop()
    assert cluster.released == (["worker_1"] if refusals < 9 else [])
    assert not fed


async def test_a_tracker_that_cannot_be_started_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    fed: list[i.Input] = []
    trackers = Trackers(fed.append, tmp_path)
    trackers.run(StartTracker(0, 2, "127.0.0.1", 60.0))
    await asyncio.wait_for(until(lambda: fed), 20)
    (down,) = fed
    assert isinstance(down, i.TrackerDown) and down.round == 0
    assert down.error.startswith("XGBoost's tracker cannot be started: ")
    assert "no-python" in down.error
    trackers.stop()
