"""Where containers get their Python, on nodes that cannot see the submitting environment."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hdfs_input import ROOT, put
from made_venv import make_venv
from yarn_run import LIMIT_S, Done, Run, write_job, yarnps

from yarnps.client import interpreter, packer
from yarnps.client import sandbox as sandboxes
from yarnps.client.sandbox import Sandbox

pytestmark = [
    pytest.mark.timeout(2 * LIMIT_S),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide folders"),
]

LINES = 200  # of each of the 8 files
AM_EXPIRY_S = 60
REMEDY = "yarnps.environment"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A folder for environments, outside of what is hidden."""
    folder = Path(tempfile.mkdtemp(prefix="yarnps-env-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def venv(made: Path) -> Path:
    make_venv(made / "venv")
    return made / "venv"


@pytest.fixture(scope="module")
def blind(made: Path, venv: Path, client_home: Path) -> Iterator[Sandbox]:
    """A sandbox whose nodes see no Python of ours, and that has a few flights."""
    hidden = {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, ROOT, venv)}
    outer = {p for p in hidden if not any(p != q and p.is_relative_to(q) for q in hidden)}
    home = made / "sandbox"
    started = sandboxes.start(
        home,
        nodes=2,
        am_expiry_s=AM_EXPIRY_S,
        hide=sorted(outer),
        node_env={"HOME": "/nonexistent"},
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in started.environ().items():
                patch.setenv(name, value)
            patch.setenv("YARNPS_HOME", str(client_home))
            patch.setenv("YARNPS_CONFIG", str(client_home / "site.yaml"))
            put("small", LINES)
            yield started
    finally:
        sandboxes.stop(home)


def job(folder: Path, environment: str | None, **more: Any) -> Path:
    block: dict[str, Any] = {
        "app": "ftrl",
        "params": {"alpha": 0.1},
        "data": {"train": "small/train/*", "test": "small/test/*", "format": "libsvm"},
        "train": {"batch_rows": 64, "audit": True},
        "model": {"path": "models/{app}"},
    }
    if environment is not None:
        block["environment"] = environment
    one = {"instances": 1}
    return write_job(folder, block, server=one, worker={"instances": 2}, **more)


def test_a_packed_environment(blind: Sandbox, venv: Path, tmp_path: Path) -> None:
    """It is all that the containers have; the second submission uploads nothing."""
    file = job(tmp_path / "packed", f"venv://{venv}")
    with Run(blind, file, (), "-o", "json") as run:
        done = run.wait()
        assert done.code == 0, run.report()
        assert done.json()["state"] == "SUCCEEDED"
        assert done.json()["rows"] == 8 * LINES
        assert "environment: packing" in done.err
        assert {e.node for e in run.events("up")} <= set(blind.nodes)
        assert run.events("audit")[-1].data == {"servers": 8 * LINES, "ledger": 8 * LINES}
    with Run(blind, file) as again:
        assert again.application
        # The package of yarnps is only uploaded where somebody works on it meanwhile.
        assert "environment: unchanged and on the cluster already, 0 bytes uploaded" in again.err


def complains(run: Run, *words: str) -> Done:
    """The job ends soon, as wrong input, in words that tell what to do."""
    done = run.wait()
    assert done.code == 2, run.report()
    for word in words:
        assert word in done.err, done.err
    assert "Traceback" not in done.err, done.err
    said = run.rm()
    assert said["finalStatus"] == "FAILED"
    # From the launch of the first container, which is the AM's, to the end.
    took = (said["finishedTime"] - said["launchTime"]) / 1000
    assert took < SOON_S, f"found after {took:.0f} s only"
    return done


# Both attempts of the ApplicationMaster fall into it; crowded machines take three times as long.
SOON_S = 90.0


def test_the_interpreter_that_submits_is_not_on_the_nodes(blind: Sandbox, tmp_path: Path) -> None:
    with Run(blind, job(tmp_path / "absent", None)) as run:
        complains(run, f"no Python at {sys.executable}", REMEDY)


def test_an_archive_without_numpy(blind: Sandbox, made: Path, tmp_path: Path) -> None:
    """What the nodes find; what can be found before is found before."""
    python = make_venv(made / "poor", without=["numpy", "llvmlite"])  # the latter is large
    done = yarnps("submit", job(tmp_path / "poor", f"venv://{made}/poor"), "--cluster", "yarn")
    assert done.code == 2, done.text
    assert "numpy" in done.err and "Traceback" not in done.text
    archive = made / "poor.tar.gz"
    pack_without_check(python, archive)
    with Run(blind, job(tmp_path / "archive", str(archive), max_attempts=1)) as run:
        complains(run, "packages are missing in", ": numpy", REMEDY)


def pack_without_check(python: Path, target: Path) -> None:
    """An archive as users make them: whatever is in it."""
    packer.write(packer.entries(interpreter.ask(str(python))), target)
