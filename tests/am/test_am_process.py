"""The ApplicationMaster's process before its job goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from yarnps.am.__main__ import AttemptOver, prepare
from yarnps.am.config import Config
from yarnps.jobdir import AM_KEY, OUTCOME, JobDir
from yarnps.spec import load


@pytest.fixture
def config(tmp_path: Path) -> Config:
    size = {"memory": "1 GiB", "vcores": 1}
    services = {"worker": {"instances": 1, "resources": size, "script": "python train.py"}}
    block = {"runtime": "xgboost"}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"name": "little", "services": services, "yarnps": block}))
    for name in (".skein.crt", ".skein.pem"):
        (tmp_path / name).write_text(name)
    job_dir = f"{tmp_path}/job"
    return Config(load(path, site=[]), "app_1", 2, job_dir, "", b"secret", "1")


def test_an_attempt_claims_the_job_directory(config: Config, tmp_path: Path) -> None:
    job_dir = JobDir(config.job_dir)
    assert prepare(config, job_dir, tmp_path) is None
    assert job_dir.newest_attempt() == 2
    assert prepare(config, job_dir, tmp_path) is None  # its process has died, and is back
    assert job_dir.read(AM_KEY) == b".skein.pem"


def test_a_process_of_an_older_attempt_writes_nothing(config: Config, tmp_path: Path) -> None:
    """Clients would be led to it by what it writes, for as long as it takes it to find out."""
    job_dir = JobDir(config.job_dir)
    prepare(replace(config, attempt=3), job_dir, tmp_path)
    job_dir.write(AM_KEY, b"the newer one's")
    with pytest.raises(AttemptOver, match="attempt 3 has taken over"):
        prepare(config, job_dir, tmp_path)
    assert job_dir.read(AM_KEY) == b"the newer one's"


def test_a_job_that_has_ended_is_not_run_again(config: Config, tmp_path: Path) -> None:
    job_dir = JobDir(config.job_dir)
    prepare(replace(config, attempt=1), job_dir, tmp_path)
    job_dir.write_json(OUTCOME, {"state": "FAILED", "cause": "no"})
    ended = prepare(config, job_dir, tmp_path)
    assert ended is not None and ended.state == "FAILED"
