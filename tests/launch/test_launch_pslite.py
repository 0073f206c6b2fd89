"""The launcher's ps-lite scheduler when its ports fail."""

from __future__ import annotations

import pytest

from yarnps.client import exits
from yarnps.client.launch.meeting import Verdict
from yarnps.client.launch.options import Limits, Options, RoleAsk
from yarnps.client.launch.pslite import PsLite
from yarnps.pslite.ports import Ports
from yarnps.pslite.wire import Seat


async def test_a_scheduler_that_hears_nothing_any_more_ends_the_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = RoleAsk(count=1, cores=1, memory=2**20)
    options = Options("local", worker=one, server=one, command=("true",), env={})
    verdict = Verdict()
    made = PsLite(options, {}, verdict, lambda *what, **how: None, Limits())
    await made.open("127.0.0.1")

    def fail(ports: Ports, wait_s: float) -> bool:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Ports, "turn", fail)
    made.task(Seat("worker", 0))  # which has the thread look
    assert await verdict.wait(10.0)
    await made.close()
    assert verdict.code == exits.FAILED
    assert verdict.text == "the scheduler hears nothing any more: out of order"
