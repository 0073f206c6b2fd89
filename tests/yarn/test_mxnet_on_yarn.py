"""An unmodified MXNet program on real YARN, with a Python of its own, and two deaths."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hdfs_input import ROOT
from yarn_run import LIMIT_S, Run, until, write_job, yarnps

from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

# Of another version than ours, where there is one; MXNet itself is at one place on all nodes here.
SCRIPT = """
set -e
case "$PYTHON" in */yarnps_program/bin/python) ;; *) echo "PYTHON is $PYTHON"; exit 3 ;; esac
python -c 'import sys; assert "yarnps_program" in sys.prefix, sys.prefix; print(sys.version)'
case "$CLASSPATH" in *hadoop-*.jar*) ;; *) echo "CLASSPATH is $CLASSPATH"; exit 4 ;; esac
exec {python} mxnet_digits.py --kv dist_sync --epochs 120
"""


def other_python(folder: Path) -> Path:
    """A virtual environment with nothing in it."""
    names = ("python3.8", "python3.9", "python3.10")
    found = next(filter(None, map(shutil.which, names)), None)
    python = found if found is not None and works(found) else sys.executable
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    return folder


def works(python: str) -> bool:
    return subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0


def epochs(run: Run) -> int:
    """How many epochs worker 0 has written down."""
    words = ("logs", run.application, "--role", "worker", "--rank", "0")
    return yarnps(*words).out.count("accuracy")


def test_mxnet_on_yarn(hadoop: Sandbox, mxnet: Path, digits: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "specs" / "mxnet_digits.py", tmp_path)
    files = {"mxnet_digits.py": "mxnet_digits.py", "digits.npz": str(digits)}
    file = write_job(
        tmp_path,
        {
            "runtime": "dmlc",
            "dmlc": {"environment": f"venv://{other_python(tmp_path / 'other')}"},
        },
        server={"files": files},
        worker={"instances": 2, "files": files, "script": SCRIPT.format(python=mxnet)},
    )
    with Run(hadoop, file, (), "-o", "json") as run:
        run.event("barrier", "start")
        before = run.kill("role", "worker", 0)
        run.event("note", "all start again (restart 1): worker 0 died", after=before)
        run.event("barrier", "start", after=before)
        # A node's word that is on its way when the AM dies is lost. In training there is none.
        learned = epochs(run)
        until(lambda: epochs(run) > learned, "worker 0 trains again")
        before = run.kill("am")
        run.event("am_restart", after=before)
        done = run.wait()
        assert done.code == 0, run.report()
        assert done.json()["state"] == "SUCCEEDED"
        assert len(run.events("joined")) == 2 * 4
        assert len(run.events("death")) == 1
