"""Which cluster a command speaks to, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnps._errors import ClusterError

if TYPE_CHECKING:
    from yarnps.client.sandbox import Sandbox

YARN, SANDBOX, LOCAL = "yarn", "sandbox", "local"

CLUSTER = click.option(
    "--cluster",
    type=click.Choice([YARN, SANDBOX, LOCAL]),
    default=None,
    help="Where: a Hadoop cluster, a Hadoop on this machine, or processes on this machine. "
    "Default: yarn, where HADOOP_CONF_DIR or a `yarn` command is found.",
)

NO_CLUSTER = ClusterError(
    "no Hadoop cluster found: neither HADOOP_CONF_DIR nor a `yarn` command is there",
    "Set HADOOP_CONF_DIR to the folder with the cluster's yarn-site.xml and put `yarn` on PATH,\n"
    "or use --cluster sandbox (a real Hadoop on this machine; needs Java)\n"
    "or --cluster local (plain processes on this machine).",
)

# Where distributions keep the client configuration.
USUAL_CONF = ("/etc/hadoop/conf", "/etc/hadoop")
YARN_LIMIT_S = 30.0


@dataclass(frozen=True)
class Cluster:
    """The chosen cluster.

    Attributes
    ----------
    kind
        "yarn", "sandbox" or "local".
    why
        The reason for the choice, for the first line that `submit` prints.
    """

    kind: str
    why: str

    @property
    def local(self) -> bool:
        """Whether jobs are plain processes of this machine."""
        return self.kind == LOCAL

    def sentence(self) -> str:
        """The line that tells the user."""
        return f"cluster: {self.kind} ({self.why})"


def decide(asked: str | None, environ: MutableMapping[str, str]) -> Cluster:
    """Choose by what was asked for and what is there; changes nothing."""
    if asked is not None:
        return Cluster(asked, f"--cluster {asked}")
    if environ.get("HADOOP_CONF_DIR"):
        return Cluster(YARN, f"HADOOP_CONF_DIR is {environ['HADOOP_CONF_DIR']}")
    command = find_yarn(environ)
    if command:
        return Cluster(YARN, f"there is a `yarn` command: {command}")
    raise NO_CLUSTER


def choose(
    asked: str | None, *, report: Callable[[str], None], start: bool = False, nodes: int = 2
) -> Cluster:
    """Choose a cluster and set up this process's environment for it.

    Parameters
    ----------
    asked
        The value of ``--cluster``.
    report
        Called with lines about what is going on.
    start
        Start a sandbox when one is asked for and none runs.
    nodes
        How many nodes a started sandbox has.

    Raises
    ------
    ClusterError
        There is no such cluster here.
    """
    cluster = decide(asked, os.environ)
    if cluster.kind == SANDBOX:
        box, why = _sandbox(start, nodes, report)
        os.environ.update(box.environ())
        return Cluster(SANDBOX, why)
    if cluster.kind == YARN:
        _complete_environment(os.environ)
    return cluster


def choose_for_job(application: str, asked: str | None) -> Cluster:
    """The cluster that a job with this id belongs to."""
    if application.startswith("local_"):
        return Cluster(LOCAL, "the id of the job")
    return choose_for_reading(asked)


def choose_for_reading(asked: str | None) -> Cluster:
    """Like `choose`, for commands that only look: a running sandbox is found by itself."""
    if asked is None and not os.environ.get("HADOOP_CONF_DIR") and not find_yarn(os.environ):
        from yarnps.client.sandbox import find_running

        box = find_running()
        if box is not None:
            os.environ.update(box.environ())
            return Cluster(SANDBOX, "it runs on this machine")
    return choose(asked, report=lambda line: None)


def find_yarn(environ: MutableMapping[str, str]) -> str | None:
    """Path of the `yarn` command, on PATH or in HADOOP_HOME."""
    found = shutil.which("yarn", path=environ.get("PATH"))
    for variable in ("HADOOP_YARN_HOME", "HADOOP_HOME"):
        if found is None and environ.get(variable):
            found = shutil.which("yarn", path=str(Path(environ[variable]) / "bin"))
    return found


def _sandbox(start: bool, nodes: int, report: Callable[[str], None]) -> tuple[Sandbox, str]:
    from yarnps.client import sandbox

    box = sandbox.find_running()
    if box is not None:
        return box, f"--cluster sandbox; it runs in {box.home}"
    if not start:
        raise ClusterError("no sandbox runs on this machine", "Start one: yarnps sandbox start")
    report(f"no sandbox runs yet: starting one with {nodes} nodes (about 20 s, once)")
    box = sandbox.start(nodes=nodes, report=report)
    return box, f"--cluster sandbox; started in {box.home}"


def _complete_environment(environ: MutableMapping[str, str]) -> None:
    """Put `yarn` on PATH and set HADOOP_CONF_DIR where they can be found by other means."""
    command = find_yarn(environ)
    if command and shutil.which("yarn", path=environ.get("PATH")) is None:
        environ["PATH"] = f"{Path(command).parent}{os.pathsep}{environ.get('PATH', '')}"
    folder = environ.get("HADOOP_CONF_DIR")
    if not folder:
        folder = _find_conf(command, environ)
        if folder is None:
            raise ClusterError(
                f"the cluster's configuration was not found, though there is {command or 'no yarn'}"
                if command
                else NO_CLUSTER.what,
                "Set HADOOP_CONF_DIR to the folder with the cluster's yarn-site.xml."
                if command
                else NO_CLUSTER.remedy,
            )
        environ["HADOOP_CONF_DIR"] = folder
    if not (Path(folder) / "yarn-site.xml").is_file():
        raise ClusterError(
            f"no yarn-site.xml in HADOOP_CONF_DIR: {folder}",
            "Set HADOOP_CONF_DIR to the folder with the cluster's core-site.xml and yarn-site.xml.",
        )


def need_yarn(environ: MutableMapping[str, str]) -> str:
    """The `yarn` command; submitting needs its class path."""
    command = find_yarn(environ)
    if command is None:
        raise ClusterError(
            "there is no `yarn` command on PATH, and submitting needs its class path",
            "Put Hadoop's bin folder on PATH or set HADOOP_HOME,\n"
            "or use --cluster sandbox or --cluster local.",
        )
    return command


def _find_conf(command: str | None, environ: MutableMapping[str, str]) -> str | None:
    candidates = [
        *([f"{environ['HADOOP_HOME']}/etc/hadoop"] if environ.get("HADOOP_HOME") else []),
        *([str(Path(command).resolve().parent.parent / "etc/hadoop")] if command else []),
        *USUAL_CONF,
    ]
    for folder in candidates:
        if (Path(folder) / "yarn-site.xml").is_file():
            return folder
    if command is None:
        return None
    try:
        # Distributions put the configuration first on the class path.
        text = subprocess.run(
            [command, "classpath"], capture_output=True, text=True, timeout=YARN_LIMIT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    for entry in text.strip().split(":"):
        if (Path(entry) / "yarn-site.xml").is_file():
            return entry
    return None
