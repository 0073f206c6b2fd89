from __future__ import annotations

from pathlib import Path

import pytest

from yarnps._errors import InputError
from yarnps.data import CsvSettings, DataSettings
from yarnps.spec import load

JOB = """
name: t
services:
  server: {instances: 1, resources: {memory: 1 GiB, vcores: 1}}
  worker: {instances: 1, resources: {memory: 1 GiB, vcores: 1}}
yarnps:
  app: ftrl
  data:
    train: /in
    format: csv
    split_size: 2 MiB
    shuffle: {splits: false, buffer: 77}
    max_bad_records: 0.1%
    label: y
    features: [a, "b:id"]
    csv: {delimiter: ";", header: false, nulls: ["-"], quote: "'", multiline: true}
    on_failed_split: skip
  train: {batch_rows: 10, seed: 9}
"""


def test_from_a_job_file_and_through_json(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    block = load(path, site=[]).block
    settings = DataSettings.from_block(block)
    assert settings == DataSettings(
        format="csv",
        split_size=2 << 20,
        shuffle_splits=False,
        shuffle_buffer=77,
        max_bad=0.001,
        label="y",
        features=("a", "b:id"),
        csv=CsvSettings(";", False, ("-",), "'", True),
        on_failed_split="skip",
        batch_rows=10,
        seed=9,
    )
    assert DataSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("allowed", "bad", "good", "too_many"),
    [
        (0, 0, 10, False),
        (0, 1, 10, True),
        (3, 3, 1, False),
        (3, 4, 1, True),
        (0.01, 1, 99, False),
        (0.01, 2, 99, True),
        (0.01, 1, 0, True),
    ],
)
def test_how_many_bad_records_are_too_many(
    allowed: float, bad: int, good: int, too_many: bool
) -> None:
    assert DataSettings(max_bad=allowed).too_many_bad(bad, good) is too_many


def test_wrong_settings() -> None:
    with pytest.raises(InputError, match="no data format of this name: json"):
        DataSettings(format="json")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"data\.parse is not set"):
        DataSettings(format="custom")
