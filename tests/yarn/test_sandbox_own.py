"""Sandboxes of one node, beside the shared one: hidden folders, leftovers, failed starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import skein as untyped_skein

from yarnps.client import sandbox as sandboxes
from yarnps.client.main import run
from yarnps.client.sandbox import Sandbox, SandboxError, SandboxInputError
from yarnps.client.sandbox._java import find_java
from yarnps.client.sandbox._processes import containers_of, daemons_of, end

skein: Any = untyped_skein

# skein compares versions with distutils.
pytestmark = pytest.mark.filterwarnings("ignore:distutils Version classes")

LIMIT_S = 120


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="yarnps-own-"))
    try:
        yield folder / "sandbox"
    finally:
        sandboxes.stop(folder / "sandbox")
        shutil.rmtree(folder)


def nothing_left(home: Path) -> bool:
    return not home.exists() and not daemons_of(home) and not containers_of(home / "nodes")


def in_container(sandbox: Sandbox, script: str) -> str:
    """Run a script in a container and return its output."""
    specification = {
        "name": "look",
        "max_attempts": 1,
        "master": {"resources": {"memory": "512 MiB", "vcores": 1}, "script": script},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sandbox.environ().items():
            patch.setenv(name, value)
        with skein.Client(security=skein.Security.new_credentials()) as client:
            identity = client.submit(specification)
            done = subprocess.run(
                [sys.executable, "-c", FOLLOW, identity],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout


# Waits for the aggregated log, which appears some time after the application's end.
FOLLOW = """
import subprocess, sys
for _ in range(60):
    command = "yarn logs -log_files application.driver.log -applicationId".split()
    done = subprocess.run([*command, sys.argv[1]], capture_output=True, text=True)
    if "END" in done.stdout:
        print(done.stdout)
        sys.exit(0)
sys.exit(done.stdout + done.stderr)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide folders")
def test_hidden_folders_and_home_of_a_second_sandbox(
    sandbox: Sandbox, home: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "environment"
    secret.mkdir()
    (secret / "python").write_text("")
    lines: list[str] = []
    own = sandboxes.start(
        home,
        nodes=1,
        node_memory_mb=1024,
        am_expiry_s=60,
        hide=[secret],
        node_env={"HOME": "/nonexistent", "COLOUR": "green"},
        report=lines.append,
    )
    assert any(re.match(r"nodemanager-1 is ready \(\d+\.\d s\)", line) for line in lines)
    # Two clusters side by side that do not mix.
    assert own.fs_default != sandbox.fs_default
    assert [(n.address, n.memory_mb) for n in own.yarn_nodes()] == [("127.0.0.11", 1024)]
    assert len([n for n in sandbox.yarn_nodes() if n.state == "RUNNING"]) == 2

    script = f"ls -A {secret} | wc -l; echo HOME=$HOME COLOUR=$COLOUR; echo END"
    assert "\n0\nHOME=/nonexistent COLOUR=green\n" in in_container(own, script)
    assert (secret / "python").exists()

    assert sandboxes.stop(home)
    assert nothing_left(home)
    assert len([n for n in sandbox.yarn_nodes() if n.state == "RUNNING"]) == 2


def test_what_cannot_be_hidden(home: Path, tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none", "does not exist"),
        (home.parent, "node managers need what is in it"),
        (find_java().home, "node managers need what is in it"),
    ):
        with pytest.raises(SandboxInputError, match=message):
            sandboxes.start(home, hide=[path])
    assert not home.exists()


def test_killed_daemons_are_leftovers_that_a_start_removes(home: Path) -> None:
    sandboxes.start(home, nodes=1)
    marker = home / "hdfs" / "of-the-first-run"
    marker.write_text("")
    # As after a reboot: the record is there, the processes are not.
    end(daemons_of(home).values())
    assert sandboxes.find_running(home) is None
    assert not sandboxes.status(home).running

    lines: list[str] = []
    sandboxes.start(home, nodes=1, report=lines.append)
    assert "removing what an earlier sandbox left behind" in lines
    assert not marker.exists()
    assert sandboxes.find_running(home) is not None
    assert run(["sandbox", "stop", "--home", str(home)]) == 0
    assert nothing_left(home)


def java_that(folder: Path, script: str) -> Path:
    """Return a Java home whose `java` runs `script` first, then the real one."""
    real = find_java()
    (folder / "bin").mkdir(parents=True)
    shutil.copy(real.home / "release", folder / "release")
    program = folder / "bin" / "java"
    program.write_text(f'#!/bin/sh\n{script}\nexec {real.program} "$@"\n')
    program.chmod(0o755)
    return folder


def test_a_start_that_fails_names_the_daemon_and_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = 'case "$*" in *ResourceManager*) echo "the disk is on fire"; exit 1 ;; esac'
    monkeypatch.setenv("JAVA_HOME", str(java_that(tmp_path / "java", script)))
    assert run(["sandbox", "start", "--home", str(home), "--nodes", "1"]) == 3
    printed = capsys.readouterr().err
    assert (
        "ended: resourcemanager\nThe last lines of resourcemanager's log:\nthe disk is on fire"
        in printed
    )
    assert "Traceback" not in printed
    assert nothing_left(home)


def test_a_port_that_is_taken_meanwhile_is_given_up(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = tmp_path / "once"
    script = f"""
case "$*" in
  *NameNode*) mkdir {once} && echo "java.net.BindException: Address already in use" && exit 1 ;;
esac"""
    monkeypatch.setenv("JAVA_HOME", str(java_that(tmp_path / "java", script)))
    lines: list[str] = []
    own = sandboxes.start(home, nodes=1, report=lines.append)
    assert "another program took one of the ports: starting again with others" in lines
    assert [n.state for n in own.yarn_nodes()] == ["RUNNING"]


def test_a_daemon_that_is_never_ready(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "never")
    script = f'case "$*" in *NameNode*) echo thinking; read line < {tmp_path}/never ;; esac'
    monkeypatch.setenv("JAVA_HOME", str(java_that(tmp_path / "java", script)))
    with pytest.raises(SandboxError, match=r"not ready after 1 s: .*namenode") as raised:
        sandboxes.start(home, nodes=1, limit_s=1.0)
    assert "namenode's log:\nthinking" in str(raised.value)
    assert nothing_left(home)
