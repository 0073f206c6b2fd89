"""The archive of parsed classes is made once, whole, and used where it fits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from yarnps.client.sandbox._archive import archive_options, archive_path, make_archive
from yarnps.client.sandbox._jars import Hadoop
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._processes import ProcessId
from yarnps.client.sandbox._state import Layout, NodePorts, Ports, Settings, State

# Stands for the dump of a real one: keeps the list of classes and its arguments.
JAVA = '#!/bin/sh\ncat classes > archive\necho "$@" >> archive\nexit "${STATUS:-0}"\n'


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path / "home")
    (found.home / "tmp").mkdir(parents=True)
    found.logs.mkdir()
    (found.home / "tmp" / "namenode.classes").write_text("a\nc\n")
    (found.home / "tmp" / "resourcemanager.classes").write_text("c\nb\n")
    return found


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "hadoop" / "lib").mkdir(parents=True)
    (tmp_path / "hadoop" / "lib" / "a.jar").write_text("")
    return State(
        settings=Settings(nodes=1),
        ports=Ports(1, 2, 3, 4, 5, 6, 7, nodes=(NodePorts(8, 9, 10, 11, 12, 13),)),
        hadoop=str(tmp_path / "hadoop"),
        java_home=str(tmp_path / "java"),
        daemons={"namenode": ProcessId(1, 1), "resourcemanager": ProcessId(2, 2)},
    )


def java(tmp_path: Path, text: str = JAVA, major: int = 17) -> Java:
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(text)
    program.chmod(0o755)
    return Java(tmp_path / "java", major, f"{major}.0.1")


def test_recorded_then_made_then_used(tmp_path: Path, layout: Layout, state: State) -> None:
    hadoop, found = Hadoop("3.4.2", Path(state.hadoop)), java(tmp_path)
    options = archive_options(layout, hadoop, found, "namenode")
    assert options == [f"-XX:DumpLoadedClassList={layout.home}/tmp/namenode.classes"]

    process = make_archive(layout, state, found)
    assert process is not None
    assert os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]) == 0
    archive = archive_path(hadoop, found)
    classes, arguments = archive.read_text().split("-Dyarnps", 1)
    assert classes == "a\nc\nb\n"
    assert f"-cp {hadoop.jars}/a.jar" in arguments

    assert f"-XX:SharedArchiveFile={archive}" in archive_options(layout, hadoop, found, "namenode")
    assert make_archive(layout, state, found) is None


def test_an_archive_that_failed_is_not_kept(tmp_path: Path, layout: Layout, state: State) -> None:
    found = java(tmp_path, JAVA.replace("${STATUS:-0}", "1"))
    process = make_archive(layout, state, found)
    assert process is not None
    assert os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]) == 1
    assert not archive_path(Hadoop("3.4.2", Path(state.hadoop)), found).exists()


def test_an_old_java_does_without(tmp_path: Path, layout: Layout, state: State) -> None:
    found = java(tmp_path, major=11)
    assert archive_options(layout, Hadoop("3.4.2", Path(state.hadoop)), found, "namenode") == []
    assert make_archive(layout, state, found) is None
