"""Hadoop's jars: fetched once by Maven, kept by version, shared by all sandboxes."""

from __future__ import annotations

import fcntl
import os
import re
import selectors
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from yarnps.client.sandbox._errors import SandboxError, ToolMissing

HADOOP_VERSION = "3.4.2"
ARTIFACTS = (
    "hadoop-client",
    "hadoop-hdfs",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
    "hadoop-yarn-server-web-proxy",
)
JARS_EXPECTED = 175  # only for the progress line
WEB_FOLDERS = ("hdfs", "datanode", "static", "cluster", "node", "journal", "secondary")

FETCH_LIMIT_S = 1800.0
SILENCE_LIMIT_S = 180.0  # Maven itself gives a connection up after less
REPORT_EVERY_S = 3.0

Report = Callable[[str], None]


class Hadoop(NamedTuple):
    """A Hadoop on this machine's disk."""

    version: str
    folder: Path

    @property
    def jars(self) -> Path:
        """The folder of the jars."""
        return self.folder / "lib"

    @property
    def classes(self) -> Path:
        """A class path folder with what the jars lack."""
        return self.folder / "classes"

    @property
    def jar_files(self) -> tuple[str, ...]:
        """Every jar, in an order that is the same in each run."""
        return tuple(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def cache_folder() -> Path:
    """Return the folder of the jar cache: $YARNPS_CACHE or ~/.cache/yarnps."""
    named = os.environ.get("YARNPS_CACHE")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "yarnps"


def fetch_hadoop(report: Report, *, version: str = HADOOP_VERSION) -> Hadoop:
    """Return the cached Hadoop of this version, fetching it with Maven first if need be.

    Two callers at once are fine: the second waits for the first one's download.

    Raises
    ------
    ToolMissing
        Not cached, and no `mvn` to fetch it with.
    SandboxError
        Maven failed, or took too long.
    """
    cache = cache_folder()
    hadoop = Hadoop(version, cache / f"hadoop-{version}")
    if hadoop.folder.is_dir():
        return hadoop
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolMissing(
            f"Hadoop {version} is not cached in {cache}, and there is no mvn to fetch it with",
            "Install Maven and try again: apt-get install maven",
        )
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / f".hadoop-{version}.lock", report):
        if not hadoop.folder.is_dir():
            _fetch(hadoop, maven, report)
    return hadoop


def _fetch(hadoop: Hadoop, maven: str, report: Report) -> None:
    report(f"fetching Hadoop {hadoop.version} with Maven (about 92 MB, once)")
    with tempfile.TemporaryDirectory(
        prefix=f".hadoop-{hadoop.version}-", dir=hadoop.folder.parent
    ) as name:
        work = Path(name)
        fresh = Hadoop(hadoop.version, work / "hadoop")
        (work / "pom.xml").write_text(pom(hadoop.version))
        _run_maven(maven, work, fresh.jars, report)
        _add_web_folders(fresh)
        # Only a complete folder ever has the final name.
        fresh.folder.rename(hadoop.folder)
    report(f"Hadoop {hadoop.version} is in {hadoop.folder}")


def pom(version: str) -> str:
    """Return a Maven project that depends on the daemons of this Hadoop version."""
    dependencies = "\n".join(
        f"    <dependency><groupId>org.apache.hadoop</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for artifact in ARTIFACTS
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>yarnps</groupId><artifactId>sandbox</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def _run_maven(maven: str, work: Path, jars: Path, report: Report) -> None:
    process = subprocess.Popen(
        [
            maven,
            "-B",
            "-f",
            str(work / "pom.xml"),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={jars}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        fetched, reported = 0, time.monotonic()
        for line in _lines(process.stdout):
            lines.append(line)
            fetched += bool(re.search(r"Downloaded from .*\.jar\b", line))
            if fetched and time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                report(f"fetching Hadoop: {fetched} of about {JARS_EXPECTED} jars")
        status = process.wait(timeout=SILENCE_LIMIT_S)
    finally:
        process.kill()
        process.wait(timeout=SILENCE_LIMIT_S)
        if process.stdout is not None:
            process.stdout.close()
    if status != 0:
        errors = [line for line in lines if "ERROR" in line] or lines
        raise SandboxError(
            f"Maven could not fetch Hadoop (exit status {status}):\n" + "\n".join(errors[:12]),
            "Check that mvn reaches a repository (~/.m2/settings.xml, proxy) and try again.",
        )


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a pipe, and raise when nothing comes for too long."""
    deadline = time.monotonic() + FETCH_LIMIT_S
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            limit = min(SILENCE_LIMIT_S, deadline - time.monotonic())
            if limit <= 0 or not selector.select(limit):
                raise SandboxError(
                    "Maven did not finish: it was silent for "
                    f"{SILENCE_LIMIT_S:.0f} s, or took over {FETCH_LIMIT_S / 60:.0f} min in all",
                    "Check that mvn reaches a repository and try again: what it fetched is kept.",
                )
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def _add_web_folders(hadoop: Hadoop) -> None:
    """Put `webapps/` where the daemons' web servers look: the HDFS jars come without it."""
    common = hadoop.jars / f"hadoop-yarn-common-{hadoop.version}.jar"
    with zipfile.ZipFile(common) as jar:
        jar.extractall(
            hadoop.classes, [name for name in jar.namelist() if name.startswith("webapps/")]
        )
    for name in WEB_FOLDERS:
        (hadoop.classes / "webapps" / name).mkdir(parents=True, exist_ok=True)


@contextmanager
def _exclusive(path: Path, report: Report) -> Iterator[None]:
    with path.open("w") as lock:
        deadline = time.monotonic() + FETCH_LIMIT_S
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    report("another process is fetching Hadoop: waiting for it")
                    waiting = True
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"another process has held the download lock for too long: {path}",
                    "End that process (fuser shows it) and try again.",
                )
            time.sleep(0.5)
        yield
