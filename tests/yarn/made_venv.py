"""Small virtual environments for jobs: links to the installed packages that a job needs."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib"))


def closure(distributions: Iterable[str]) -> set[str]:
    """These distributions and what they require, without extras."""
    found: set[str] = set()
    queue = list(distributions)
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or system
        found.add(name)
        plain = [r for r in requires if "extra ==" not in r]
        queue += [re.split(r"[^A-Za-z0-9_.-]", r, maxsplit=1)[0] for r in plain]
    return found


def make_venv(folder: Path, *, without: Iterable[str] = ()) -> Path:
    """An environment with yarnps' own requirements, but for some; returns its interpreter."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60
    )
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    target = Path(told.stdout.strip())
    for name in closure(["yarnps"]) - {"yarnps", *without}:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if ".." not in file.parts}:
            link = target / top
            if top != "__pycache__" and (SITE / top).exists() and not link.exists():
                link.symlink_to(SITE / top)
    return python
