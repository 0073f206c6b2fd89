"""What a lease says of its place in the training decides how large its batches are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yarnps.data import DataSettings, list_input
from yarnps.spec import Block
from yarnps.worker.leases import Held
from yarnps.worker.reading import reader

ROWS = 40_000


@pytest.mark.parametrize(
    ("phase", "begins", "train", "sizes"),
    [
        ("train", 0.0, {}, (256, 1024)),
        ("train", 0.5, {}, (512, 1024)),  # as many bytes before as its own: 20,000 rows of 128
        ("train", 0.5, {"batch_rows": 1000}, (1000, 1000)),
        ("test", 0.0, {}, (2048, 2048)),
    ],
)
def test_batches_of_ftrl_grow_with_the_training(
    tmp_path: Path, phase: str, begins: float, train: dict[str, int], sizes: tuple[int, int]
) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"1 {row:059}:1\n" for row in range(ROWS)))  # lines of 64 bytes
    block = Block.model_validate({"app": "ftrl", "data": {"train": str(path)}, "train": train})
    (split,) = list_input(str(path), DataSettings(split_size=1 << 30), workers=1).splits
    read = reader(json.dumps({"block": block.model_dump(mode="json")}), None)
    lease = Held(1, phase, split.to_pb(), 1, 0, 0, begins=begins, ends=begins + 0.5)
    batches = list(read(lease))
    assert (len(batches[0].rows), len(batches[-2].rows)) == sizes
