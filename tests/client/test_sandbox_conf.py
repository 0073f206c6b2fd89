"""Hadoop's configuration, and the scripts on PATH."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from yarnps.client.sandbox import Sandbox
from yarnps.client.sandbox._conf import write_conf
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._scripts import write_scripts
from yarnps.client.sandbox._state import Layout, NodePorts, Ports, Settings, State

JAVA = Java(Path("/nowhere"), 17, "17.0.1")


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "hadoop" / "lib").mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (tmp_path / "hadoop" / "lib" / name).write_text("")
    return State(
        settings=Settings(nodes=2, node_memory_mb=2048, node_env={"HOME": "/nonexistent"}),
        ports=Ports(
            1, 2, 3, 4, 5, 6, 7, nodes=(NodePorts(8, 9, 10, 11, 12, 13), NodePorts(*range(14, 20)))
        ),
        hadoop=str(tmp_path / "hadoop"),
        java_home="/nowhere",
    )


@pytest.fixture
def layout(tmp_path: Path, state: State) -> Layout:
    found = Layout(tmp_path / "home")
    write_conf(found, state)
    write_scripts(found, state, JAVA)
    return found


def properties(path: Path) -> dict[str, str]:
    root = ElementTree.parse(path).getroot()
    return {row.findtext("name", ""): row.findtext("value", "") for row in root}


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("client/core-site.xml", "fs.defaultFS", "hdfs://127.0.0.1:1"),
        ("client/hdfs-site.xml", "dfs.client.use.datanode.hostname", "true"),
        ("client/yarn-site.xml", "yarn.resourcemanager.address", "127.0.0.1:3"),
        ("client/yarn-site.xml", "yarn.resourcemanager.connect.max-wait.ms", "10000"),
        ("master/yarn-site.xml", "yarn.nm.liveness-monitor.expiry-interval-ms", "20000"),
        ("master/yarn-site.xml", "yarn.am.liveness-monitor.expiry-interval-ms", "20000"),
        ("master/yarn-site.xml", "yarn.scheduler.maximum-allocation-mb", "2048"),
        ("node-1/hdfs-site.xml", "dfs.datanode.address", "127.0.0.11:8"),
        ("node-2/yarn-site.xml", "yarn.nodemanager.address", "127.0.0.12:17"),
        ("node-2/yarn-site.xml", "yarn.nodemanager.pmem-check-enabled", "true"),
        ("node-2/yarn-site.xml", "yarn.nodemanager.vmem-check-enabled", "false"),
        ("node-2/yarn-site.xml", "yarn.nodemanager.user-home-dir", "/nonexistent"),
        (
            "master/capacity-scheduler.xml",
            "yarn.scheduler.capacity.maximum-am-resource-percent",
            "0.9",
        ),
    ],
)
def test_values(layout: Layout, file: str, name: str, value: str) -> None:
    assert properties(layout.home / "conf" / file)[name] == value


def test_more_node_environment_reaches_containers(layout: Layout) -> None:
    passed = properties(layout.conf("node-1") / "yarn-site.xml")["yarn.nodemanager.env-whitelist"]
    assert {"JAVA_HOME", "HADOOP_CONF_DIR", "HOME"} <= set(passed.split(","))


def run(layout: Layout, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(layout.scripts / name), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )


def test_classpath_is_expanded_for_skein(layout: Layout, state: State) -> None:
    done = run(layout, "yarn", "classpath", "--glob")
    assert done.stdout.strip().split(":") == [
        str(layout.conf("client")),
        f"{state.hadoop}/classes",
        f"{state.hadoop}/lib/a.jar",
        f"{state.hadoop}/lib/b.jar",
    ]


def test_an_unknown_verb_names_the_known_ones(layout: Layout) -> None:
    done = run(layout, "hdfs", "namenode")
    assert done.returncode == 2
    assert "classpath|version|dfs|getconf" in done.stderr


def test_shell_exports(layout: Layout, state: State) -> None:
    sandbox = Sandbox(layout.home, state)
    done = subprocess.run(
        ["/bin/sh", "-c", sandbox.shell_exports() + "\ncommand -v yarn; echo $HADOOP_CONF_DIR"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.split() == [str(layout.scripts / "yarn"), str(layout.conf("client"))]


def test_environ_twice_names_the_scripts_once(
    layout: Layout, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(layout.home, state)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PATH", sandbox.environ()["PATH"])
    assert sandbox.environ()["PATH"] == f"{layout.scripts}:/usr/bin"
