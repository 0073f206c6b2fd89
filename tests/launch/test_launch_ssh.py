"""`yarnps launch --launcher ssh`, over a real sshd."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import engines
import launching
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sshd")


@pytest.fixture(scope="module")
def env(folder: Path) -> Iterator[dict[str, str]]:
    with engines.sshd(folder) as environ:
        yield environ


@pytest.fixture
def options(folder: Path) -> tuple[str, ...]:
    return ("-H", str(folder / "hosts"))


def test_roles_on_hosts(env: dict[str, str], options: tuple[str, ...], tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.mkdir()
    secret = "it's a 'secret'\nof two lines"
    done = launching.run(
        "ssh",
        "--say",
        str(said),
        env={**env, "MY_SECRET": secret, "MY_OTHER": "stays here", "PORT": "1"},
        cwd=tmp_path,
        options=(*options, "--env", "MY_SECRET"),
    )
    assert (done.status, done.all_work()) == (0, True), done
    worker = launching.said(said)["worker-1"]
    assert worker["cwd"] == str(tmp_path)
    found = worker["env"]
    assert found["MY_SECRET"] == secret and "MY_OTHER" not in found and "PORT" not in found
    assert (found["DMLC_NODE_HOST"], found["DMLC_JOB_CLUSTER"]) == ("127.0.0.1", "ssh")


def test_many_roles_on_one_host(
    env: dict[str, str], options: tuple[str, ...], tmp_path: Path
) -> None:
    """sshd takes a few connections at a time, and here there are sixteen."""
    many = (*options, "-n", "12", "-s", "4")
    done = launching.run("ssh", env=env, cwd=tmp_path, options=many)
    assert done.status == 0, done
    assert sum(line.endswith("works") for line in done.out.splitlines()) == 16


def test_this_folder_is_copied(env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    here, there, said = (tmp_path / name for name in ("here", "there", "said"))
    for path in (here, there, said):
        path.mkdir()
    (here / "data.txt").write_text("data")
    options = ("-H", str(folder / "hosts"), "--sync-dst-dir", str(there))
    done = launching.run("ssh", "--say", str(said), env=env, cwd=here, options=options)
    assert done.status == 0, done
    assert (there / "data.txt").read_text() == "data"
    assert {one["cwd"] for one in launching.said(said).values()} == {str(there)}


def test_a_failure_there_ends_all(
    env: dict[str, str], options: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("--fail", "worker", "1", "7")
    done = launching.run("ssh", *words, env=env, cwd=tmp_path, options=options)
    assert done.status == 7
    assert "worker 1 failed with status 7: all others are ended" in done.err


def test_a_host_without_sshd(env: dict[str, str], tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1:{engines.free_port()}\n")
    done = launching.run("ssh", env=env, cwd=tmp_path, options=("-H", str(hosts)))
    assert done.status == 255
    assert "Connection refused" in done.err


def test_no_process_stays_on_the_host_of_a_launcher_that_is_killed(
    env: dict[str, str], options: tuple[str, ...], tmp_path: Path
) -> None:
    launching.check_stopped("ssh", signal.SIGKILL, env=env, tmp_path=tmp_path, options=options)
