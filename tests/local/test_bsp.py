"""BSP by parts: one result, whoever computes it and whoever dies, on a user's own network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from digits_alone import SPECS, TABLES, Model, assert_trained_alike, joined, trained_alone
from local_run import Input, LocalRun
from safetensors.numpy import load_file

from yarnps.status import Event

EPOCHS, PARTS, RATE, UNITS = 3, 4, 0.5, 32


class Trained(NamedTuple):
    """What came of a job: the test loss after each epoch, and the model."""

    file: Path
    curve: list[float]
    model: Model


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    script = [sys.executable, str(SPECS / "digits_files.py"), str(folder)]
    subprocess.run(script, check=True, timeout=60)
    return folder


def block(digits: Path, folder: Path, **train: Any) -> dict[str, Any]:
    return {
        "params": {"units": UNITS, "learning_rate": RATE},
        "data": {
            "train": f"file://{digits}/train/*",
            "test": f"file://{digits}/test/*",
            "format": "libsvm",
        },
        "train": {"epochs": EPOCHS, "batch_rows": 48, "audit": True, **train},
        "sync": {"mode": "bsp", "parts": PARTS},
        "checkpoint": {"every": "2 s"},
        "model": {"path": str(folder / "model")},
    }


def started(digits: Path, folder: Path, servers: int, workers: int, **train: Any) -> LocalRun:
    program = (SPECS / "digits.py").read_text()
    settings = block(digits, folder, **train)
    return LocalRun(folder / "job", settings, program=program, servers=servers, workers=workers)


def finished(run: LocalRun, folder: Path) -> Trained:
    outcome = run.outcome()
    assert outcome.state == "SUCCEEDED", outcome
    curve: dict[int, float] = {}
    for event in run.events("metric"):
        curve[event.data["epoch"]] = event.data["test_loss"]
    audits = run.events("audit")
    assert audits and all(a.data["servers"] == a.data["ledger"] for a in audits), audits
    losses = [curve[epoch] for epoch in range(1, EPOCHS + 1)]
    parts = [load_file(path) for path in sorted((folder / "model").glob("part-*.safetensors"))]
    return Trained(run.file, losses, joined(parts))


def assert_same(one: Trained, other: Trained) -> None:
    """To the last bit."""
    assert one.curve == other.curve
    for name in TABLES:
        assert np.array_equal(one.model[name], other.model[name]), name


@pytest.fixture(scope="module")
def alone(digits: Path, tmp_path_factory: pytest.TempPathFactory, kernels: None) -> Trained:
    """What one worker with one server learns."""
    folder = tmp_path_factory.mktemp("alone")
    with started(digits, folder, servers=1, workers=1) as run:
        return finished(run, folder)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Any:
    """For the fixture above what `own_home` is for a test."""
    home = tmp_path_factory.mktemp("home")
    (home / "site.yaml").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YARNPS_HOME", str(home))
        patch.setenv("YARNPS_CONFIG", str(home / "site.yaml"))
        cache = Path(str(pytestconfig.rootpath)) / ".pytest_cache" / "d" / "kernels"
        patch.setenv("YARNPS_KERNEL_CACHE", str(cache))
        yield


def test_it_is_the_training_of_a_single_process(alone: Trained) -> None:
    assert_trained_alike(alone.model, trained_alone(alone.file))
    assert alone.curve[-1] < alone.curve[0] / 2


def test_the_result_does_not_depend_on_who_computes_it(
    tmp_path: Path, digits: Path, alone: Trained
) -> None:
    with started(digits, tmp_path, servers=3, workers=4) as run:
        assert_same(finished(run, tmp_path), alone)


def test_the_tenth_of_each_gradient_teaches_as_well(tmp_path: Path, digits: Path) -> None:
    """Top-k on dense tables: 0.95 of the digits are right as ever, also when the job goes back to a
    checkpoint, and what waited at the workers is void."""
    text = (SPECS / "digits.py").read_text()
    shorter = text.replace("init=init)", 'init=init, wire=yarnps.Wire(push="topk"))')
    assert shorter != text
    settings = block(digits, tmp_path, batch_rows=12, pace=0.05)
    with LocalRun(tmp_path / "job", settings, program=shorter, servers=2, workers=2) as run:
        run.training()
        again(run, "server", 1)
        assert "table hidden" in run.event("residuals", role="worker").text
        assert run.outcome().state == "SUCCEEDED"
        curve = [event.data["test_accuracy"] for event in run.events("metric")]
    assert len(curve) >= EPOCHS and curve[-1] > 0.94 > curve[0]


def again(run: LocalRun, role: str, rank: int) -> Event:
    """`kill -9`, and wait until the rank is back."""
    before = run.kill("role", role, rank)
    run.event("death", role=role, rank=rank, after=before)
    kind = "first_push" if role == "worker" else "ready"
    return run.event(kind, role=role, rank=rank, after=before)


def beyond_newest_save(run: LocalRun, rows: int = 100) -> Event:
    """Wait until workers have told of rows that the newest checkpoint lacks; its event."""

    def beyond() -> bool:
        told, saves = run.status().progress.rows, run.events("save")
        return bool(saves) and told > saves[-1].data["rows"] + rows

    run.wait(beyond, "rows after the newest checkpoint")
    return run.events("save")[-1]


def test_the_result_does_not_depend_on_who_dies(
    tmp_path: Path, digits: Path, alone: Trained
) -> None:
    with started(digits, tmp_path, servers=2, workers=2, pace=0.15) as run:
        run.training()
        again(run, "worker", 0)
        # The next checkpoint may be there before the kill is.
        replayed = 0
        for _ in range(5):
            save = beyond_newest_save(run)
            again(run, "server", 1)
            replayed += run.event("rollback", after=save.seq).data["rows"]
            if replayed:
                break
        assert replayed > 0
        again(run, "worker", 1)
        run.event("am_restart", after=run.kill("am"))
        assert run.status().generation > 1
        assert_same(finished(run, tmp_path), alone)


COUNT = """
import os
import sys
import time
import yarnps

job = yarnps.connect()
sums = job.sparse("sums", dtype="float64", optimizer=yarnps.Add())
for batch in job.data():
    with batch:
        sums.pull(batch.keys).wait()
        if batch.part == 0:
            time.sleep(0.05)
        while job.rank == 1 and os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        sums.push(batch.keys, batch.values)
"""


def counting(
    tmp_path: Path,
    made: Input,
    sync: dict[str, Any],
    *,
    workers: int = 3,
    worker: dict[str, Any] | None = None,
    **more: Any,
) -> LocalRun:
    settings = {
        "data": {"train": f"file://{made.folder}/*", "format": "libsvm"},
        "train": {"epochs": 1, "batch_rows": 50, "audit": True},
        "sync": {"mode": "bsp", "parts": 3, **sync},
        "model": {"path": str(tmp_path / "model")},
        **more,
    }
    services = {"worker": worker or {}}
    return LocalRun(tmp_path / "job", settings, program=COUNT, workers=workers, services=services)


def sums_of(model: Path) -> dict[int, float]:
    sums: dict[int, float] = {}
    for path in model.glob("part-*.safetensors"):
        tensors = load_file(path)
        values = tensors["sums/values"][:, 0].tolist()
        sums |= dict(zip(tensors["sums/keys"].tolist(), values, strict=True))
    return sums


def test_with_spare_parts_a_late_batch_is_done_again(tmp_path: Path) -> None:
    """Part 0 is slow: steps are closed without it, and still every row counts once."""
    made = Input.write(tmp_path / "in", files=3, rows=1500)
    with counting(tmp_path, made, {"spare": 1}) as run:
        assert run.outcome().state == "SUCCEEDED"
        (audit,) = run.events("audit")
        assert audit.data["servers"] == audit.data["ledger"] == made.all_rows
        status = run.status()
        assert sum(process.late for process in status.processes) > 0
    assert sums_of(tmp_path / "model") == made.sums(1)


def test_who_waits_for_a_dead_workers_part_does_it(tmp_path: Path) -> None:
    """Nobody takes the dead one's place, and the other waits for its part inside a later step."""
    made = Input.write(tmp_path / "in", files=3, rows=1500)
    worker = {"allow_failures": True, "max_restarts": 0}
    with counting(tmp_path, made, {}, workers=2, worker=worker) as run:
        run.hold.touch()
        run.event("first_push", rank=0)
        run.wait(lambda: waited(run, 0) > 1.0, "worker 0 at the gate")
        run.event("gave_up", role="worker", rank=1, after=run.kill("role", "worker", 1))
        assert run.outcome().state == "SUCCEEDED"
        (audit,) = run.events("audit")
        assert audit.data["servers"] == audit.data["ledger"] == made.all_rows
    assert sums_of(tmp_path / "model") == made.sums(1)


def waited(run: LocalRun, rank: int) -> float:
    """Seconds that a worker has waited for others."""
    (row,) = (p for p in run.status().processes if (p.role, p.rank) == ("worker", rank))
    return row.idle_s or 0.0


def test_a_limit_of_time_ends_all_servers_at_the_same_step(tmp_path: Path) -> None:
    made = Input.write(tmp_path / "in", files=3, rows=20_000)
    with counting(tmp_path, made, {}, stop={"max_time": "12 s"}) as run:
        run.event("first_push", rank=0)
        assert run.outcome().state == "SUCCEEDED"
        assert run.event("stop").text.startswith("epoch 1 ends early")
        (audit,) = run.events("audit")
        assert 0 < audit.data["servers"] == audit.data["ledger"] < made.all_rows
