"""`yarnps launch --launcher mpi`, with a real Open MPI."""

from __future__ import annotations

import signal
from pathlib import Path

import engines
import launching
import pytest

# Open MPI refuses root, and more processes than cores, unless it is told that this is meant.
ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


@pytest.fixture(scope="module", autouse=True)
def open_mpi() -> None:
    engines.need("mpirun")


def test_roles_where_mpirun_puts_them(tmp_path: Path) -> None:
    said, hosts = tmp_path / "said", tmp_path / "hosts"
    said.mkdir()
    hosts.write_text("localhost slots=8\n")
    options = ("-H", str(hosts), "--env", "MY_A:it's")
    done = launching.run("mpi", "--say", str(said), env=ENV, cwd=tmp_path, options=options)
    assert (done.status, done.all_work()) == (0, True), done
    worker = launching.said(said)["worker-1"]["env"]
    assert (worker["DMLC_JOB_CLUSTER"], worker["MY_A"]) == ("mpi", "it's")
    # Numbers of the interface that reaches the scheduler.
    assert worker["DMLC_NODE_HOST"] == worker["DMLC_PS_ROOT_URI"] == "127.0.0.1"


def test_a_failure_ends_all(tmp_path: Path) -> None:
    done = launching.run("mpi", "--fail", "worker", "1", "7", env=ENV, cwd=tmp_path)
    assert done.status == 7
    assert "worker 1 failed with status 7: all others are ended" in done.err


def test_no_room_is_mpiruns_word(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    env = {**ENV, "OMPI_MCA_rmaps_base_oversubscribe": "0"}
    done = launching.run("mpi", env=env, cwd=tmp_path, options=("-H", str(hosts)))
    assert done.status == 1
    assert "mpirun ended with status 1, before server 0 had" in done.err


def test_nothing_stays_of_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launching.check_stopped("mpi", signal.SIGKILL, env=ENV, tmp_path=tmp_path)
