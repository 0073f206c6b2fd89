"""`yarnps launch --launcher sge`, with a real Grid Engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import engines
import launching
import pytest
from waiting import until


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with engines.grid_engine(tmp_path_factory.mktemp("sge")) as environ:
        yield environ


def test_roles_as_tasks(env: dict[str, str], tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.mkdir()
    options = ("--queue", "all.q", "--jobname", "my job", "--env", "MY_A:it's")
    options += ("--worker-cores", "2")
    done = launching.run("sge", "--say", str(said), env=env, cwd=tmp_path, options=options)
    assert (done.status, done.all_work()) == (0, True), done
    worker = launching.said(said)["worker-1"]
    assert worker["cwd"] == str(tmp_path)
    found = worker["env"]
    assert (found["DMLC_JOB_CLUSTER"], found["MY_A"]) == ("sge", "it's")
    assert found["NSLOTS"] == found["OMP_NUM_THREADS"] == "2"
    logs = sorted(path.suffix for path in (tmp_path / "my_job.log").iterdir())
    assert logs == [".log", ".log", ".log", ".sh"]


def test_a_failure_ends_all(env: dict[str, str], tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.mkdir()
    words = ("--fail", "worker", "1", "7", "--say", str(said))
    done = launching.run("sge", *words, env=env, cwd=tmp_path)
    assert done.status == 7
    assert "worker 1 failed with status 7: all others are ended" in done.err
    pids = [one["pid"] for one in launching.said(said).values()]
    assert len(pids) == 3
    until(lambda: not any(launching.alive(pid) for pid in pids), "no task stays", 30.0)


def test_a_queue_that_does_not_exist(env: dict[str, str], tmp_path: Path) -> None:
    done = launching.run("sge", env=env, cwd=tmp_path, options=("--queue", "nosuch"))
    assert done.status == 1
    assert 'unknown queue "nosuch"' in done.err
