"""The flights in the sandbox's HDFS: all of them, and a few of each file."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from yarnps.data import Split
from yarnps.files import open_files

ROOT = Path(__file__).parents[2]
MADE = ROOT / ".data" / "flights"
LINES = 600  # of each file of the small task
MAKE_LIMIT_S = 250


@dataclass(frozen=True)
class Flights:
    """A task in HDFS: ``<folder>/train`` and ``<folder>/test`` in the user's home.

    Attributes
    ----------
    train, test
        The files' content by their names, in the order of these.
    """

    folder: str
    train: dict[str, bytes]
    test: dict[str, bytes]

    @property
    def train_rows(self) -> int:
        return sum(text.count(b"\n") for text in self.train.values())

    def rows_of_splits(self, splits: Iterable[Split]) -> dict[int, int]:
        """How many lines begin in each split of the training files, by the splits' ids."""
        rows = {}
        for split in splits:
            text = self.train[split.path.rpartition("/")[2]]
            begin, end = split.start, split.start + split.length
            starts = text.count(b"\n", max(0, begin - 1), end - 1)
            rows[split.id] = starts + (begin == 0)
        return rows

    @property
    def labels(self) -> list[float]:
        """Of the test rows."""
        rows = [line for text in self.test.values() for line in text.splitlines()]
        return [float(line.split(b" ", 1)[0]) for line in rows]

    @property
    def sets(self) -> list[str]:
        """`--set` values with which a job reads this task."""
        names = ("train", "test")
        return [f"yarnps.data.{name}={self.folder}/{name}/*" for name in names]


def made_flights() -> Path:
    """The task on this machine; made when `make data` was not called before."""
    if not (MADE / "DONE").exists():
        script = [sys.executable, str(ROOT / "specs" / "flights_data.py"), str(MADE)]
        subprocess.run(script, check=True, timeout=MAKE_LIMIT_S)
    return MADE


def put(folder: str, lines: int | None = None) -> Flights:
    """Write the flights into HDFS; only the first `lines` of each file, if given."""
    contents: dict[str, dict[str, bytes]] = {}
    for part in ("train", "test"):
        contents[part] = {}
        for path in sorted((made_flights() / part).glob("part-*")):
            text = path.read_bytes()
            if lines is not None:
                text = b"".join(io.BytesIO(text).readlines()[:lines])
            contents[part][path.name] = text
            files, target = open_files(f"{folder}/{part}/{path.name}")
            files.write_bytes(target, text, overwrite=True)
    return Flights(folder, contents["train"], contents["test"])


def put_file(path: str, content: bytes) -> None:
    """Write one file into HDFS, by a path in the user's home or from the root."""
    files, target = open_files(path)
    files.write_bytes(target, content, overwrite=True)
