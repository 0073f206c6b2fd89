"""Processes of a job on YARN are killed under way: it goes on by itself, and counts stay exact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hdfs_input import ROOT, Flights
from yarn_run import LIMIT_S, Run, attempts, until, write_job

from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

SPEC = ROOT / "specs" / "flights.yaml"
AUC_AT_LEAST = 0.765
TRAINING_AT_LEAST_S = 60.0
# 256 batches an epoch and 3 epochs: 256 batches for each of the 3 workers.
PACED = ["yarnps.train.pace=0.25 s", "yarnps.checkpoint.every=10 s"]


def test_a_worker_a_server_and_the_am_are_killed(hadoop: Sandbox, flights: Flights) -> None:
    with Run(hadoop, SPEC, [*flights.sets, *PACED], "-o", "json") as run:
        run.training()
        began = time.monotonic()
        before = run.kill("role", "worker", 0)
        run.event("death", role="worker", rank=0, after=before)
        run.event("first_push", role="worker", rank=0, after=before)
        run.event("save", after=before)
        before = run.kill("role", "server", 1)
        run.event("death", role="server", rank=1, after=before)
        run.event("ready", role="server", rank=1, after=before)
        run.event("save", after=before)
        before = run.kill("am")
        back = run.event("am_restart", after=before)
        run.event("save", after=back.seq)
        assert not run.events("death", after=back.seq), "its own death costs no other"
        done = run.wait()
        assert time.monotonic() - began >= TRAINING_AT_LEAST_S
        assert done.code == 0, run.report()
        final = done.json()
        assert final["state"] == "SUCCEEDED"
        assert final["metrics"]["test_auc"] >= AUC_AT_LEAST
        check_exact(run, flights, epochs=3)
        assert [e.data["cause"] for e in run.events("death")] == ["signal", "signal"]
        said = run.rm()
        assert (said["finalStatus"], said["progress"]) == ("SUCCEEDED", 100.0)
        assert attempts(run) == 1


def check_exact(run: Run, task: Flights, epochs: int) -> None:
    """Every row was counted once per epoch by the servers, and the ledger says the same."""
    last = run.events("audit")[-1]
    assert last.data == {"servers": epochs * task.train_rows, "ledger": epochs * task.train_rows}
    assert sum(run.rows_of_splits().values()) == epochs * task.train_rows


# ---------------------------------------------------------------------- smaller jobs

EPOCHS = 2


def job(folder: Path, **more: Any) -> Path:
    """A job over the few flights, in many small batches, slowed down while it is harmed."""
    block = {
        "app": "ftrl",
        "params": {"alpha": 0.1},
        "data": {"train": "small/train/*", "format": "libsvm"},
        "train": {"epochs": EPOCHS, "batch_rows": 60, "audit": True, "pace": "0.3 s"},
        "checkpoint": {"every": "3 s"},
        "model": {"path": "models/{app}"},
    }
    return write_job(folder, block, **more)


def test_the_container_of_the_am_is_killed(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    """The next attempt goes on from the last checkpoint, with the same ranks."""
    with Run(hadoop, job(tmp_path / "attempts"), (), "-o", "json") as run:
        run.training()
        run.event("save")
        before = run.kill_am_container()
        resumed = run.event("resume", after=before)
        assert "checkpoint" in resumed.text
        done = run.wait()
        assert done.code == 0, run.report()
        assert done.json()["state"] == "SUCCEEDED"
        check_exact(run, small, EPOCHS)
        assert (run.rm()["finalStatus"], attempts(run)) == ("SUCCEEDED", 2)


def test_without_marks_the_counts_are_wrong(
    hadoop: Sandbox, small: Flights, tmp_path: Path
) -> None:
    """The control: what the other tests count would not be exact by itself."""
    careless = {"env": {"YARNPS_FAULT_NO_MARKS": "1"}}
    with Run(hadoop, job(tmp_path / "control", server=careless), (), "-o", "json") as run:
        run.training()
        run.event("save")
        # More than a checkpoint's worth of batches has to be replayed.
        status = run.status()
        assert status is not None
        more = status.progress.rows + 400
        until(lambda: (found := run.status()) and found.progress.rows > more, "rows after the save")
        before = run.kill("role", "server", 0)
        run.event("replay", after=before)
        assert run.wait().code == 0, run.report()
        last = run.events("audit")[-1]
        assert last.data["ledger"] == EPOCHS * small.train_rows
        assert last.data["servers"] > last.data["ledger"]
        assert "NOT as many as" in last.text
        with pytest.raises(AssertionError):
            check_exact(run, small, EPOCHS)
