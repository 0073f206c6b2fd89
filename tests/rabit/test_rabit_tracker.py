"""XGBoost's own tracker as a child, with real workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import until

from yarnps.rabit import tracker

LIMIT_S = 120.0

WORKER = """\
import os, sys
import numpy as np
from xgboost.collective import CommunicatorContext, Op, allreduce, get_rank

port, task, dies = sys.argv[1:]
with CommunicatorContext(
    dmlc_tracker_uri="127.0.0.1", dmlc_tracker_port=int(port), dmlc_task_id=task
):
    assert get_rank() == int(task)
    assert allreduce(np.array([1.0]), Op.SUM)[0] == 2
    if dies == task:
        os._exit(3)
    allreduce(np.array([1.0]), Op.SUM)
"""


def start(folder: Path, *, workers: int = 2, timeout: float = 60, **more: Any) -> Any:
    given = ["--workers", str(workers), "--host", "127.0.0.1", "--timeout", str(timeout)]
    given += ["--owner", str(more.pop("owner", os.getpid())), "--say", str(folder / "said")]
    words = [sys.executable, "-m", "yarnps.rabit.tracker", *given]
    return subprocess.Popen(words, **more)


def port(folder: Path) -> str:
    said = until(lambda: tracker.read(folder / "said"), "the tracker says its port", LIMIT_S)
    return str(said["port"])


def test_workers_come_and_go(tmp_path: Path) -> None:
    child = start(tmp_path)
    words = [sys.executable, "-c", WORKER, port(tmp_path)]
    workers = [subprocess.Popen([*words, task, "none"]) for task in ("1", "0")]
    assert [worker.wait(LIMIT_S) for worker in workers] == [0, 0]
    assert child.wait(LIMIT_S) == 0
    assert tracker.read(tmp_path / "said")["ended"] is True


def test_it_gives_up_when_not_all_come(tmp_path: Path) -> None:
    child = start(tmp_path, timeout=1)
    assert child.wait(LIMIT_S) == tracker.FAILED
    assert "Poll timeout" in tracker.read(tmp_path / "said")["error"]


def test_it_ends_with_its_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child = start(tmp_path, owner=owner.pid)
    port(tmp_path)
    owner.kill()
    owner.wait(LIMIT_S)
    assert owner.stdin is not None
    owner.stdin.close()
    assert child.wait(LIMIT_S) == tracker.FAILED


def test_without_xgboost_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "xgboost.py").write_text("raise ImportError('not here')")
    child = start(tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert child.wait(LIMIT_S) == tracker.NO_PACKAGE
    said = tracker.read(tmp_path / "said")["error"]
    assert said == f"XGBoost cannot be imported by {sys.executable}: not here"


def test_the_cause_of_an_error_is_below_its_places() -> None:
    text = (
        "[15:14:05] /workspace/src/collective/result.cc:83: [coll_c_api.cc:96|15:13:54]:\n\n"
        "- [tracker.cc:306|15:13:54]: Failed to accept connection.\n"
        "- [poll_utils.h:206|15:13:54]: Poll timeout:3 seconds. Connection timed out\n"
        "Stack trace:\n  [bt] (0) libxgboost.so(+0x11031e)\n"
    )
    assert tracker.last_line(text) == "Poll timeout:3 seconds. Connection timed out"
    assert tracker.last_line("") == "no reason was given"
