"""A little job for tests of the shell around its state machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from yarnps.am.config import Config
from yarnps.spec import load


def config(folder: Path, **block: Any) -> Config:
    """One server and one worker, whose input, job directory and model are in `folder`.

    `data=None`: without input.
    """
    size = {"memory": "1 GiB", "vcores": 1}
    given = {"data": {"train": f"{folder}/in/*", "format": "libsvm"}, **block}
    document = {
        "name": "little",
        "services": {
            "server": {"instances": 1, "resources": size},
            "worker": {"instances": 1, "resources": size, "script": "python train.py"},
        },
        "yarnps": {key: value for key, value in given.items() if value is not None},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "part-0").write_text("1 1:1\n0 2:1\n")
    job_dir, model = f"{folder}/job", f"{folder}/model"
    return Config(load(path, site=[]), "app_1", 1, job_dir, model, b"secret", "1")
