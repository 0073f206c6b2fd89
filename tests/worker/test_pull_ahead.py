"""Pulls of the next batch while one is in work: what they see, and what they may not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_harness import playing, write_input

# Each batch adds 1 to key 0. Before its end the next one has been read: what is pulled for that
# one is then pulled before this one's push, if it may be.
COUNTED = """
import time
table = job.sparse("w", optimizer=yarnps.Add())
with open("seen", "w", buffering=1) as out:
    for number, batch in enumerate(job.data(pull=lambda batch: table.pull([0]))):
        with batch:
            out.write(f"{number} {int(batch.pulled.wait()[0])}\\n")
            table.push([0], [1.0])
            deadline = time.monotonic() + 60
            while number < 38 and job._loop._feed._batches.empty():
                assert time.monotonic() < deadline
                time.sleep(0.001)
"""

PUSHES = """
table = job.sparse("w", optimizer=yarnps.Add())
def pull(batch):
    return table.push([batch.index], [1.0])
for batch in job.data(pull=pull):
    with batch:
        batch.pulled.wait()
"""

FAILS = """
table = job.sparse("w", optimizer=yarnps.Add())
def pull(batch):
    if batch.index == 2:
        raise ValueError("no keys in batch 2")
    return table.pull([0])
for batch in job.data(pull=pull):
    with batch:
        try:
            batch.pulled.wait()
        except ValueError as error:
            print("batch", batch.index, error, flush=True)
"""


def block(folder: Path, *, ahead: bool = True, staleness: int | None = 4) -> dict[str, Any]:
    sync = {"mode": "asp"} if staleness is None else {"mode": "ssp", "staleness": staleness}
    return {
        "data": {"train": write_input(folder / "in", 1, 2000)},
        "train": {"epochs": 1, "batch_rows": 50, "pull_ahead": ahead},
        "sync": sync,
    }


def seen(folder: Path, settings: dict[str, Any]) -> list[int]:
    """How many batches' pushes each batch of a single worker has seen."""
    with playing(folder, settings, COUNTED, workers=1) as player:
        player.finish()
    lines = [line.split() for line in (folder / "seen").read_text().splitlines()]
    assert [int(number) for number, _ in lines] == list(range(40))
    return [int(count) for _, count in lines]


@pytest.mark.parametrize("staleness", [None, 1])
def test_a_batch_does_not_see_the_one_before_it(tmp_path: Path, staleness: int | None) -> None:
    # Batch 1 is pulled for before batch 0 has begun, and so on.
    counts = seen(tmp_path, block(tmp_path, staleness=staleness))
    assert counts[2:] == list(range(1, 39))
    assert counts[0] == 0 and counts[1] in (0, 1)  # it may not have been read by then


def test_no_staleness_means_none(tmp_path: Path) -> None:
    assert seen(tmp_path, block(tmp_path, staleness=0)) == list(range(40))


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert seen(tmp_path, block(tmp_path, ahead=False)) == list(range(40))


def test_nothing_is_pushed_before_its_turn(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), PUSHES, workers=1) as player:
        player.wait(lambda: player.failures, "it fails")
        failed = player.failures[0]
    assert "only pulls" in failed.error and failed.user_error


def test_what_the_function_raises_is_raised_in_the_batch_that_it_is_for(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), FAILS, workers=1) as player:
        player.finish()
        assert "batch 2 no keys in batch 2" in player.of("worker", 0).log.read_text()
