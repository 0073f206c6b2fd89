"""Programs that know nothing of yarnps, on a real YARN: XGBoost, and what `launch` starts."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml
from hdfs_input import ROOT, Flights
from yarn_run import LIMIT_S, Run, until, yarnps

from bench import processes
from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

ROUNDS, EVERY = 600, 100


def test_xgboost_goes_on_from_its_checkpoint(
    hadoop: Sandbox, small: Flights, tmp_path: Path
) -> None:
    """The program of `specs/xgboost.yaml`, with its input and its checkpoint in HDFS."""
    options = f"--rounds {ROUNDS} --every {EVERY} --depth 4 --rate 0.01"
    program = ROOT / "specs" / "xgboost_flights.py"
    worker = {
        "instances": 2,
        "resources": {"memory": "768 MiB", "vcores": 1},
        "files": {program.name: str(program)},
        "script": f'"$PYTHON" {program.name} {options}',
    }
    data = {"train": "small/train/*", "test": "small/test/*"}
    document = {"services": {"worker": worker}, "yarnps": {"runtime": "xgboost", "data": data}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    with Run(hadoop, path) as run:
        run.event("input", "shared by 2 workers")
        until(lambda: run.job_dir.exists("checkpoint.json"), "a checkpoint", report=run.report)
        found = processes.find(run.application, "role", "worker", 1)
        assert found is not None
        processes.send(found.pid, signal.SIGKILL)
        death = run.event("death", role="worker", rank=1)
        run.event("tracker", "listens on port", after=death.seq)
        done = run.wait()
        assert done.code == 0, run.report()
        model = json.loads(run.job_dir.read("model.json"))
        assert len(model["learner"]["gradient_booster"]["model"]["trees"]) == ROUNDS
        # Their second start began where the checkpoint was.
        logs = yarnps("logs", run.application, "--role", "worker", "--rank", "0").out
        began = [int(line.split()[-2]) for line in logs.splitlines() if "from round" in line]
        assert began[0] == 0 and began[1] > 0 and began[1] % EVERY == 0


def test_launch(hadoop: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of ps-lite with the options of `dmlc-submit`; its file travels with the job."""
    program = tmp_path / "ps_program.py"
    program.write_text((ROOT / "tests" / "launch" / "ps_program.py").read_text())
    monkeypatch.chdir(tmp_path)
    words = ["launch", "--cluster", "yarn", "-n", "2", "-s", "1", "--worker-memory", "512m"]
    words += ["--server-memory", "512m", "--env", "MY_A:1", "--jobname", "launched"]
    done = yarnps(*words, "--", "python", "ps_program.py", "--fail", "worker", "9", "1")
    assert done.code == 0, done.text
    assert "all servers and workers have joined" in done.err


def test_launch_ends_with_the_programs_exit_status(hadoop: Sandbox) -> None:
    words = ["launch", "--cluster", "yarn", "-n", "1", "-s", "1", "--worker-memory", "512m"]
    done = yarnps(*words, "--server-memory", "512m", "--", "no-such-program")
    assert done.code == 127, done.text
    assert "no-such-program is not there" in done.err
