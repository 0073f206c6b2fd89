"""When the web page is opened."""

from __future__ import annotations

import asyncio

import pytest

from yarnps.am.shell import opening
from yarnps.am.shell.opening import Opening

LIMIT_S = 10.0
LONG_S = 6 * LIMIT_S


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SOON_S", 0.0)
    monkeypatch.setattr(opening, "LATEST_S", LONG_S)


async def is_due(made: Opening, *, now: bool = False) -> bool:
    """Whether it is, with nothing more than a moment to pass."""
    waiting = asyncio.create_task(made.is_due(now=now))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    return bool(done)


@pytest.mark.parametrize("kind", opening.BEGUN)
async def test_soon_after_training_has_begun(kind: str) -> None:
    made = Opening()
    made.imported()
    made.heard("up")
    assert not await is_due(made)
    made.heard(kind)
    await asyncio.wait_for(made.is_due(now=False), LIMIT_S)


async def test_not_at_the_very_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SOON_S", LONG_S)
    made = Opening()
    made.imported()
    made.heard("first_push")
    assert not await is_due(made)


async def test_at_the_latest_it_is_due_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LATEST_S", 0.01)
    made = Opening()
    made.imported()
    await asyncio.wait_for(made.is_due(now=False), LIMIT_S)


async def test_whoever_had_one_before_gets_it_at_once() -> None:
    made = Opening()
    assert not await is_due(made, now=True), "something else is imported"
    made.imported()
    await asyncio.wait_for(made.is_due(now=True), LIMIT_S)
