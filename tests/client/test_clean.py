"""`yarnps clean` removes what has had its time, and nothing else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from yarnps.client.cmd_clean import command

DAY_S = 86_400.0


def make_job(
    home: Path, name: str, age_s: float, *, ended: bool = True, model: bool = False
) -> Path:
    folder = home / "local" / name
    (folder / "am").mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"block": {"retention": 2 * DAY_S}}))
    if model:
        (folder / "model").mkdir()
    if ended:
        outcome = folder / "outcome.json"
        outcome.write_text("{}")
        os.utime(outcome, (time.time() - age_s,) * 2)
    return folder


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path))
    return {
        "old": make_job(tmp_path, "local_1_1", 3 * DAY_S),
        "new": make_job(tmp_path, "local_2_1", 1 * DAY_S),
        "model": make_job(tmp_path, "local_3_1", 3 * DAY_S, model=True),
        "running": make_job(tmp_path, "local_4_1", 3 * DAY_S, ended=False),
    }


def left(jobs: dict[str, Path]) -> list[str]:
    return [name for name, folder in jobs.items() if folder.exists()]


def run(*arguments: str, answer: str = "") -> str:
    result = CliRunner().invoke(
        command, ["--cluster", "local", *arguments], input=answer, standalone_mode=False
    )
    assert result.exception is None, result.exception
    return result.output


def test_a_jobs_own_retention_decides(jobs: dict[str, Path]) -> None:
    run("--yes")
    assert left(jobs) == ["new", "model", "running"]


def test_an_age_and_models_can_be_given(jobs: dict[str, Path]) -> None:
    run("--yes", "--older-than", "12 h", "--models")
    assert left(jobs) == ["running"]


def test_a_dry_run_only_shows(jobs: dict[str, Path]) -> None:
    assert "local_1_1" in run("--dry-run")
    assert left(jobs) == ["old", "new", "model", "running"]


def test_it_asks(jobs: dict[str, Path]) -> None:
    run(answer="n\n")
    assert left(jobs) == ["old", "new", "model", "running"]
    run(answer="y\n")
    assert left(jobs) == ["new", "model", "running"]
