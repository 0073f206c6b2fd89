"""Jobs that go wrong in their containers: the cause is told where people look for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hdfs_input import Flights
from yarn_run import LIMIT_S, Done, Run, attempts, write_job, yarnps

from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def job(
    folder: Path,
    program: str,
    changes: dict[str, Any] | None = None,
    *,
    max_attempts: int = 1,
    **worker: Any,
) -> Path:
    """One server and one worker that runs the program; it is not started a second time."""
    block = {"data": {"train": "small/train/*", "format": "libsvm"}, **(changes or {})}
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(program)
    ours = {
        "instances": 1,
        "max_restarts": 0,
        "files": {"train.py": "train.py"},
        "script": '"$PYTHON" train.py',
        **worker,
    }
    one = {"instances": 1}
    return write_job(folder, block, server=one, worker=ours, max_attempts=max_attempts)


def failed(run: Run, code: int, cause: str, *words: str) -> Done:
    """Everybody says the same: the client, the event log, `yarnps status`, and YARN."""
    done = run.wait()
    assert done.code == code, run.report()
    final = done.json()
    assert (final["state"], final["cause_code"]) == ("FAILED", cause)
    outcome = run.outcome()
    assert (outcome.state, outcome.cause_code) == ("FAILED", cause)
    said = run.rm()
    assert said["finalStatus"] == "FAILED"
    status = yarnps("status", run.application).out
    for word in words:
        for place in (done.err, outcome.cause, said["diagnostics"], status):
            assert word in place, f"{word!r} is not in: {place}"
    return done


def test_a_script_that_raises(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    """Its traceback is seen; and the next attempt does not run a job that has failed for good."""
    program = """
import yarnps

def scale(batch):
    raise KeyError("no such feature: wind")

job = yarnps.connect()
for batch in job.data():
    with batch:
        scale(batch)
"""
    file = job(tmp_path / "raises", program, max_attempts=2)
    with Run(hadoop, file, (), "-o", "json") as run:
        failed(run, 1, "script", "KeyError", "no such feature: wind")
        for place in (run.rm()["diagnostics"], yarnps("status", run.application).out):
            assert "Traceback (most recent call last)" in place
            assert "train.py" in place and "in scale" in place
        # YARN has started the second attempt; all it did was to say so again.
        assert attempts(run) == 2
        assert len(run.events("start")) == 1
        assert len([e for e in run.events("up") if e.role == "worker"]) == 1


def test_a_script_that_does_not_read_its_input(
    hadoop: Sandbox, small: Flights, tmp_path: Path
) -> None:
    program = "print('nothing to do')\n"
    with Run(hadoop, job(tmp_path / "unread", program), (), "-o", "json") as run:
        done = failed(run, 1, "no_input_read", "input")
        assert "Traceback" not in done.err


def test_a_container_that_outgrows_its_memory(
    hadoop: Sandbox, small: Flights, tmp_path: Path
) -> None:
    program = """
import time
import yarnps

job = yarnps.connect()
for batch in job.data():
    hog = bytearray(b"x") * (800 << 20)
    time.sleep(120)
"""
    with Run(hadoop, job(tmp_path / "hog", program), (), "-o", "json") as run:
        done = failed(run, 1, "memory", "of 512 MB used")
        assert "retry_memory" in done.err
        assert "Traceback" not in done.err


def test_more_containers_than_fit(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    """It says what it waits for, and stops waiting."""
    changes = {"start_timeout": "15 s", "app": "ftrl", "params": {"alpha": 0.1}}
    file = job(tmp_path / "crowd", "", changes, instances=30, script="", files={})
    with Run(hadoop, file, (), "-o", "json") as run:
        done = run.wait()
        assert done.code == 6, run.report()
        assert done.json()["cause_code"] == "start_timeout"
        # While it waits, then in its last words: who is missing, and what the cluster has.
        assert "waiting for" in done.err and "start_timeout" in done.err
        cause = run.outcome().cause
        assert "worker" in cause and "queue default uses" in cause, cause
        assert "x worker (512 MiB, 1 vcores)" in cause, cause
        assert "Traceback" not in done.err
        begun = run.events("start")[0].time
        ended = run.events("end")[0].time
        assert 15 <= ended - begun <= 45
