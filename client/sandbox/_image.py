"""The name node's first image: formatted once, copied for every run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from yarnps.client.sandbox._core import current_user, tail
from yarnps.client.sandbox._daemons import daemon_command
from yarnps.client.sandbox._errors import SandboxError
from yarnps.client.sandbox._jars import Report
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._state import NAMENODE, Layout, State

FORMAT_LIMIT_S = 120.0


def place_image(layout: Layout, state: State, java: Java, report: Report) -> None:
    """Give the name node an empty file system.

    Formatting takes a Java process of its own, about a fifth of the time of a start. Its result
    is kept beside the jars and copied, with a new cluster id, so that no data node can join the
    name node of another sandbox.
    """
    name = layout.hdfs / "name"
    # The image holds the name of its user, who owns the root folder.
    kept = Path(state.hadoop) / f"empty-hdfs-{current_user()}"
    if not kept.is_dir():
        report("formatting an empty HDFS (once)")
        _format(layout, state, java)
        if os.access(kept.parent, os.W_OK):  # a cache shared by users may be read-only
            _keep(name, kept)
    else:
        shutil.copytree(kept, name)
    version = name / "current" / "VERSION"
    text = version.read_text()
    version.write_text(
        re.sub(r"^clusterID=.*$", f"clusterID=CID-{uuid.uuid4()}", text, flags=re.MULTILINE)
    )


def _format(layout: Layout, state: State, java: Java) -> None:
    log = layout.log("format")
    layout.logs.mkdir(parents=True, exist_ok=True)
    layout.tmp(NAMENODE).mkdir(parents=True, exist_ok=True)
    command = daemon_command(layout, state, java, NAMENODE, "-format", "-nonInteractive")
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=FORMAT_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(
                f"formatting HDFS took more than {FORMAT_LIMIT_S:.0f} s:\n{tail(log, 15)}"
            ) from None
    if done.returncode != 0:
        raise SandboxError(f"HDFS could not be formatted:\n{tail(log, 15)}")


def _keep(image: Path, kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{kept.name}-", dir=kept.parent) as work:
        shutil.copytree(image, Path(work) / "image")
        try:
            (Path(work) / "image").rename(kept)
        except OSError:  # another start was first; one is as good as the other
            if not kept.is_dir():
                raise
