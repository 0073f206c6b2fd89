"""The agents' streams, where they go wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from shell_world import PAIR

from yarnps.am.shell.agents import Agents
from yarnps.am.shell.service import Link, Service
from yarnps.am.shell.telemetry import Telemetry
from yarnps.protocol import control_pb2 as pb

NEWS = pb.ToAgent(period=pb.HeartbeatPeriod(seconds=1))


def link(monkeypatch: pytest.MonkeyPatch, limit: int) -> Link:
    monkeypatch.setattr("yarnps.am.shell.service.LINK_LIMIT", limit)
    return Link(pb.Register(container="worker_1"))


async def test_an_agent_that_takes_no_messages_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back and is told all that matters; with a gap in its messages it would go on."""
    nobody: Any = None
    agents = Agents(Telemetry(), 1.0, feed=lambda _: [], members=lambda: nobody)
    slow = link(monkeypatch, 2)
    assert agents.came(slow) is None
    for _ in range(3):
        agents.tell("worker_1", NEWS)
    assert await slow.queue.get() is None  # the end of its stream


async def test_a_stream_ends_after_what_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps_up = link(monkeypatch, 2)
    keeps_up.send(NEWS)
    keeps_up.close()
    assert [await keeps_up.queue.get(), await keeps_up.queue.get()] == [NEWS, None]


async def test_a_stream_without_a_word_ends_and_is_nobody_s() -> None:
    class Context:
        def peer(self) -> str:
            return "ipv4:10.0.0.9:4711"

    async def silence() -> AsyncIterator[pb.FromAgent]:
        for message in ():
            yield message

    nobody: Any = None
    service = Service(nobody, nobody, PAIR.certificate, PAIR.key)
    assert [message async for message in service._session(silence(), Context())] == []
