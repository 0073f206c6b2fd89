"""`yarnps launch --launcher local`, with real processes that speak ps-lite's protocol."""

from __future__ import annotations

import signal
from pathlib import Path

import launching
import pytest

XGBOOST = """\
import os, sys
from xgboost.collective import CommunicatorContext, get_rank, get_world_size

with CommunicatorContext(
    dmlc_tracker_uri=os.environ["DMLC_TRACKER_URI"],
    dmlc_tracker_port=int(os.environ["DMLC_TRACKER_PORT"]),
    dmlc_task_id=os.environ["DMLC_TASK_ID"],
):
    print(get_rank(), "of", get_world_size(), flush=True)
    if "fail" in sys.argv and get_rank() == 1:
        os._exit(7)
"""


def test_all_roles_run_under_their_names(tmp_path: Path) -> None:
    done = launching.run("local", env={}, cwd=tmp_path)
    assert (done.status, done.all_work()) == (0, True), done
    assert "[worker 1] complains" in done.err.splitlines()


def test_what_the_processes_find(tmp_path: Path) -> None:
    folder = tmp_path / "said"
    folder.mkdir()
    env = {"PORT": "1", "DMLC_RANK": "7", "PS_VERBOSE": "0", "MY_OWN": "here", "DMLC_ROLE": "x"}
    options = ("--env", "MY_A:1,MY_B:2", "--env-worker", "MY_A=w", "--env", "PS_X:a b'c,d")
    options += ("--worker-cores", "3")
    done = launching.run("local", "--say", str(folder), env=env, cwd=tmp_path, options=options)
    assert done.status == 0, done
    said = launching.said(folder)
    assert set(said) == {"server-0", "worker-0", "worker-1"}
    server, worker = said["server-0"]["env"], said["worker-1"]["env"]
    assert {one["cwd"] for one in said.values()} == {str(tmp_path)}
    contract = {
        "DMLC_ROLE": "worker",
        "DMLC_TASK_ID": "1",
        "DMLC_WORKER_ID": "1",
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_ATTEMPT": "0",
        "DMLC_JOB_CLUSTER": "local",
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "OMP_NUM_THREADS": "3",
        "PS_VERBOSE": "0",
        "PS_X": "a b'c,d",
        "MY_OWN": "here",
        "MY_A": "w",
        "MY_B": "2",
    }
    assert worker | contract == worker
    assert server["MY_A"] == "1" and "OMP_NUM_THREADS" not in server
    assert not {"PORT", "DMLC_RANK"} & worker.keys()
    # A port of the scheduler for each process: that is how it is known.
    ports = {one["env"]["DMLC_PS_ROOT_PORT"] for one in said.values()}
    assert len(ports) == 3


def test_the_first_failed_process_ends_all(tmp_path: Path) -> None:
    done = launching.run("local", "--fail", "worker", "1", "7", env={}, cwd=tmp_path)
    assert done.status == 7
    assert "worker 1 failed with status 7: all others are ended" in done.err


def test_a_worker_killed_by_a_signal_is_told_so(tmp_path: Path) -> None:
    done = launching.run("local", "--fail", "worker", "0", "137", env={}, cwd=tmp_path)
    assert done.status == 137
    assert "worker 0 was ended by SIGKILL" in done.err


def test_an_end_before_registering_is_no_wait_for_ever(tmp_path: Path) -> None:
    done = launching.run("local", "--fail", "worker", "1", "0", "--before", env={}, cwd=tmp_path)
    assert done.status == 1
    assert "worker 1 ended, with success, before registering" in done.err


def test_a_server_that_leaves_its_workers_ends_the_launch(tmp_path: Path) -> None:
    words = ("--fail", "server", "0", "0")
    done = launching.run("local", *words, env={}, cwd=tmp_path)
    assert done.status == 1
    assert "server 0 has ended, with success, while worker 0 and worker 1 need it" in done.err


def test_who_never_registers_is_named(tmp_path: Path) -> None:
    words = ("--hang", "worker", "1", "--before")
    options = ("--start-timeout", "1 s")
    done = launching.run("local", *words, env={}, cwd=tmp_path, options=options)
    assert done.status == 6
    assert "worker 1 did not register within 1 s after the first process had" in done.err


def test_who_never_comes_to_a_barrier_is_named(tmp_path: Path) -> None:
    words = ("--hang", "worker", "1")
    options = ("--barrier-timeout", "1 s")
    done = launching.run("local", *words, env={}, cwd=tmp_path, options=options)
    assert done.status == 1
    assert "s for worker 1 (--barrier-timeout)" in done.err


def test_a_reader_who_goes_ends_the_launch(tmp_path: Path) -> None:
    process = launching.start("local", "--hang", "worker", "1", env={}, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    done = launching.end(process)
    assert done.status == 1
    assert "nobody reads the output any more" in done.err


def test_without_servers_there_is_a_tracker_for_xgboost(tmp_path: Path) -> None:
    program = tmp_path / "collective.py"
    program.write_text(XGBOOST)
    more = {"env": {}, "cwd": tmp_path, "program": program, "servers": 0}
    done = launching.run("local", **more)
    assert done.status == 0, done
    assert {"[worker 0] 0 of 2", "[worker 1] 1 of 2"} <= set(done.out.splitlines())
    done = launching.run("local", "fail", **more)
    assert done.status == 7
    assert "worker 1 failed with status 7: all others are ended" in done.err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_whatever_ends_the_launcher_ends_its_processes(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    done = launching.check_stopped("local", number, env={}, tmp_path=tmp_path)
    assert done.status == status, done
