"""What people get wrong on a cluster: each with its exit status, a message with what to do, and no
traceback."""

from __future__ import annotations

import os
import pwd
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hdfs_input import Flights, put_file
from yarn_run import LIMIT_S, Done, rm_apps, until, without, write_job, yarnps

from yarnps.client.sandbox import Sandbox

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

# A submission that is refused takes seconds; the limit is for a crowded machine.
REFUSED_LIMIT_S = 120.0
DATA = {"train": "small/train/*", "format": "libsvm"}
BLOCK: dict[str, Any] = {"app": "ftrl", "params": {"alpha": 0.1}, "data": DATA}


def job(folder: Path, changes: dict[str, Any] | None = None, **more: Any) -> Path:
    """A job file that is right but for `changes` in its block, and `more`."""
    return write_job(folder / "wrong", {**BLOCK, **(changes or {})}, **more)


def refused(
    hadoop: Sandbox, file: Path, code: int, *words: str, env: dict[str, str] | None = None
) -> Done:
    """Submit what must not be submitted."""
    before = len(rm_apps(hadoop))
    done = yarnps("submit", file, "--cluster", "yarn", env=env, limit=REFUSED_LIMIT_S)
    assert len(rm_apps(hadoop)) == before, "an application was queued"
    complains(done, code, *words)
    return done


def complains(done: Done, code: int, *words: str) -> None:
    """The exit status, the message's words, a remedy, and no traceback."""
    assert done.code == code, done.text
    lines = done.err.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("error: ")), None)
    assert start is not None, done.err
    assert len(lines) > start + 1, f"nothing about what to do: {done.err}"
    message = "\n".join(lines[start:])
    for word in words:
        assert word in message, message
    assert "Traceback" not in done.text, done.text


# ---------------------------------------------------------------------- found at submission


def test_more_memory_than_the_cluster_gives(hadoop: Sandbox, tmp_path: Path) -> None:
    worker = {"resources": {"memory": "64 GiB", "vcores": 1}}
    file = job(tmp_path, worker=worker)
    refused(hadoop, file, 2, "services.worker", "64", "6 GiB", "Ask for less")


def test_a_queue_that_does_not_exist(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    file = job(tmp_path, queue="nightly")
    refused(hadoop, file, 2, "there is no queue 'nightly'", "default")


def test_input_that_matches_nothing(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    file = job(tmp_path, {"data": {**DATA, "train": "small/trian/*"}})
    refused(hadoop, file, 2, "small/trian/*")


def test_a_broken_row(hadoop: Sandbox, tmp_path: Path) -> None:
    put_file("broken/part-0", b"1 5:1\n0 6:1 seven:1\n1 8:1\n")
    file = job(tmp_path, {"data": {**DATA, "train": "broken/*"}})
    refused(hadoop, file, 2, "broken/part-0:2", "seven", "max_bad_records")


def test_a_format_that_does_not_fit(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    csv = {"format": "csv", "label": "late", "train": "small/train/*"}
    file = job(tmp_path, {"data": csv})
    refused(hadoop, file, 2, "no column 'late' (data.label)", "small/train/part-0.svm", "It has")


def test_a_model_path_that_exists(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    put_file("taken/model/manifest.json", b"{}")
    file = job(tmp_path, {"model": {"path": "taken/model"}})
    refused(hadoop, file, 2, "the model's folder exists", "taken/model", "model.overwrite")


def test_a_file_that_may_not_be_read(hadoop: Sandbox, tmp_path: Path) -> None:
    """Somebody else's, as another user: whoever started HDFS may read everything."""
    put_file("/data/secret/part-0", b"1 5:1\n")
    owner = pwd.getpwuid(os.getuid()).pw_name
    webhdfs(hadoop, "/data/secret/part-0", "SETPERMISSION", owner, permission="600")
    webhdfs(hadoop, "/user/ada", "MKDIRS", owner)
    webhdfs(hadoop, "/user/ada", "SETOWNER", owner, owner="ada")
    file = job(tmp_path, {"data": {**DATA, "train": "/data/secret/*"}})
    env = {**os.environ, "HADOOP_USER_NAME": "ada"}
    refused(hadoop, file, 2, "/data/secret/part-0", "ermission", env=env)


def webhdfs(hadoop: Sandbox, path: str, op: str, user: str, **more: str) -> None:
    query = "&".join(f"{k}={v}" for k, v in {"op": op, "user.name": user, **more}.items())
    address = f"{hadoop.name_node_page}/webhdfs/v1{path}?{query}"
    request = urllib.request.Request(address, method="PUT")
    urllib.request.urlopen(request, timeout=30).close()


# ---------------------------------------------------------------------- the cluster


def test_no_yarn(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    """Neither a configuration nor a command; then a configuration only."""
    nothing = without(os.environ, "HADOOP_CONF_DIR", "HADOOP_HOME", "JAVA_HOME")
    file = job(tmp_path)
    done = yarnps("submit", file, env=nothing)
    complains(
        done, 3, "neither HADOOP_CONF_DIR nor a `yarn`", "--cluster sandbox", "--cluster local"
    )
    half = {**nothing, "HADOOP_CONF_DIR": str(hadoop.conf_dir)}
    refused(hadoop, file, 3, "no `yarn` command on PATH", "HADOOP_HOME", env=half)


@contextmanager
def down(hadoop: Sandbox, daemon: str) -> Iterator[None]:
    """The sandbox without one of its daemons; whole again afterwards."""
    hadoop.kill(daemon)
    try:
        yield
    finally:
        hadoop.start_daemon(daemon)
        nodes = len(hadoop.nodes)
        until(
            lambda: [n.state for n in hadoop.yarn_nodes()].count("RUNNING") == nodes,
            "all nodes are back",
        )


def test_the_resource_manager_is_down(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    file = job(tmp_path)
    with down(hadoop, "resourcemanager"):
        done = yarnps("submit", file, "--cluster", "yarn", limit=REFUSED_LIMIT_S)
        complains(done, 3, "the resource manager cannot be reached", hadoop.rm_page, "doctor")
        done = yarnps("status", "application_1700000000000_0001", limit=REFUSED_LIMIT_S)
        complains(done, 3, "the resource manager cannot be reached")


def test_hdfs_is_down(hadoop: Sandbox, small: Flights, tmp_path: Path) -> None:
    file = job(tmp_path)
    with down(hadoop, "namenode"):
        done = yarnps("submit", file, "--cluster", "yarn", limit=REFUSED_LIMIT_S)
        complains(done, 3, "HDFS cannot be reached", hadoop.fs_default, "name node runs")
