"""The Java that Hadoop 3.4 can run on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from yarnps.client.sandbox._errors import ToolMissing

# From Java 23 on, Subject.getSubject(), which every Hadoop RPC calls, throws.
OLDEST, NEWEST = 8, 22
INSTALL = "apt-get install openjdk-17-jre-headless"


class Java(NamedTuple):
    """A Java installation."""

    home: Path
    major: int
    version: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the first usable Java: JAVA_HOME, the one on PATH, then those in /usr/lib/jvm.

    Raises
    ------
    ToolMissing
        None is installed, or none that Hadoop runs on.
    """
    unusable = []
    for home in _candidates():
        java = read_java(home)
        if java is None:
            continue
        if OLDEST <= java.major <= NEWEST:
            return java
        unusable.append(f"{java.version} in {java.home}")
    if unusable:
        raise ToolMissing(
            f"no Java that Hadoop runs on (it needs {OLDEST} to {NEWEST}): "
            f"found {', '.join(unusable)}",
            f"Install one and try again: {INSTALL}",
        )
    raise ToolMissing(
        "no Java found: looked at JAVA_HOME, PATH and /usr/lib/jvm",
        f"Install one and try again: {INSTALL}",
    )


def read_java(home: Path) -> Java | None:
    """Return what is installed in `home`, None if it holds no Java."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (home / "release").read_text()
    except OSError:
        release = ""
    # Java 8 may sit in <jdk>/jre, with the release file one folder up, or have none at all.
    match = re.search(r'^JAVA_VERSION="?([^"\n]+)', release, re.MULTILINE)
    version = match.group(1) if match else "1.8"
    numbers = re.findall(r"\d+", version)
    major = int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])
    return Java(home, major, version)


def _candidates() -> Iterator[Path]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*/"))
