"""What people get wrong: the exit status, a sentence that says what to do, and no traceback."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_run import Input, yarnps

from bench import processes

GOOD = "1 1:1 2:1\n0 1:1 3:1\n"


@pytest.fixture
def made(tmp_path: Path) -> Input:
    return Input.write(tmp_path / "in", files=1, rows=400)


def job(tmp_path: Path, made: Input, **block: Any) -> dict[str, Any]:
    size = {"memory": "512 MiB", "vcores": 1}
    return {
        "name": "wrong",
        "services": {
            "server": {"instances": 1, "resources": size},
            "worker": {"instances": 1, "resources": size},
        },
        "yarnps": {
            "app": "ftrl",
            "data": {"train": f"file://{made.folder}/*", "format": "libsvm"},
            "model": {"path": str(tmp_path / "model")},
            **block,
        },
    }


def submit(tmp_path: Path, document: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    done = yarnps("submit", file, "--cluster", "local", "-o", "json")
    application = json.loads(done.stdout)["application"]
    if application:
        assert not processes.of_application(application), "processes are left behind"
    return done


def unknown_key(document: dict[str, Any], folder: Path) -> None:
    document["yarnps"]["trian"] = {"epochs": 2}


def negative_instances(document: dict[str, Any], folder: Path) -> None:
    document["services"]["worker"]["instances"] = -1


def no_match(document: dict[str, Any], folder: Path) -> None:
    document["yarnps"]["data"]["train"] = f"file://{folder}/nowhere/*"


def unreadable_file(document: dict[str, Any], folder: Path) -> None:
    (folder / "in" / "broken.gz").write_bytes(gzip.compress(GOOD.encode())[:-12] + b"no gzip end")


def broken_row(document: dict[str, Any], folder: Path) -> None:
    (folder / "in" / "bad").write_text(GOOD + "1 1:1 here:2\n" + GOOD)


def other_format(document: dict[str, Any], folder: Path) -> None:
    for path in (folder / "in").iterdir():
        path.write_text("label,carrier\n1,AA\n0,UA\n")


def model_exists(document: dict[str, Any], folder: Path) -> None:
    (folder / "model").mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unknown_key, ["yarnps.trian", "did you mean train", "job.yaml:"]),
        (negative_instances, ["services.worker.instances", "-1"]),
        (no_match, ["nowhere/*"]),
        (unreadable_file, ["broken.gz"]),
        (broken_row, ["bad:3", "here:2"]),
        (other_format, ["libsvm", "part-0"]),
        (model_exists, ["model", "overwrite"]),
    ],
)
def test_wrong_input(
    spoil: Callable[[dict[str, Any], Path], None], words: list[str], tmp_path: Path, made: Input
) -> None:
    document = job(tmp_path, made)
    spoil(document, tmp_path)
    done = submit(tmp_path, document)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    answer = json.loads(done.stdout)
    assert answer["state"] in ("REFUSED", "FAILED", "KILLED")
    assert not (tmp_path / "model" / "manifest.json").exists()


def scripted(document: dict[str, Any], folder: Path, program: str) -> dict[str, Any]:
    """The job with a program of the user's own."""
    (folder / "train.py").write_text(program)
    del document["yarnps"]["app"]
    document["services"]["worker"] |= {
        "files": {"train.py": "train.py"},
        "script": '"$PYTHON" train.py',
        "max_restarts": 1,
    }
    return document


FULL = """import yarnps
job = yarnps.connect()
job.dense("wide", (1 << 28,), "float64", optimizer=yarnps.Add())
"""


def test_a_table_that_the_servers_have_no_memory_for(tmp_path: Path, made: Input) -> None:
    """Said once: neither tried again nor with a traceback."""
    done = submit(tmp_path, scripted(job(tmp_path, made), tmp_path, FULL))
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["state"], answer["cause_code"]) == (2, "FAILED", "input")
    assert "table wide needs" in answer["cause"] and "give the servers more" in answer["cause"]
    assert "Traceback" not in done.stderr and "restarts" not in answer["cause"]


def test_a_program_that_raises(tmp_path: Path, made: Input) -> None:
    program = "import yarnps\njob = yarnps.connect()\nraise KeyError('no such column: dest')\n"
    done = submit(tmp_path, scripted(job(tmp_path, made), tmp_path, program))
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["state"], answer["cause_code"]) == (1, "FAILED", "script")
    assert "KeyError" in answer["cause"] and "no such column: dest" in answer["cause"]
    status = yarnps("status", answer["application"], "--cluster", "local")
    assert 'File "' in status.stdout and "raise KeyError" in status.stdout
    events = yarnps("status", answer["application"], "--cluster", "local", "--events").stdout
    assert "replayed" not in events.split("the job has ended")[1]


def test_a_program_that_does_not_read(tmp_path: Path, made: Input) -> None:
    program = "import yarnps\njob = yarnps.connect()\n"
    done = submit(tmp_path, scripted(job(tmp_path, made), tmp_path, program))
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["cause_code"]) == (1, "no_input_read"), done.stderr
    assert "job.data()" in answer["cause"]


def test_a_program_that_never_connects(tmp_path: Path, made: Input) -> None:
    document = job(tmp_path, made, start_timeout="4 s")
    program = "import signal\nsignal.pause()\n"
    done = submit(tmp_path, scripted(document, tmp_path, program))
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["cause_code"]) == (6, "start_timeout"), done.stderr
    assert "has not called yarnps.connect()" in answer["cause"]


def test_killed_by_its_user(tmp_path: Path, made: Input) -> None:
    program = "import yarnps, signal\njob = yarnps.connect()\nsignal.pause()\n"
    document = scripted(job(tmp_path, made), tmp_path, program)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    submitted = yarnps("submit", tmp_path / "job.yaml", "--cluster", "local", "--detach")
    application = submitted.stdout.strip()
    killed = yarnps("kill", application, "--cluster", "local")
    assert killed.returncode == 0, killed.stderr
    followed = yarnps("attach", application, "--cluster", "local", "-o", "json")
    assert followed.returncode == 5, followed.stderr
    assert json.loads(followed.stdout)["cause_code"] == "killed_by_user"
    assert not processes.of_application(application)
