"""An archive of parsed classes, so that daemons start with half the processor time.

Java can map the classes of an earlier run instead of reading and checking them again (class data
sharing). The first start records what its daemons load; a background process makes the archive
beside the jars; later starts use it. Java itself ignores an archive that does not fit its version
or the jars.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from yarnps.client.sandbox._jars import Hadoop
from yarnps.client.sandbox._java import Java
from yarnps.client.sandbox._processes import HOME_MARK, NAME_MARK, ProcessId, spawn
from yarnps.client.sandbox._state import Layout, State

OLDEST_JAVA = 17  # older ones can do less, and were not tried
ARCHIVER = "archiver"  # named as daemons are, so that `stop` finds it


def archive_path(hadoop: Hadoop, java: Java) -> Path:
    """Return where the archive for this Hadoop and this Java is kept."""
    return hadoop.folder / f"classes-java-{java.version}.jsa"


def archive_options(layout: Layout, hadoop: Hadoop, java: Java, daemon: str) -> list[str]:
    """Return the options that use the archive, or that record classes where there is none yet."""
    if java.major < OLDEST_JAVA:
        return []
    archive = archive_path(hadoop, java)
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]
    return [f"-XX:DumpLoadedClassList={_recorded(layout, daemon)}"]


def make_archive(layout: Layout, state: State, java: Java) -> ProcessId | None:
    """Make the archive in the background, where there is none, from what was recorded."""
    hadoop = Hadoop("", Path(state.hadoop))
    archive = archive_path(hadoop, java)
    if java.major < OLDEST_JAVA or archive.exists():
        return None
    work = layout.tmp(ARCHIVER)
    work.mkdir(parents=True, exist_ok=True)
    lists = [str(_recorded(layout, daemon)) for daemon in state.daemons]
    fresh = hadoop.folder / f".{archive.name}-{os.getpid()}"
    marks = [f"{HOME_MARK}{layout.home}", f"{NAME_MARK}{ARCHIVER}"]
    dump = [
        str(java.program),
        marks[0],
        f"{marks[1]}-java",
        "-Xshare:dump",
        "-XX:+UseSerialGC",  # as the daemons do
        "-XX:SharedClassListFile=classes",
        "-XX:SharedArchiveFile=archive",
        "-cp",
        ":".join(hadoop.jar_files),
    ]
    # Only a complete archive ever has the final name; the last step is within one file system.
    script = (
        f"awk '!seen[$0]++' {shlex.join(lists)} > classes && {shlex.join(dump)} > dump.log 2>&1 "
        f"&& mv archive {shlex.quote(str(fresh))} "
        f"&& mv {shlex.quote(str(fresh))} {shlex.quote(str(archive))}"
    )
    # One at a time: two sandboxes may start for the first time together.
    lock = hadoop.folder / f".{archive.name}.lock"
    command = ["nice", "-n", "19", "flock", "-n", str(lock), "/bin/sh", "-c", script, "sh", *marks]
    return spawn(command, environ={"PATH": os.defpath}, folder=work, log=layout.log(ARCHIVER))


def _recorded(layout: Layout, daemon: str) -> Path:
    return layout.home / "tmp" / f"{daemon}.classes"
