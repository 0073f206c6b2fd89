"""The command line, environment and start of each daemon."""

from __future__ import annotations

import getpass
import os
import shlex
from pathlib import Path
from typing import NamedTuple

from yarnps.client.sandbox._archive import archive_options
from yarnps.client.sandbox._conf import MASTER_ROLE
from yarnps.client.sandbox._jars import Hadoop
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._processes import HOME_MARK, NAME_MARK, ProcessId, spawn
from yarnps.client.sandbox._state import (
    DATANODE,
    NAMENODE,
    NODEMANAGER,
    RESOURCEMANAGER,
    Layout,
    State,
)


class Kind(NamedTuple):
    """What the daemons of one kind have in common."""

    main: str
    heap_mb: int


KINDS = {
    NAMENODE: Kind("org.apache.hadoop.hdfs.server.namenode.NameNode", 192),
    DATANODE: Kind("org.apache.hadoop.hdfs.server.datanode.DataNode", 160),
    RESOURCEMANAGER: Kind("org.apache.hadoop.yarn.server.resourcemanager.ResourceManager", 320),
    NODEMANAGER: Kind("org.apache.hadoop.yarn.server.nodemanager.NodeManager", 256),
}

# Short-lived heaps and few cores: start-up counts more here than throughput.
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # no files in /tmp that a kill would leave
    "-Djava.net.preferIPv4Stack=true",
)
OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.net", "java.io", "java.nio")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def kind_of(daemon: str) -> str:
    """Return the kind of a daemon: "datanode" for "datanode-2"."""
    return daemon.partition("-")[0]


def index_of(daemon: str) -> int:
    """Return the node that a daemon is on, counted from 1; 0 for the masters."""
    return int(daemon.partition("-")[2] or 0)


def jvm_options(java: Java) -> list[str]:
    """Return the options that every Hadoop JVM of the sandbox needs."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    quiet = ["-Djava.security.manager=allow"] if java.major >= 18 else []
    return [*JVM_OPTIONS, *(opened if java.major >= 9 else []), *quiet]


def start_daemon(layout: Layout, state: State, java: Java, daemon: str) -> ProcessId:
    """Start a daemon in the background and return its process."""
    folder = layout.tmp(daemon)
    folder.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    environ = _environ(layout, state, java, daemon)
    command = daemon_command(layout, state, java, daemon)
    if kind_of(daemon) == NODEMANAGER:
        (layout.node(index_of(daemon)) / "local").mkdir(parents=True, exist_ok=True)
        if state.settings.hide:
            command = hiding(state.settings.hide, layout.home / "tmp" / "empty", command)
    return spawn(command, environ=environ, folder=folder, log=layout.log(daemon))


def daemon_command(
    layout: Layout, state: State, java: Java, daemon: str, *arguments: str
) -> list[str]:
    """Return a daemon's command line, which names its home and itself."""
    kind = KINDS[kind_of(daemon)]
    conf, hadoop = _conf(layout, daemon), Hadoop("", Path(state.hadoop))
    return [
        str(java.program),
        f"{HOME_MARK}{layout.home}",
        f"{NAME_MARK}{daemon}",
        f"-Xmx{kind.heap_mb}m",
        *jvm_options(java),
        *archive_options(layout, hadoop, java, daemon),
        f"-Djava.io.tmpdir={layout.tmp(daemon)}",
        f"-Dlog4j.configuration=file:{conf}/log4j.properties",
        "-cp",
        # An archive of classes fits only where the same jars stand first.
        ":".join((*hadoop.jar_files, str(hadoop.classes), str(conf))),
        kind.main,
        *arguments,
    ]


def hiding(paths: tuple[str, ...], empty: Path, command: list[str]) -> list[str]:
    """Return a command that runs `command` where `paths` are empty folders, for it alone."""
    empty.mkdir(parents=True, exist_ok=True)
    mounts = [f"mount --bind {shlex.quote(str(empty))} {shlex.quote(path)}" for path in paths]
    script = " && ".join([*mounts, 'exec "$@"'])
    return ["unshare", "--mount", "/bin/sh", "-c", script, "sh", *command]


def _environ(layout: Layout, state: State, java: Java, daemon: str) -> dict[str, str]:
    # Nothing of the starting shell: a node manager passes PATH on to containers, and an
    # activated virtual environment in it would hide what is missing on a real node.
    environ = {
        "PATH": f"{java.home / 'bin'}:{SYSTEM_PATH}",
        "HOME": str(Path.home()),
        "USER": getpass.getuser(),
        "LOGNAME": getpass.getuser(),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "JAVA_HOME": str(java.home),
        "HADOOP_CONF_DIR": str(_conf(layout, daemon)),
    }
    if "TZ" in os.environ:
        environ["TZ"] = os.environ["TZ"]
    if kind_of(daemon) == NODEMANAGER:
        environ |= state.settings.node_env
    return environ


def _conf(layout: Layout, daemon: str) -> Path:
    index = index_of(daemon)
    return layout.conf(f"node-{index}" if index else MASTER_ROLE)
