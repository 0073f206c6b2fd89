"""`Parts`: whose turn it is, and what has to give way to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from yarnps.protocol import control_pb2 as pb
from yarnps.worker.parts import HeldPart, Parts


def nothing_to_read(*_: Any) -> NoReturn:
    raise AssertionError("the leases have no splits")


@pytest.fixture
def parts() -> Iterator[Parts]:
    made = Parts(nothing_to_read, lambda: None)
    yield made
    made.stop()


def granted(parts: Parts, number: int, *, step: int, token: int) -> HeldPart:
    part = pb.PartLease(part=number, batches=step, step=step)
    lease = pb.Lease(epoch=1, phase="train", token=token, part=part)
    (held,) = parts.granted(pb.Grant(leases=[lease]))
    return held


def test_a_part_that_comes_for_an_earlier_step_goes_first(parts: Parts) -> None:
    mine, same = granted(parts, 0, step=5, token=1), granted(parts, 1, step=5, token=2)
    assert parts.turn() is mine and not mine.is_early and not same.is_early
    behind = granted(parts, 2, step=4, token=3)
    assert parts.turn() is behind and not behind.is_early
    assert mine.is_early and mine.whole.is_early and same.is_early
    behind.revoke()
    assert not mine.is_early


def test_a_batch_that_gives_way_is_the_next_one_again(parts: Parts) -> None:
    part, batch = granted(parts, 0, step=5, token=1), object()
    part.put_back(batch, 5)  # type: ignore[arg-type]
    assert (part.step, part.take()) == (5, batch)
    part.put_back(batch, 8)  # type: ignore[arg-type]
    assert (part.step, part.take(), part.take()) == (8, batch, None)
