"""Running job files on the local cluster as a user does, through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LIMIT_S = 280.0


@dataclass(frozen=True)
class Done:
    """How a job ended, and what its events say."""

    outcome: dict[str, Any]
    log: str

    @property
    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = self.outcome["metrics"]
        return found

    @property
    def model(self) -> Path:
        return Path(str(self.outcome["model"]).removeprefix("file://"))

    def per_epoch(self, metric: str) -> list[float]:
        """The values of a metric after each epoch, from the event log."""
        values = []
        folder = Path(str(self.outcome["job_dir"]).removeprefix("file://")) / "events"
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                event = json.loads(line)
                if event["kind"] == "metric" and metric in event.get("data", {}):
                    values.append(float(event["data"][metric]))
        return values


def yarnps(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """The command line as a user has it."""
    done = subprocess.run(
        [sys.executable, "-m", "yarnps.client.main", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT_S,
    )
    assert done.returncode == status, (
        f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done


def submit(spec: Path, sets: Sequence[str] = (), *, status: int = 0) -> Done:
    """Run a job to its end."""
    options = [word for value in sets for word in ("--set", f"yarnps.{value}")]
    done = yarnps("submit", str(spec), "--cluster", "local", "-o", "json", *options, status=status)
    return Done(json.loads(done.stdout), done.stderr)


def predict(model: Path, file: Path, out: Path, *options: str) -> dict[str, Any]:
    """`yarnps predict`; what it says as JSON."""
    done = yarnps("predict", str(model), str(file), "--out", str(out), "-o", "json", *options)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def scores(path: Path) -> npt.NDArray[np.float64]:
    """One score a line."""
    return np.loadtxt(path, dtype=np.float64)


def labels(folder: Path) -> npt.NDArray[np.float64]:
    """Labels of the libsvm files of a folder, in the order of their names."""
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    return np.array([float(line.split(" ", 1)[0]) for line in lines])


def count_lines(folder: Path) -> int:
    """Lines of all files of a folder."""
    return sum(path.read_text().count("\n") for path in folder.iterdir())
