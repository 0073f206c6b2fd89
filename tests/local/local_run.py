"""One job on the local cluster: to be watched, harmed, and cleaned up after."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import yaml
from waiting import first_event, until

from bench import processes
from yarnps.client import local
from yarnps.client.job import LocalView
from yarnps.jobdir import OUTCOME
from yarnps.spec import load
from yarnps.status import Event, Outcome, Status

LIMIT_S = 90.0
POLL_S = 0.02

T = TypeVar("T")

# Counts what it is given, slowly while the brake is on: a test harms the job under way, then lets
# it run to its end. Every key's sum in the model says whether each batch was applied once.
PROGRAM = """
import os, sys, time
import numpy as np
import yarnps

brake, hold = sys.argv[1:]
job = yarnps.connect()
sums = job.sparse("sums", dtype="float64", optimizer=yarnps.Add())

def evaluate(batch):
    while os.path.exists(hold):
        time.sleep(0.02)
    return {"label": [float(batch.labels.sum()), len(batch)]}

for batch in job.data(evaluate=evaluate):
    with batch:
        sums.pull(batch.keys).wait()
        sums.push(batch.keys, batch.values)
        if os.path.exists(brake):
            time.sleep(0.1)
"""


def yarnps(*words: str | Path, limit: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """The command line as a user has it."""
    command = [sys.executable, "-m", "yarnps.client.main", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit
    )


@dataclass(frozen=True)
class Input:
    """Made libsvm files: row r of file f has the keys r % 50 and 50 + f, with the value 1."""

    folder: Path
    files: int
    rows: int

    @staticmethod
    def write(folder: Path, files: int, rows: int) -> Input:
        folder.mkdir(parents=True)
        for number in range(files):
            lines = (f"{r % 2} {r % 50}:1 {50 + number}:1" for r in range(rows))
            (folder / f"part-{number}").write_text("\n".join(lines) + "\n")
        return Input(folder, files, rows)

    @property
    def all_rows(self) -> int:
        return self.files * self.rows

    def sums(self, epochs: int) -> dict[int, float]:
        """What the program's table holds when each batch of `epochs` has been applied once."""
        sums = {50 + f: float(epochs * self.rows) for f in range(self.files)}
        for key in range(50):
            sums[key] = float(epochs * self.files * len(range(key, self.rows, 50)))
        return sums


class LocalRun:
    """A context manager around one job.

    Parameters
    ----------
    folder
        The test's own.
    block
        The `yarnps:` block.
    services
        Further keys of the services ``worker`` and ``server``.
    """

    def __init__(
        self,
        folder: Path,
        block: Mapping[str, Any],
        *,
        program: str = PROGRAM,
        servers: int = 2,
        workers: int = 2,
        services: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.brake, self.hold = folder / "brake", folder / "hold"
        (folder / "train.py").write_text(program)
        size = {"memory": "512 MiB", "vcores": 1}
        more = services or {}
        worker = {
            "instances": workers,
            "resources": size,
            "files": {"train.py": "train.py"},
            "script": f'"$PYTHON" train.py {self.brake} {self.hold}',
            **more.get("worker", {}),
        }
        server = {"instances": servers, "resources": size, **more.get("server", {})}
        services_block = {"server": server, "worker": worker} if servers else {"worker": worker}
        document = {"name": folder.name, "services": services_block, "yarnps": dict(block)}
        self.file = folder / "job.yaml"
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))
        self._view: LocalView | None = None

    # ------------------------------------------------------------ life

    def __enter__(self) -> LocalRun:
        done = yarnps("submit", self.file, "--cluster", "local", "--detach")
        assert done.returncode == 0, done.stderr
        job = local.find(done.stdout.strip())
        assert job is not None, done.stdout
        self._view = LocalView(job)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            print(self.report())
        try:
            self.view.job.end()
            left = self.wait_until_none_left(limit=15.0)
            if kind is None:
                assert not left, f"processes are left behind: {left}"
        finally:
            self.view.close()
            for found in processes.of_application(self.application):
                processes.send(found.pid, signal.SIGKILL)

    def wait_until_none_left(self, limit: float) -> list[processes.Found]:
        """Waits for the end of all the application's processes; returns those that stay."""
        deadline = time.monotonic() + limit
        while left := processes.of_application(self.application):
            if time.monotonic() > deadline:
                return left
            time.sleep(POLL_S)
        return []

    @property
    def view(self) -> LocalView:
        assert self._view is not None, "the job has not been started"
        return self._view

    @property
    def application(self) -> str:
        return self.view.application

    @property
    def job_folder(self) -> Path:
        return self.view.job.folder

    # ------------------------------------------------------------ watching

    def wait(self, what: Callable[[], T], name: str, limit: float = LIMIT_S) -> T:
        """Until `what` gives something true."""

        def look() -> T:
            outcome = self.ended()
            value = what()
            assert value or outcome is None, f"the job has ended, without {name}: {outcome}"
            return value

        return until(look, name, limit, poll_s=POLL_S)

    def events(self, kind: str = "", after: int = 0) -> list[Event]:
        """The event log so far, read where the ApplicationMaster writes it."""
        path = self.job_folder / "am" / "events.jsonl"
        if not path.exists():
            return []
        found = []
        for line in path.read_text().splitlines():
            with suppress(ValueError):  # the last line may be half written
                event = Event(**json.loads(line))
                if event.seq > after and (not kind or event.kind == kind):
                    found.append(event)
        return found

    @property
    def last_event(self) -> int:
        return max((event.seq for event in self.events()), default=0)

    def event(
        self, kind: str, *words: str, after: int = 0, limit: float = LIMIT_S, **fields: Any
    ) -> Event:
        """The first event of this kind whose text has the words and that has the fields."""

        def look() -> Event | None:
            return first_event(self.events(), kind, *words, after=after, **fields)

        found = self.wait(look, f"event {kind} {words} {fields} after {after}", limit)
        assert found is not None
        return found

    def training(self) -> None:
        """Until every worker has had a push acknowledged."""
        for rank in range(load(self.file, site=[]).roles["worker"].instances):
            self.event("first_push", rank=rank)

    def status(self) -> Status:
        status = self.view.look().status
        assert status is not None
        return status

    def ended(self) -> Outcome | None:
        path = self.job_folder / OUTCOME
        return Outcome(**json.loads(path.read_text())) if path.exists() else None

    def outcome(self, limit: float = LIMIT_S) -> Outcome:
        """How the job ended; its processes are gone then."""
        outcome = self.wait(self.ended, "an outcome", limit)
        assert outcome is not None
        left = self.wait_until_none_left(limit=20.0)
        assert not left, f"processes are left behind: {left}"
        return outcome

    def report(self) -> str:
        """Everything that helps to understand a failed test."""
        parts = [f"--- events of {self.application}"]
        parts += [f"{e.seq:4} {e.time:.3f} {e.kind:12} {e.text}" for e in self.events()]
        for path in sorted(self.job_folder.glob("am/std*")):
            parts += [f"--- {path.name} of the ApplicationMaster", path.read_text()[-4000:]]
        for path in sorted(self.job_folder.glob("containers/*/*")):
            if path.name == "stderr" or path.suffix == ".log":
                text = path.read_text(errors="replace")[-1500:]
                parts += [f"--- {path.parent.name}/{path.name}", text]
        return "\n".join(parts)

    # ------------------------------------------------------------ harm

    def pid(self, kind: str, role: str = "", rank: int = -1) -> int:
        """Of a process; ``pid("role", "worker", 0)``."""
        found = self.wait(
            lambda: processes.find(self.application, kind, role, rank), f"{kind} {role} {rank}"
        )
        assert found is not None
        return found.pid

    def kill(self, kind: str, role: str = "", rank: int = -1) -> int:
        """`kill -9`; returns the event number up to which nothing of it can be known."""
        pid, before = self.pid(kind, role, rank), self.last_event
        processes.send(pid, signal.SIGKILL)
        return before

    def freeze(self, kind: str, role: str = "", rank: int = -1) -> int:
        """SIGSTOP; returns the pid."""
        pid = self.pid(kind, role, rank)
        processes.send(pid, signal.SIGSTOP)
        return pid

    def thaw(self, pid: int) -> None:
        processes.send(pid, signal.SIGCONT)

    def lose_node(self, node: str) -> Sequence[processes.Found]:
        """Everything on a pretend node is gone at once."""
        gone = [f for f in processes.of_application(self.application) if f.node == node]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for found in gone:
                processes.send(found.pid, number)
        return gone
