"""Make a virtual environment with MXNet for the specs: ``python specs/mxnet_venv.py .data/mxnet``.

MXNet's last release wants an older Python and an older numpy than yarnps does. That is no matter:
a program of `runtime: dmlc` has a Python of its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("numpy==1.23.5", "mxnet==1.9.1")
VERSIONS = ((3, 11), (3, 10), (3, 9), (3, 8))
LIMIT_S = 600.0
ASK_LIMIT_S = 30.0
READY = "ready"

QUESTION = "import ensurepip, sys, venv; print(sys.version_info[0], sys.version_info[1])"


def make(folder: Path) -> Path:
    """The environment's interpreter; what is there and complete is left as it is."""
    python = folder / "bin" / "python"
    ready = folder / READY
    if ready.exists() and ready.read_text() == "\n".join(PACKAGES):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run(old_python(), "-m", "venv", str(folder))
    run(str(python), "-m", "pip", "install", "--quiet", *PACKAGES)
    run(str(python), "-c", "import mxnet")
    ready.write_text("\n".join(PACKAGES))
    return python


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, timeout=LIMIT_S)


def old_python() -> str:
    """A Python that MXNet works with."""
    for candidate in candidates():
        if version(candidate) in VERSIONS:
            return candidate
    known = ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)
    sys.exit(f"MXNet needs Python {known} with its venv module, and there is none on PATH")


def candidates() -> Iterator[str]:
    """Interpreters of this machine: the one that runs, then those that their names promise."""
    yield sys.executable
    for major, minor in VERSIONS:
        found = shutil.which(f"python{major}.{minor}")
        if found is not None:
            yield found


def version(python: str) -> tuple[int, ...] | None:
    """Of an interpreter that can make virtual environments; None: it cannot, or does not run."""
    try:
        done = subprocess.run(
            [python, "-c", QUESTION], capture_output=True, text=True, timeout=ASK_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(make(parser.parse_args().folder))
