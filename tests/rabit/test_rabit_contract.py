"""What XGBoost's workers find in their environment, and their shares of the input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import yarnps
from yarnps._errors import YarnpsError
from yarnps.data import DataSettings, Records, Rows, Split, list_input
from yarnps.jobdir import JOB_JSON, SPLITS
from yarnps.rabit.contract import environment
from yarnps.rabit.sharing import as_json, from_json, share
from yarnps.spec import load


def test_the_variables() -> None:
    given = {"DMLC_TASK_ID": "9", "MY_OWN": "1", "DMLC_JOB_CLUSTER": "mine"}
    env = environment(1, 3, "10.0.0.1", 7000, attempt=2, cluster="yarn", given=given)
    assert env == {
        "DMLC_TRACKER_URI": "10.0.0.1",
        "DMLC_TRACKER_PORT": "7000",
        "DMLC_TASK_ID": "1",
        "DMLC_WORKER_ID": "1",
        "DMLC_ROLE": "worker",
        "DMLC_NUM_WORKER": "3",
        "DMLC_NUM_SERVER": "0",
        "DMLC_NUM_ATTEMPT": "2",
        "DMLC_JOB_CLUSTER": "mine",
        "MY_OWN": "1",
    }


@pytest.mark.parametrize("workers", [1, 10, 11, 120])
def test_the_trackers_order_is_that_of_the_ranks(workers: int) -> None:
    tasks = [environment(r, workers, "h", 1)["DMLC_TASK_ID"] for r in range(workers)]
    assert sorted(tasks) == tasks
    assert [int(task) for task in tasks] == list(range(workers))


def splits(*lengths: int) -> list[Split]:
    return [Split(i, f"file:///{i}", 0, n, n, -1) for i, n in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "world", "shares"),
    [
        ((5, 5, 5, 5), 2, [[0, 2], [1, 3]]),
        ((9, 1, 1, 1), 2, [[0], [1, 2, 3]]),
        ((4,), 3, [[0], [], []]),
        ((), 2, [[], []]),
    ],
)
def test_shares(lengths: tuple[int, ...], world: int, shares: list[list[int]]) -> None:
    found = [[s.id for s in share(splits(*lengths), rank, world)] for rank in range(world)]
    assert found == shares


def test_splits_travel_as_text() -> None:
    given = [Split(3, "hdfs://nn/a", 10, 20, 100, 5, ("h1", "h2"), (("day", "1"),))]
    assert from_json(json.loads(json.dumps(as_json(given)))) == given


@pytest.fixture
def job_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job directory as the ApplicationMaster leaves it, and a worker's environment."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / f"part-{number}").write_text(f"1 {number}:2\n" * 5)
    worker = {"instances": 2, "resources": {"memory": "1 GiB", "vcores": 1}, "script": "x"}
    data = {"train": f"{folder}/*"}
    document = {"services": {"worker": worker}, "yarnps": {"runtime": "xgboost", "data": data}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    job = load(path, site=[])
    (tmp_path / JOB_JSON).write_text(job.to_json())
    settings = DataSettings.from_block(job.block)
    listing = list_input(f"{folder}/*", settings, workers=2)
    (tmp_path / SPLITS).write_text(json.dumps({"train": as_json(listing.splits)}))
    for name, value in environment(1, 2, "127.0.0.1", 1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("YARNPS_JOB_DIR", f"file://{tmp_path}")
    return tmp_path


def test_a_worker_reads_its_share(job_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = yarnps.shard()
    assert (second.rank, second.world) == (1, 2)
    rows = second.rows()
    assert isinstance(rows, Rows) and len(rows) == 10
    monkeypatch.setenv("DMLC_TASK_ID", "0")
    keys = [*yarnps.shard().rows().keys, *rows.keys]
    assert sorted(keys) == [n for n in range(4) for _ in range(5)]


def test_lines_are_no_rows(job_dir: Path) -> None:
    text = (job_dir / JOB_JSON).read_text()
    (job_dir / JOB_JSON).write_text(text.replace('"libsvm"', '"text"'))
    (batch, *_) = list(yarnps.shard().batches())
    assert isinstance(batch.rows, Records) and batch.rows.items[0] == "1 1:2"
    with pytest.raises(YarnpsError, match="format text are not labelled rows"):
        yarnps.shard().rows()


def test_what_cannot_be_shared(job_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(YarnpsError, match=r"no input to share: data\.test"):
        yarnps.shard("test")
    text = (job_dir / JOB_JSON).read_text()
    (job_dir / JOB_JSON).write_text(text.replace('"start_timeout": 600.0', '"start_timeout": 0.1'))
    (job_dir / SPLITS).unlink()
    with pytest.raises(YarnpsError, match=r"not listed within 0 s \(start_timeout\)"):
        yarnps.shard()
    monkeypatch.delenv("DMLC_TASK_ID")
    with pytest.raises(YarnpsError, match="not a worker of a job with runtime: xgboost"):
        yarnps.shard()
