"""The ApplicationMaster's process before its job goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from yarnps.am.__main__ import AttemptOver, make_config, open_job_dir, prepare
from yarnps.am.clusters.local import LocalCluster
from yarnps.am.config import Config
from yarnps.jobdir import AM_KEY, OUTCOME, JobDir
from yarnps.spec import load


@pytest.fixture
def config(tmp_path: Path) -> Config:
    size = {"memory": "1 GiB", "vcores": 1}
    role = {"instances": 1, "resources": size}
    services = {"server": role, "worker": {**role, "script": "python train.py"}}
    block = {"data": {"train": "/in/*"}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"name": "little", "services": services, "yarnps": block}))
    for name in (".skein.crt", ".skein.pem"):
        (tmp_path / name).write_text(name)
    job_dir = f"{tmp_path}/job"
    return Config(load(path, site=[]), "app_1", 2, job_dir, "", b"secret", "1")


def opened(config: Config) -> JobDir:
    job_dir = JobDir(config.job_dir)
    job_dir.create()
    return job_dir


def test_an_attempt_claims_the_job_directory(config: Config, tmp_path: Path) -> None:
    job_dir = opened(config)
    assert prepare(config, job_dir, tmp_path) is None
    assert job_dir.newest_attempt() == 2
    assert prepare(config, job_dir, tmp_path) is None  # its process has died, and is back
    assert job_dir.read(AM_KEY) == b".skein.pem"


def test_a_process_of_an_older_attempt_writes_nothing(config: Config, tmp_path: Path) -> None:
    """Clients would be led to it by what it writes, for as long as it takes it to find out."""
    job_dir = opened(config)
    prepare(replace(config, attempt=3), job_dir, tmp_path)
    job_dir.write(AM_KEY, b"the newer one's")
    with pytest.raises(AttemptOver, match="attempt 3 has taken over"):
        prepare(config, job_dir, tmp_path)
    assert job_dir.read(AM_KEY) == b"the newer one's"


def test_a_job_that_has_ended_is_not_run_again(config: Config, tmp_path: Path) -> None:
    job_dir = opened(config)
    prepare(replace(config, attempt=1), job_dir, tmp_path)
    job_dir.write_json(OUTCOME, {"state": "FAILED", "cause": "no"})
    ended = prepare(config, job_dir, tmp_path)
    assert ended is not None and ended.state == "FAILED"


def test_the_model_s_place_is_the_same_on_another_day(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that runs over midnight would not find the best model that it has kept."""
    document = yaml.safe_load((tmp_path / "job.yaml").read_text())
    document["yarnps"]["model"] = {"path": f"{tmp_path}/models/{{date}}/{{app}}"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    job, cluster = load(tmp_path / "job.yaml", site=[]), LocalCluster(tmp_path, "app_1")
    monkeypatch.setenv("YARNPS_JOB_DIR", config.job_dir)
    places = []
    for today in ("2026-11-30", "2026-12-01"):
        monkeypatch.setattr(time, "strftime", lambda *_, today=today: today)
        job_dir = open_job_dir(job, cluster)
        places.append(make_config(job, cluster, job_dir, tmp_path).model)
    assert places == [f"file://{tmp_path}/models/2026-11-30/app_1"] * 2
