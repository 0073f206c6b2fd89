"""Whatever a file holds: a job that skein accepts, or a JobFileError. Never anything else."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from skein.model import ApplicationSpec

from yarnps.spec import Job, JobFileError, load, masked_job, needs, render

FILE: dict[str, Any] = {
    "name": "flights",
    "queue": "default",
    "tags": ["a"],
    "acls": {"enable": True, "view_users": ["*"]},
    "max_attempts": 2,
    "master": {"resources": {"memory": "1 GiB", "vcores": 1}, "env": {"A": "1"}},
    "services": {
        "server": {"instances": 2, "resources": {"memory": "1 GiB", "vcores": 1}},
        "worker": {
            "instances": 3,
            "resources": {"memory": 1024, "vcores": 1},
            "env": {"MY_TOKEN": "x"},
            "files": {"a.py": "a.py", "b": {"source": "hdfs:///b", "type": "archive"}},
            "nodes": ["n1"],
            "depends": ["server"],
        },
        "board": {"resources": {"memory": 64, "vcores": 1}, "script": "run"},
    },
    "yarnps": {
        "app": "ftrl",
        "params": {"alpha": 0.1},
        "data": {"train": ["x"], "test": "y", "split_size": "1 MiB", "csv": None},
        "train": {"epochs": 2},
        "stop": {"metric": "test_auc", "max_time": "2 h"},
        "retry_memory": 1.5,
    },
}
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**30, 0.5, -2.5, 1e300, "", "x", "1 GiB", "ftrl", "\u00e9\n",
    [], ["x"], [1], [None], [[]], {}, {"x": 1}, {"x": None}, {"server": {}}, {"a/b": "c"},
)  # fmt: skip
KEYS = ("", "x", "a.b", "env", "worker", "yarnps", "instances", "<<", "1", "null")


def _spoil(data: Any, dice: random.Random) -> None:
    """Replace, remove or add something somewhere."""
    while True:
        holders = [v for v in (data.values() if isinstance(data, dict) else data)
                   if isinstance(v, (dict, list)) and v]  # fmt: skip
        if not holders or dice.random() < 0.25:
            break
        data = dice.choice(holders)
    keys = list(data) if isinstance(data, dict) else list(range(len(data)))
    value = copy.deepcopy(dice.choice(VALUES))
    action = dice.random()
    if action < 0.6 and keys:
        data[dice.choice(keys)] = value
    elif action < 0.75 and keys:
        del data[dice.choice(keys)]
    elif isinstance(data, dict):
        data[dice.choice(KEYS)] = value
    else:
        data.append(value)


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_files(seed: int) -> None:
    dice = random.Random(seed)
    good = 0
    for _ in range(80):
        data = copy.deepcopy(FILE)
        for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
            _spoil(data, dice)
        text = json.dumps(data, indent=1)
        Path("job.json").write_text(text)
        try:
            job = load("job.json", site=[])
        except JobFileError as error:
            assert error.problems and all(problem.message for problem in error.problems)
            continue
        except Exception as error:
            raise AssertionError(text) from error
        good += 1
        assert Job.from_json(job.to_json()) == job
        ApplicationSpec.from_dict(render(job))
        assert needs(job).memory > 0
        assert job.sources() or job.block is None
        masked_job(job).to_json()
    assert 0 < good < 80


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_text(seed: int) -> None:
    dice = random.Random(seed)
    text = json.dumps(FILE, indent=1)
    for _ in range(100):
        at, length = dice.randrange(len(text)), dice.choice((0, 1, 5))
        noise = "".join(dice.choice("{}[]:,-#&*!|>'\"%@` \n\tx1\x00\u2028") for _ in range(3))
        Path("job.yaml").write_text(text[:at] + noise + text[at + length :], encoding="utf-8")
        try:
            load("job.yaml", site=[])
        except JobFileError as error:
            assert error.problems
