"""BSP on a real YARN: what the servers learn is what a single process learns, whoever dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from digits_alone import SPECS, assert_trained_alike, joined, trained_alone
from hdfs_input import put_file
from safetensors.numpy import load
from yarn_run import LIMIT_S, Run, until, write_job

from yarnps.client.sandbox import Sandbox
from yarnps.files import open_files
from yarnps.status import Event

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

EPOCHS, ROWS = 2, 1500  # rows: of `specs/digits_files.py`
MODEL = "models/bsp"
KILLS_AT_MOST = 5


@pytest.fixture
def job(hadoop: Sandbox, tmp_path: Path) -> Path:
    """`specs/digits.yaml` with its input in HDFS, slow enough to be harmed."""
    made = tmp_path / "digits"
    script = [sys.executable, str(SPECS / "digits_files.py"), str(made)]
    subprocess.run(script, check=True, timeout=60)
    for path in made.glob("*/*"):
        put_file(f"digits/{path.relative_to(made)}", path.read_bytes())
    block = {
        "params": {"units": 32, "learning_rate": 0.5},
        "data": {"train": "digits/train/*", "test": "digits/test/*", "format": "libsvm"},
        "train": {"epochs": EPOCHS, "batch_rows": 48, "audit": True, "pace": "0.3 s"},
        "sync": {"mode": "bsp", "parts": 4},
        "checkpoint": {"every": "1.5 s"},
        "model": {"path": MODEL},
    }
    worker = {"instances": 2, "files": {"digits.py": str(SPECS / "digits.py")}}
    return write_job(tmp_path / "bsp", block, worker={**worker, "script": '"$PYTHON" digits.py'})


def rolled_back(run: Run) -> Event:
    """Kill server 1 until its checkpoint lacked something; a save may come before a kill does."""
    for _ in range(KILLS_AT_MOST):
        save = run.event("save")
        until(lambda: rows_told(run) > run.events("save")[-1].data["rows"] + 100, "more rows")
        before = run.kill("role", "server", 1)
        back = run.event("rollback", after=before)
        run.event("ready", role="server", rank=1, after=before)
        if back.data["rows"] > 0:
            return back
    raise AssertionError(f"no rollback took anything back; the last one was after {save}")


def rows_told(run: Run) -> int:
    """Training rows that workers have told of."""
    status = run.status()
    return status.progress.rows if status is not None else 0


def test_who_dies_changes_nothing(hadoop: Sandbox, job: Path) -> None:
    with Run(hadoop, job, (), "-o", "json") as run:
        run.training(workers=2)
        before = run.kill("role", "worker", 0)
        run.event("death", role="worker", rank=0, after=before)
        back = rolled_back(run)
        assert "by all; generation" in back.text
        done = run.wait()
        assert done.code == 0, run.report()
        counted = run.events("audit")[-1].data
        assert counted == {"servers": EPOCHS * ROWS, "ledger": EPOCHS * ROWS}
        assert [e.data["cause"] for e in run.events("death")][:2] == ["signal", "signal"]
    files, folder = open_files(MODEL)
    paths = sorted(x.path for x in files.list(folder) if x.path.endswith(".safetensors"))
    assert len(paths) == 2
    assert_trained_alike(joined(load(files.read_bytes(path)) for path in paths), trained_alone(job))
