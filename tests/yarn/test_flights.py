"""The main job on real YARN and HDFS, as `make demo` runs it, and the verbs that look at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hdfs_input import ROOT, Flights
from sklearn.metrics import log_loss, roc_auc_score
from yarn_run import LIMIT_S, Run, until, yarnps

from bench import processes
from yarnps.client.sandbox import Sandbox
from yarnps.data import DataSettings, list_input
from yarnps.files import open_files
from yarnps.spec import load
from yarnps.status import STATES, Event

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

SPEC = ROOT / "specs" / "flights.yaml"
EPOCHS, WORKERS = 3, 3
# All of it takes three seconds otherwise, and may be over before the third worker is there. 256
# batches an epoch: about 26 s for three workers.
PACED = ["yarnps.train.pace=0.1 s"]
SETTINGS = DataSettings.from_block(load(SPEC, site=[]).block)
AUC_AT_LEAST, LOGLOSS_AT_MOST = 0.768, 0.456


def test_flights(hadoop: Sandbox, flights: Flights, tmp_path: Path) -> None:
    with Run(hadoop, SPEC, [*flights.sets, *PACED], "-o", "json") as run:
        run.training()
        look_while_it_runs(run)
        done = run.wait()
        assert done.code == 0, run.report()
        final = done.json()
        assert final["state"] == "SUCCEEDED"
        assert final["application"] == run.application
        assert final["metrics"]["test_auc"] >= AUC_AT_LEAST
        assert final["metrics"]["test_logloss"] <= LOGLOSS_AT_MOST
        assert final["rows"] == EPOCHS * flights.train_rows
        assert final["splits"] > 0
        assert final["rows_per_s"] > 0
        check_containers(hadoop, run.events())
        check_counts(run, flights)
        check_yarn(run)
        look_afterwards(run, final["model"])
        check_model(final["model"], flights, final["metrics"], tmp_path)


def check_containers(hadoop: Sandbox, events: list[Event]) -> None:
    """Two servers and three workers, each started once, on both nodes."""
    up = [(e.role, e.rank) for e in events if e.kind == "up"]
    assert sorted(up) == [
        ("server", 0),
        ("server", 1),
        ("worker", 0),
        ("worker", 1),
        ("worker", 2),
    ]
    assert {e.node for e in events if e.kind == "up"} == set(hadoop.nodes)
    assert not [e for e in events if e.kind == "death"]


def check_counts(run: Run, flights: Flights) -> None:
    """What the servers counted as pushed: each line once per epoch, split by split."""
    splits = list_input([f"{flights.folder}/train/*"], SETTINGS, workers=WORKERS).splits
    once = flights.rows_of_splits(splits)
    assert sum(once.values()) == flights.train_rows
    assert run.rows_of_splits() == {split: EPOCHS * rows for split, rows in once.items()}
    audits = run.events("audit")
    expected = [epoch * flights.train_rows for epoch in range(1, EPOCHS + 1)]
    assert [a.data["servers"] for a in audits] == expected
    assert [a.data["ledger"] for a in audits] == expected


def check_yarn(run: Run) -> None:
    """The resource manager agrees, and nothing runs any more."""
    said = run.rm()
    assert (said["state"], said["finalStatus"]) == ("FINISHED", "SUCCEEDED")
    assert said["progress"] == 100.0
    assert said["diagnostics"] == "succeeded"
    # The AM's own container is counted until its node has told of its end.
    until(lambda: run.rm()["runningContainers"] in (0, -1), "the end of all containers", 30)
    until(lambda: not processes.of_application(run.application), "the end of all processes", 30)
    left = {info.path.rpartition("/")[2] for info in run.job_dir.files.list(run.job_dir.path)}
    assert not left & {"am.json", "am.crt", "am.pem"}, "keys are left in the job directory"


# ---------------------------------------------------------------------- the verbs


def look_while_it_runs(run: Run) -> None:
    done = yarnps("status", run.application, "-o", "json")
    assert done.code == 0, done.err
    status = done.json()
    assert status["application"] == run.application
    assert status["state"] in STATES[:-3], "it has not ended"
    assert {(p["role"], p["rank"]) for p in status["processes"]} == {
        *(("server", rank) for rank in range(2)),
        *(("worker", rank) for rank in range(WORKERS)),
    }
    listed = yarnps("list", "-o", "json").json()
    mine = next(x for x in listed if x["application"] == run.application)
    assert (mine["name"], mine["state"], mine["cluster"]) == ("flights", "RUNNING", "yarn")
    assert log_of_a_worker(run, rank=1)


def look_afterwards(run: Run, model: str) -> None:
    text = yarnps("status", run.application).out
    assert text.startswith("Succeeded after ")
    assert model in text
    lines = yarnps("list", "--all").out.splitlines()
    assert any(run.application in line and "SUCCEEDED" in line for line in lines)
    assert run.application not in yarnps("list").out
    # YARN aggregates the logs a moment after the end.
    until(lambda: log_of_a_worker(run, rank=1), "the aggregated logs")


def log_of_a_worker(run: Run, rank: int) -> str:
    """What `yarnps logs` gives of one rank's container; empty while there is nothing."""
    words = ("--role", "worker", "--rank", str(rank))
    done = yarnps("logs", run.application, *words, "-o", "json")
    if done.code != 0:
        assert "Traceback" not in done.err, done.err
        return ""
    files = done.json()
    assert {(f["role"], f["rank"]) for f in files} == {("worker", rank)}
    assert {f["node"].partition(":")[0] for f in files} <= set(run.sandbox.nodes)
    return "".join(f["text"] for f in files if f["file"] == "worker.log")


# ---------------------------------------------------------------------- the model


def check_model(address: str, flights: Flights, metrics: dict[str, float], folder: Path) -> None:
    """It is in HDFS, and scores the test input as well as the job has said."""
    files, path = open_files(address)
    names = {info.path.rpartition("/")[2] for info in files.list(path)}
    assert names == {"manifest.json", "part-0.safetensors", "part-1.safetensors"}
    scores = []
    for name in flights.test:
        out = folder / f"{name}.scores"
        done = yarnps("predict", address, f"{flights.folder}/test/{name}", "--out", out)
        assert done.code == 0, done.err
        scores.append(np.loadtxt(out))
    labels, predicted = np.array(flights.labels) > 0, np.concatenate(scores)
    assert roc_auc_score(labels, predicted) == pytest.approx(metrics["test_auc"], abs=1e-4)
    assert log_loss(labels, predicted) == pytest.approx(metrics["test_logloss"], abs=1e-4)
