"""Where the client keeps its own files on this machine: `$YARNPS_HOME`, else `~/.yarnps`."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Folder of the client's own files: local jobs, logs, known packs, the sandbox."""
    given = os.environ.get("YARNPS_HOME")
    return Path(given) if given else Path.home() / ".yarnps"


def local_jobs() -> Path:
    """Folder with one folder per job of the local cluster."""
    return home() / "local"


def logs() -> Path:
    """Folder of the client's logs; it is made when it is not there."""
    folder = home() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
