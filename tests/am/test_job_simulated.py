"""Whole jobs under random mishaps: they end, and every batch is in the model once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from job_roles import ROWS
from job_world import World

from yarnps.am.config import Config
from yarnps.spec import load


def config(folder: Path, **block: Any) -> Config:
    """A job that never runs out of restarts."""
    size = {"memory": "1 GiB", "vcores": 1}
    document = {
        "name": "simulated",
        "services": {
            "server": {"instances": 2, "resources": size, "max_restarts": -1},
            "worker": {
                "instances": 3,
                "resources": size,
                "max_restarts": -1,
                "script": "python train.py",
            },
        },
        "yarnps": {
            "data": {"train": "/in/*", "test": "/in/*", "format": "libsvm"},
            "train": {"epochs": 3, "audit": True},
            "checkpoint": {"every": "5 s"},
            "silence": "15 s",
            "model": {"path": "/model"},
            **block,
        },
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return Config(load(path, site=[]), "app", 1, "/job", "/model", b"secret", "1")


@pytest.mark.parametrize("seed", range(20))
def test_every_batch_once_whatever_dies(seed: int, tmp_path: Path) -> None:
    world = World(seed, config(tmp_path))
    world.run()
    world.check_end(model_epoch=3)


@pytest.mark.parametrize("seed", range(10))
def test_a_loss_that_is_patched_never_counts_a_batch_twice(seed: int, tmp_path: Path) -> None:
    world = World(seed, config(tmp_path, server={"on_loss": "patch"}))
    machine = world.run()
    assert machine.outcome is not None and machine.outcome.state == "SUCCEEDED", world.story()
    course, whole = machine.training.course, world.whole(3)
    assert course.ledger is not None and course.ledger.rows == ROWS * whole.total()
    model = world.models[world.published[-1]]
    assert all(applied <= whole for applied in model.values())
    assert course.losses.rows == sum(log.data["rows"] for log in world.logged("patch"))
    if not world.logged("patch"):
        assert all(applied == whole for applied in model.values())


@pytest.mark.parametrize("seed", range(5))
def test_the_best_model_is_written(seed: int, tmp_path: Path) -> None:
    stop = {"metric": "test_loss", "patience": 5}
    world = World(seed, config(tmp_path, stop=stop))
    world.run()
    world.check_end(model_epoch=2)


def test_without_mishaps_it_takes_no_longer_than_the_work(tmp_path: Path) -> None:
    world = World(1, config(tmp_path), calm_after_s=0, limit_s=120)
    world.run()
    world.check_end(model_epoch=3)
    assert not [log for _, log in world.logs if log.kind in ("death", "replay", "save_failed")]
