"""The job directory: where a job keeps what outlives its processes.

``<home>/.yarnps/<application id>/`` on the default file system of the cluster, mode 700:

===========================  ==================================================================
``job.yaml``, ``job.json``    the job as submitted (secrets in ``env`` masked) and as understood
``began``                     the date of the job's beginning, which may be in its model's path
``attempt.<n>``               marker of the AM attempt that may write here; the newest one wins
``am.json``                   where the ApplicationMaster (AM) listens, while it runs
``am.crt``, ``am.pem``        the application's certificate pair (600, removed at the end)
``events/<attempt>-<n>.jsonl``  the event log, in pieces; `n` is the number of its first event
``status.json``               the last status document
``outcome.json``              how the job ended; when it exists, no attempt runs it again
``splits.json``               ``runtime: xgboost``: the input, for the workers to share
``prepared/<input>/``         what a pass before the first epoch made of each split
``cuts/<n>/``                 checkpoints: ``manifest.json`` and one file per server
``model/``                    the model, when the job file names no other place
===========================  ==================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from yarnps.files import open_files

JOB_YAML = "job.yaml"
JOB_JSON = "job.json"
BEGAN = "began"
AM_JSON = "am.json"
AM_CERTIFICATE = "am.crt"
AM_KEY = "am.pem"
STATUS = "status.json"
OUTCOME = "outcome.json"
SPLITS = "splits.json"
MANIFEST = "manifest.json"
EVENTS = "events"
CUTS = "cuts"
PREPARED = "prepared"
MODEL = "model"
BEST = "best"


class JobDir:
    """Reads and writes one job's directory.

    Parameters
    ----------
    address
        Full address of the directory, such as ``hdfs://nn:8020/user/ada/.yarnps/application_1_2``.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.files, self.path = open_files(self.address)

    def inside(self, *names: str) -> str:
        """The path of a file or folder in the directory, for `files`."""
        return "/".join([self.path.rstrip("/"), *names])

    def address_of(self, *names: str) -> str:
        """The full address of a file or folder in the directory."""
        return "/".join([self.address, *names])

    def create(self) -> None:
        """Make the directory, readable by its owner only."""
        self.files.mkdirs(self.path, mode=0o700)

    def exists(self, *names: str) -> bool:
        """Whether it is there."""
        return bool(self.files.exists(self.inside(*names)))

    def read(self, *names: str) -> bytes:
        """The content of a file; raises `DataError` when there is none."""
        return bytes(self.files.read_bytes(self.inside(*names)))

    def write(self, name: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace a file: a reader sees the old content or the new, never half of it."""
        self.files.write_bytes(self.inside(name), data, overwrite=True, mode=mode)

    def read_json(self, *names: str) -> dict[str, Any] | None:
        """The parsed content of a file, or None when there is none."""
        if not self.exists(*names):
            return None
        value = json.loads(self.read(*names))
        if not isinstance(value, dict):
            raise ValueError(f"not a JSON object: {self.address_of(*names)}")
        return value

    def write_json(self, name: str, value: dict[str, Any], *, mode: int | None = None) -> None:
        """Replace a file with `value` as JSON."""
        self.write(name, json.dumps(value, indent=1).encode(), mode=mode)

    def began(self, today: str) -> str:
        """The date that the first caller gave: the job's, however long it runs."""
        self.files.write_new(self.inside(BEGAN), today.encode())
        return self.read(BEGAN).decode()

    # ------------------------------------------------------------ attempts

    def claim(self, attempt: int, who: str) -> bool:
        """Put this attempt's marker; False when an equal or newer attempt has put one."""
        if self.newest_attempt() > attempt:
            return False
        return bool(self.files.write_new(self.inside(f"attempt.{attempt}"), who.encode()))

    def newest_attempt(self) -> int:
        """The highest attempt that has claimed the directory, 0 for none."""
        names = [info.path.rsplit("/", 1)[-1] for info in self.files.list(self.path)]
        numbers = [n.split(".", 1)[1] for n in names if n.startswith("attempt.")]
        return max((int(n) for n in numbers if n.isdigit()), default=0)

    # ------------------------------------------------------------ events

    def write_events(self, attempt: int, lines: list[str]) -> None:
        """Add one piece to the event log, or replace one that begins with the same event."""
        first = json.loads(lines[0])["seq"]
        name = self.inside(EVENTS, f"{attempt:04d}-{first:012d}.jsonl")
        self.files.write_bytes(name, ("\n".join(lines) + "\n").encode(), overwrite=True)

    def events(self) -> Iterator[dict[str, Any]]:
        """All events that have been written, oldest first."""
        if not self.exists(EVENTS):
            return
        last = 0
        for info in sorted(self.files.list(self.inside(EVENTS)), key=lambda i: i.path):
            if not info.path.endswith(".jsonl"):
                continue
            for line in self.files.read_bytes(info.path).decode().splitlines():
                event = json.loads(line)
                if event["seq"] > last:  # a restarted AM may have uploaded some of them again
                    last = event["seq"]
                    yield event

    # ------------------------------------------------------------ cuts

    def cut_folders(self) -> list[int]:
        """The numbers of all cuts that were ever begun and not removed."""
        if not self.exists(CUTS):
            return []
        names = [i.path.rstrip("/").rsplit("/", 1)[-1] for i in self.files.list(self.inside(CUTS))]
        return sorted(int(n) for n in names if n.isdigit())

    def cut_numbers(self) -> list[int]:
        """The cuts that have a manifest, oldest first."""
        return [n for n in self.cut_folders() if self.exists(CUTS, str(n), MANIFEST)]
