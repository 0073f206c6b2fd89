"""Jobs on the sandbox as a user submits them, with the means to watch them and to harm them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import waiting
import yaml
from safetensors.numpy import load
from waiting import first_event

from bench import processes
from yarnps.client.sandbox import Sandbox
from yarnps.client.yarn_job import YarnView
from yarnps.jobdir import CUTS, OUTCOME, JobDir
from yarnps.status import Event, Outcome, Status

# A job on a quiet machine takes half a minute; on a crowded one, ten times as long.
LIMIT_S = 400.0
RM_FACTS = ("state", "finalStatus", "progress", "diagnostics", "elapsedTime", "runningContainers")
ENDED = ("FINISHED", "FAILED", "KILLED")
AUDIT = "yarnps.rows"

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out + self.err


def command(*words: str | Path) -> list[str]:
    """The command line as a user has it."""
    return [sys.executable, "-m", "yarnps.client.main", *map(str, words)]


def yarnps(
    *words: str | Path, env: Mapping[str, str] | None = None, limit: float = LIMIT_S
) -> Done:
    """Run `yarnps`; without a terminal."""
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=limit,
        env=None if env is None else dict(env),
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def until(
    what: Callable[[], T],
    name: str,
    limit: float = LIMIT_S,
    report: Callable[[], str] = lambda: "",
) -> T:
    """Wait until `what` gives something true, as long as a job may take."""
    return waiting.until(what, name, limit, report=report)


def write_job(folder: Path, block: Mapping[str, Any], **more: Any) -> Path:
    """Write a job file: two servers and three workers of 512 MiB, if not said otherwise.

    ``server`` and ``worker`` add to the services, everything else stands at the top.
    """
    size = {"memory": "512 MiB", "vcores": 1}
    services = {
        "server": {"instances": 2, "resources": size, **more.pop("server", {})},
        "worker": {"instances": 3, "resources": size, **more.pop("worker", {})},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.yaml"
    document = {"name": folder.name, "services": services, **more, "yarnps": dict(block)}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


class Client:
    """A `yarnps` command under way, with what it has written so far."""

    def __init__(self, *words: str | Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="yarnps-run-")
        folder = Path(self._folder.name)
        self._out, self._err = folder / "out", folder / "err"
        with open(self._out, "w") as out, open(self._err, "w") as err:
            self.client = subprocess.Popen(
                command(*words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def out(self) -> str:
        return self._out.read_text()

    def send(self, number: signal.Signals) -> None:
        processes.send(self.client.pid, number)

    def report(self) -> str:
        """What helps to understand a failed test."""
        return "\n".join(["--- the client", self.err[-4000:], self.out[-2000:]])

    def wait(self, limit: float = LIMIT_S) -> Done:
        """Until it ends by itself."""
        try:
            code = self.client.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {limit:.0f} s\n{self.report()}") from None
        return Done(code, self.out, self.err)

    def close(self) -> None:
        """End it if it runs; what it has written is gone."""
        if self.client.poll() is None:
            self.send(signal.SIGKILL)
        self.client.wait(30)
        self._folder.cleanup()


class Run(Client):
    """One job that `yarnps submit` has been called for and follows; a context manager.

    Leaving it ends the client and the job, and checks that no process of the job is left.
    """

    def __init__(
        self, sandbox: Sandbox, file: Path, sets: Sequence[str] = (), *options: str
    ) -> None:
        changes = [word for value in sets for word in ("--set", value)]
        super().__init__("submit", file, "--cluster", "yarn", *changes, *options)
        self.sandbox = sandbox
        self._others: list[Client] = []
        self._application = ""
        self._view: YarnView | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is not None:
                print(self.report())
            if self._application:
                self._end()
        finally:
            if self._view is not None:
                self._view.close()
            for client in (self, *self._others):
                client.close()

    def _end(self) -> None:
        if self.rm()["state"] not in ENDED:
            address = f"{self.sandbox.rm_page}/ws/v1/cluster/apps/{self.application}/state"
            request = urllib.request.Request(
                address,
                json.dumps({"state": "KILLED"}).encode(),
                {"Content-Type": "application/json"},
                method="PUT",
            )
            urllib.request.urlopen(request, timeout=20).close()
        until(
            lambda: not processes.of_application(self.application),
            "the end of all processes",
            30,
            lambda: f"left behind: {processes.of_application(self.application)}",
        )

    # ------------------------------------------------------------ the client

    @property
    def application(self) -> str:
        """The application's id; waits for it."""
        if not self._application:
            line = until(self._job_line, "an application id", report=lambda: self.err)
            self._application = line.split()[1]
        return self._application

    def _job_line(self) -> str:
        lines = [x for x in self.err.splitlines() if x.startswith("job: application_")]
        ended = self.client.poll()
        assert lines or ended is None, f"submit ended with {ended}:\n{self.err}"
        return lines[0] if lines else ""

    def attach(self) -> Client:
        """Another client that follows the job."""
        self._others.append(Client("attach", self.application))
        return self._others[-1]

    # ------------------------------------------------------------ the job

    @property
    def view(self) -> YarnView:
        if self._view is None:
            self._view = YarnView(self.application)
        return self._view

    @property
    def job_dir(self) -> JobDir:
        return JobDir(self.view.store().address)

    def rm(self) -> dict[str, Any]:
        """The application in the resource manager's words."""
        return rm_app(self.sandbox, self.application)

    def status(self) -> Status | None:
        """The newest status document, from the AM or from the job directory."""
        return self.view.look().status

    def events(self, kind: str = "", after: int = 0) -> list[Event]:
        found = self.view.events()
        return [e for e in found if e.seq > after and (not kind or e.kind == kind)]

    @property
    def last_event(self) -> int:
        return max((e.seq for e in self.events()), default=0)

    def event(
        self, kind: str, *words: str, after: int = 0, limit: float = LIMIT_S, **fields: Any
    ) -> Event:
        """Wait for an event of this kind whose text has the words and that has the fields."""

        def look() -> Event | None:
            # Whether it has ended is asked first: an event of the last moment is still found.
            ended = self.client.poll()
            event = first_event(self.events(), kind, *words, after=after, **fields)
            assert event or ended is None, f"the job has ended ({ended})\n{self.report()}"
            return event

        name = f"event {kind} {words} {fields} after {after}"
        found = until(look, name, limit, self.report)
        assert found is not None
        return found

    def training(self, workers: int = 3) -> None:
        """Until each worker has had a push acknowledged."""
        for rank in range(workers):
            self.event("first_push", rank=rank)

    def outcome(self) -> Outcome:
        """The outcome in the job directory."""
        found = self.job_dir.read_json(OUTCOME)
        assert found is not None, f"no outcome\n{self.report()}"
        return Outcome(**found)

    def rows_of_splits(self) -> dict[int, float]:
        """Split id to rows, as the servers counted them and the last cut holds them."""
        job_dir = self.job_dir
        folder = job_dir.inside(CUTS, str(job_dir.cut_numbers()[-1]))
        rows: dict[int, float] = {}
        for info in job_dir.files.list(folder):
            if info.path.endswith(".safetensors"):
                tensors = load(job_dir.files.read_bytes(info.path))
                keys, values = tensors[f"{AUDIT}/keys"], tensors[f"{AUDIT}/states"][:, 0]
                assert not set(keys.tolist()) & set(rows), "a split is on two servers"
                rows.update(zip(keys.tolist(), values.tolist(), strict=True))
        return rows

    def report(self) -> str:
        parts = [super().report()]
        if self._application:
            said = self.rm()
            facts = {name: said.get(name) for name in RM_FACTS}
            parts += ["--- resource manager", json.dumps(facts, indent=1)]
        return "\n".join(parts)

    # ------------------------------------------------------------ harm

    def pid(self, kind: str, role: str = "", rank: int = -1) -> int:
        """Of a process; ``pid("role", "worker", 0)``, ``pid("am")``."""
        found = until(
            lambda: processes.find(self.application, kind, role, rank), f"{kind} {role} {rank}"
        )
        assert found is not None
        return found.pid

    def kill_am_container(self) -> int:
        """Kill skein's Java process, which is what YARN started in the AM's container."""
        before = self.last_event
        for found in processes.of_application(self.application):
            if found.kind == "other" and b"skein.ApplicationMaster" in cmdline(found.pid):
                processes.send(found.pid, signal.SIGKILL)
                return before
        raise AssertionError(f"no ApplicationMaster of skein\n{self.report()}")

    def kill(self, kind: str, role: str = "", rank: int = -1) -> int:
        """`kill -9`; returns the event number up to which nothing of it can be known."""
        pid, before = self.pid(kind, role, rank), self.last_event
        processes.send(pid, signal.SIGKILL)
        return before


def cmdline(pid: int) -> bytes:
    """The command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def rm_get(sandbox: Sandbox, path: str) -> Any:
    """What the resource manager's web service says."""
    address = f"{sandbox.rm_page}/ws/v1/cluster/{path}"
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


def rm_app(sandbox: Sandbox, application: str) -> dict[str, Any]:
    """One application in the resource manager's words."""
    app: dict[str, Any] = rm_get(sandbox, f"apps/{application}")["app"]
    return app


def attempts(run: Run) -> int:
    """How many ApplicationMasters YARN has started for the job."""
    return len(
        rm_get(run.sandbox, f"apps/{run.application}/appattempts")["appAttempts"]["appAttempt"]
    )


def rm_apps(sandbox: Sandbox) -> list[dict[str, Any]]:
    """All applications that the resource manager knows."""
    found: list[dict[str, Any]] = (rm_get(sandbox, "apps").get("apps") or {}).get("app", [])
    return found


def without(environ: Mapping[str, str], *names: str, path: str = "") -> dict[str, str]:
    """An environment that lacks these variables; `path` is its PATH."""
    kept = {k: v for k, v in environ.items() if k not in names}
    return {**kept, "PATH": path or os.defpath}
