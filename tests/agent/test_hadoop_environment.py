"""What programs of libhdfs find, from made nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnps.agent._hadoop import hadoop_environment

SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>yarn.nodemanager.aux-services</name><value>x</value></property>
  <property><name>yarn.application.classpath</name><value>
    $HADOOP_CONF_DIR, {{LAYOUT}}/*, ${NOT_SET}/more/*
  </value></property>
</configuration>
"""


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """A node with a Hadoop of the usual layout, and its containers' environment."""
    for name in ("common/hadoop-common.jar", "common/lib/guava.jar", "hdfs/hadoop-hdfs.jar"):
        jar = tmp_path / "hadoop" / "share" / "hadoop" / name
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()
    for folder in ("conf", "hadoop/lib/native", "java/lib/server"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    home = str(tmp_path / "hadoop")
    return {
        "HADOOP_CONF_DIR": str(tmp_path / "conf"),
        "HADOOP_COMMON_HOME": home,
        "HADOOP_HDFS_HOME": home,
        "JAVA_HOME": str(tmp_path / "java"),
    }


def test_the_usual_layout(node: dict[str, str], tmp_path: Path) -> None:
    found = hadoop_environment({**node, "CLASSPATH": "mine.jar", "LD_LIBRARY_PATH": "/mine"})
    jars = f"{tmp_path}/hadoop/share/hadoop"
    assert found["CLASSPATH"].split(":") == [
        "mine.jar",
        f"{tmp_path}/conf",
        f"{jars}/common/hadoop-common.jar",
        f"{jars}/common/lib/guava.jar",
        f"{jars}/hdfs/hadoop-hdfs.jar",
    ]
    assert found["LD_LIBRARY_PATH"].split(":") == [
        ".",
        f"{tmp_path}/hadoop/lib/native",
        f"{tmp_path}/hadoop/lib",
        f"{tmp_path}/java/lib/server",
        "/mine",
    ]
    assert found["LIBHDFS_OPTS"] == "-Xmx128m"


def test_the_node_s_own_class_path(node: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "conf" / "yarn-site.xml").write_text(SITE)
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "all.jar").touch()
    found = hadoop_environment({**node, "LAYOUT": str(tmp_path / "flat")})
    assert found["CLASSPATH"].split(":") == [f"{tmp_path}/conf", f"{tmp_path}/flat/all.jar"]


@pytest.mark.parametrize(
    ("name", "value"), [("LIBHDFS_OPTS", "-Xmx1g"), ("DMLC_HDFS_OPTS", "-Xmx2g")]
)
def test_options_that_the_job_gives(node: dict[str, str], name: str, value: str) -> None:
    assert hadoop_environment({**node, name: value})["LIBHDFS_OPTS"] == value


def test_a_node_without_hadoop() -> None:
    assert hadoop_environment({"PATH": "/bin"}) == {}
