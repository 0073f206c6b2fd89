"""Processes are ended only when they are ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from yarnps.client.sandbox._core import end_with_children
from yarnps.client.sandbox._processes import (
    HOME_MARK,
    NAME_MARK,
    ProcessId,
    alive,
    containers_of,
    daemons_of,
    end,
    identify,
    in_sessions_of,
    marked,
    spawn,
)
from yarnps.client.sandbox._start import stop
from yarnps.client.sandbox._state import Layout, Settings, State, choose_ports, write_state

WAITER = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def start_waiter(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> ProcessId:
    # It waits for an end of its parent pipe that never comes within a test.
    code = "import signal; signal.pause()"
    return spawn(
        [sys.executable, "-c", code, *arguments],
        environ={**os.environ, **(environ or {})},
        folder=folder,
        log=folder / "log",
    )


def test_a_pid_with_another_start_time_is_not_ours(stranger: subprocess.Popen[str]) -> None:
    mine = identify(stranger.pid)
    assert mine is not None
    recorded = ProcessId(mine.pid, mine.started - 1)
    assert not alive(recorded)
    assert end([recorded]) == []
    assert stranger.poll() is None


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    child.wait(timeout=10)


def test_daemons_are_found_by_their_whole_home(tmp_path: Path) -> None:
    mine, longer = tmp_path / "a", tmp_path / "ab"
    processes = {
        name: start_waiter(tmp_path, f"{HOME_MARK}{home}", f"{NAME_MARK}{name}")
        for name, home in (("namenode", mine), ("datanode-1", mine), ("datanode-2", longer))
    }
    try:
        expected = {name: processes[name] for name in ("namenode", "datanode-1")}
        # A process that has just been executed has no command line for a moment.
        until(lambda: daemons_of(mine) == expected, "both daemons", 30)
        assert end(daemons_of(mine).values()) == []
        assert daemons_of(mine) == {}
        assert alive(processes["datanode-2"])
    finally:
        end(processes.values())


def test_a_child_with_its_parents_command_line_hides_nothing(tmp_path: Path) -> None:
    # As a Java program's child is, between its birth and its own command.
    code = "import os, signal; print(os.fork(), flush=True); signal.pause()"
    marks = (f"{HOME_MARK}{tmp_path}", f"{NAME_MARK}namenode")
    log = tmp_path / "log"
    daemon = spawn(
        [sys.executable, "-c", code, *marks], environ=os.environ, folder=tmp_path, log=log
    )
    try:
        until(lambda: len(log.read_text().splitlines()) == 2, "two starts", 30)
        assert daemons_of(tmp_path) == {"namenode": daemon}
        assert len(marked(tmp_path)) == len(in_sessions_of([daemon])) == 2
        end_with_children([daemon], list)
        assert marked(tmp_path) == in_sessions_of([daemon]) == []
    finally:
        end(marked(tmp_path))


def test_a_recorded_daemon_is_stopped_though_its_command_line_does_not_name_it(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    daemon = start_waiter(tmp_path)
    try:
        ports = choose_ports(nodes=1)
        write_state(Layout(home), State(Settings(1), ports, "", "", daemons={"namenode": daemon}))
        assert stop(home)
        assert not alive(daemon)
        assert not home.exists()
    finally:
        end([daemon])


def test_containers_are_found_by_their_local_folders(tmp_path: Path) -> None:
    inside = start_waiter(tmp_path, environ={"LOCAL_DIRS": f"{tmp_path}/nodes/1/local/app"})
    outside = start_waiter(tmp_path, environ={"LOCAL_DIRS": f"{tmp_path}/nodes/12/local/app"})
    try:
        for number, process in ((1, inside), (12, outside)):
            folder = tmp_path / "nodes" / str(number)
            until(lambda of=folder, it=process: containers_of(of) == [it], "the container", 30)
    finally:
        end([inside, outside])


def test_a_daemon_has_a_session_of_its_own_and_a_log(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(os.getsid(0), os.getcwd(), flush=True); sys.stderr.write('bad\\n')"
    )
    log = tmp_path / "log"
    process = spawn([sys.executable, "-c", code], environ=os.environ, folder=tmp_path, log=log)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert log.read_text() == f"{process.pid} {tmp_path}\nbad\n"
    assert not alive(process)
    end([])
