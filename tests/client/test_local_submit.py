"""Jobs on this machine, for real: the ApplicationMaster, agents, servers and workers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from yarnps._errors import ClusterError
from yarnps.client import local, local_submit, main
from yarnps.client.local_submit import on_this_machine
from yarnps.spec import load

PROGRAM = """\
import numpy, yarnps
job = yarnps.connect()
table = job.sparse("w", dim=1, optimizer=yarnps.Add())
for batch in job.data():
    with batch:
        keys = numpy.unique(batch.keys)
        table.pull(keys).wait()
        table.push(keys, numpy.ones((len(keys), 1), numpy.float32))
        print("a batch of", len(batch.labels), "rows", flush=True)
job.report(answer=42.0)
"""
JOB = """\
name: little
services:
  server: {instances: 1, resources: {memory: 512 MiB, vcores: 1}}
  worker:
    instances: 1
    resources: {memory: 512 MiB, vcores: 1}
    files: {train.py: train.py}
    script: python train.py
yarnps:
  data: {train: "rows/*.txt"}
  train: {batch_rows: 10}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path / "home"))
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.txt").write_text("1 7:0.5 9:1\n0 8:1\n" * 20)
    (tmp_path / "train.py").write_text(PROGRAM)
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def submit(job: Path, *options: str) -> int:
    return main.run(["submit", str(job), "--cluster", "local", "-o", "json", *options])


def test_signals_are_kept_before_there_is_a_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def start(*_: object) -> None:
        order.append("start")
        raise ClusterError("the disk is full", "")

    monkeypatch.setattr(local, "start", start)
    with pytest.raises(ClusterError):
        local_submit.submit(load(job), lambda _: None, begins=lambda: order.append("begins"))
    assert order == ["begins", "start"]


def test_services_that_nobody_would_run_are_refused(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = "  board: {instances: 1, resources: {memory: 512 MiB, vcores: 1}, script: run}\nyarnps:"
    job.write_text(JOB.replace("yarnps:", board))
    assert main.run(["submit", str(job), "--cluster", "local"]) == 2
    assert "more services: board" in capsys.readouterr().err


def nothing_runs(application: str) -> bool:
    """Whether no process has its working directory in the job's folder."""
    folder = str(local.find(application).folder)  # type: ignore[union-attr]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(folder):
                return False
        except OSError:
            continue  # it has gone, or is not ours to look at
    return True


def test_a_job_from_submission_to_its_logs(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(job) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("cluster: local (--cluster local)\n")
    answer: dict[str, Any] = json.loads(captured.out)
    assert (answer["state"], answer["rows"], answer["splits"]) == ("SUCCEEDED", 40, 1)
    assert answer["metrics"] == {"answer": 42.0}
    application = answer["application"]
    assert answer["job_dir"] == f"file://{job.parent}/home/local/{application}"
    assert Path(answer["model"].removeprefix("file://"), "manifest.json").is_file()
    assert nothing_runs(application)

    assert main.run(["logs", application, "--role", "worker", "--rank", "0"]) == 0
    told = capsys.readouterr().out
    assert told.count("a batch of 10 rows") == 4
    assert main.run(["logs", application, "--role", "worker", "--rank", "1"]) == 2
    assert "worker 0" in capsys.readouterr().err

    assert main.run(["status", application]) == 0
    assert capsys.readouterr().out.startswith("Succeeded after ")
    assert main.run(["attach", application]) == 0
    assert main.run(["kill", application]) == 0
    assert "has ended already: SUCCEEDED" in capsys.readouterr().err
    assert main.run(["list", "--cluster", "local"]) == 0
    assert application not in capsys.readouterr().out
    assert main.run(["list", "--cluster", "local", "--all"]) == 0
    assert application in capsys.readouterr().out


def test_a_program_that_raises(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job.parent / "train.py").write_text(
        "import yarnps\njob = yarnps.connect()\nraise RuntimeError('no luck today')\n"
    )
    assert submit(job) == 1
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert (answer["state"], answer["cause_code"]) == ("FAILED", "script")
    assert answer["retry_helps"] is False
    assert "no luck today" in answer["cause"]
    assert "train.py" in captured.err, "the program's own traceback is shown"
    assert main.run(["status", answer["application"]]) == 0
    assert "RuntimeError: no luck today" in capsys.readouterr().out
    assert nothing_runs(answer["application"])


def test_detached_then_killed(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(job, "--detach", "--set", "yarnps.train.pace=1 min") == 0
    answer = json.loads(capsys.readouterr().out)
    application = answer["application"]
    assert answer["state"] == "STARTING"
    assert main.run(["kill", application, "--reason", "a test"]) == 0
    assert main.run(["attach", application, "-o", "json"]) == 5
    ended = json.loads(capsys.readouterr().out)
    assert (ended["state"], ended["cause_code"]) == ("KILLED", "killed_by_user")
    assert nothing_runs(application)


def test_a_broken_row_ends_what_has_been_started(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.parent / "rows" / "a.txt").write_text("1 7:0.5\n0 8:one\n")
    assert submit(job) == 2
    captured = capsys.readouterr()
    assert "a.txt:2" in captured.err
    assert "Traceback" not in captured.err
    (known,) = local.all_jobs()
    assert not known.am_alive()
    assert nothing_runs(known.application)


def test_bare_paths_are_this_machines(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/some/cluster")
    spec = load(
        job,
        sets=["yarnps.data.test=/abs/x", "yarnps.model.path=hdfs:///m", "yarnps.job_dir=jobs/one"],
    )
    block = on_this_machine(spec).block
    assert block is not None
    assert block.data.train == (f"file://{job.parent}/rows/*.txt",)
    assert block.data.test == ("file:///abs/x",)
    assert block.model.path == "hdfs:///m"
    assert block.job_dir == f"file://{job.parent}/jobs/one"


SCRIPT = "    script: python train.py\n"
SERVER = "  server: {instances: 1, resources: {memory: 512 MiB, vcores: 1}}\n"
TRAIN = "  train: {batch_rows: 10}\n"


@pytest.mark.parametrize(
    ("changes", "packages"),
    [
        ({}, ["yarnps.server"]),
        ({SCRIPT: "", TRAIN: "  app: fm\n"}, ["yarnps.server", "yarnps.worker", "yarnps.apps.fm"]),
        ({SERVER: "", TRAIN: "  runtime: xgboost\n"}, []),
    ],
)
def test_what_is_imported_once_for_all_processes(
    job: Path, changes: dict[str, str], packages: list[str]
) -> None:
    """What the job's processes import; a script of the user's imports for itself."""
    text = job.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    job.write_text(text)
    assert local.fork_packages(load(job, site=[])) == packages
