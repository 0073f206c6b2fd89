"""Whole trainings with real processes: what is counted, and what the program sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from engine_harness import playing, write_input
from safetensors.numpy import load_file

COUNT = """
table = job.sparse("count", dtype="float64", optimizer=yarnps.Add())
ones = job.sparse("ones", dtype="float32", optimizer=yarnps.Add())
for batch in job.data():
    with batch:
        table.push([batch.split], [float(batch.rows)])
        ones.push(batch.keys, batch.values)
"""


def model_of(folder: Path, table: str) -> dict[int, Any]:
    """Rows of an exported sparse table."""
    found: dict[int, Any] = {}
    for part in sorted(folder.glob("part-*.safetensors")):
        tensors = load_file(part)
        keys, values = tensors[f"{table}/keys"], tensors[f"{table}/values"]
        assert not set(keys.tolist()) & set(found)
        found.update(zip(keys.tolist(), values[:, 0].tolist(), strict=True))
    return found


def expected_ones(rows: int, files: int, times: int) -> dict[int, float]:
    total: dict[int, float] = {}
    for number in range(files):
        for row in range(rows):
            for key, value in (
                ((row * 7 + number) % 50, 1.0),
                ((row * 13 + number + 1) % 50 + 50, row % 5 + 1.0),
            ):
                total[key] = total.get(key, 0.0) + times * value
    return total


def test_every_row_counts_once_in_every_epoch(tmp_path: Path) -> None:
    block = {
        "data": {"train": write_input(tmp_path / "in", 4, 1000)},
        "train": {"epochs": 2, "batch_rows": 100, "audit": True},
    }
    with playing(tmp_path, block, COUNT) as player:
        player.finish()
        player.export(tmp_path / "model", tables=["count", "ones", "yarnps.rows"])
    counts = model_of(tmp_path / "model", "count")
    assert counts == dict.fromkeys(range(4), 2000.0)
    assert model_of(tmp_path / "model", "yarnps.rows") == counts
    assert model_of(tmp_path / "model", "ones") == expected_ones(1000, 4, 2)
    assert np.isclose(sum(counts.values()), 8000)


LAST_WORDS = """
table = job.sparse("last", dtype="float64", optimizer=yarnps.Add())
for batch in job.data():
    with batch:
        pass
for number in range(300):
    table.push([number % 30], [1.0])
short = {"wire": yarnps.Wire(push="topk", keep=0.1), "model": False}
job.sparse("few", optimizer=yarnps.Add(), **short).push(range(100), range(100))
job.dense("few numbers", 50, optimizer=yarnps.Add(), **short).push([1.0] * 50)
job.dense("none", 50, optimizer=yarnps.Add(), **short)
"""


def test_the_last_pushes_of_a_program_are_made_before_it_is_through(tmp_path: Path) -> None:
    """Nobody waits for them: the program's end does."""
    block = {"data": {"train": write_input(tmp_path / "in", 1, 100)}, "train": {"epochs": 1}}
    with playing(tmp_path, block, LAST_WORDS, workers=1) as player:
        player.finish()
        player.export(tmp_path / "model", tables=["last"])
        events = [m.event for m in player.of("worker", 0).said if m.HasField("event")]
    assert [(event.name, event.text) for event in events] == [
        ("residuals", "table few: 89 residuals are zeroed: the program has ended"),
        ("residuals", "table few numbers: 45 residuals are zeroed: the program has ended"),
    ]
    assert model_of(tmp_path / "model", "last") == dict.fromkeys(range(30), 10.0)
