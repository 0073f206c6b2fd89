"""Watching a job through a real control service, and what signals do to it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnps.am.shell.service import Link, Service
from yarnps.client import credentials, exits, home, job, local, main
from yarnps.client.signals import kept
from yarnps.client.watch import Plain, watch
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Event, Outcome, Status, to_json

LIMIT_S = 30.0


class FakeJob:
    """The ApplicationMaster's side: a real control service over a status that tests set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills: list[tuple[str, str]] = []
        self.status = Status("local_1_1", "little", "ada", "TRAINING", "it trains")
        self.events: tuple[Event, ...] = ()
        am = folder / local.AM_FOLDER
        am.mkdir(parents=True)
        self.pair = credentials.new_credentials()
        self.pair.write(am)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._service = Service(self, self, self.pair.certificate, self.pair.key)
        port = self._call(self._service.start())
        (folder / job.AM_JSON).write_text(json.dumps({"address": f"127.0.0.1:{port}"}))
        self.holder = subprocess.Popen(["sleep", "600"], start_new_session=True)
        started = local.process_started(self.holder.pid)
        (am / local.PROCESS_FILE).write_text(
            json.dumps({"pid": self.holder.pid, "started": started})
        )

    def _call(self, work: object) -> int:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)  # type: ignore

    def close(self) -> None:
        self._call(self._service.stop(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()
        self.holder.kill()
        self.holder.wait(LIMIT_S)

    def finish(self, outcome: Outcome) -> None:
        """Write down how it ended, and go."""
        self.status = Status("local_1_1", "little", "ada", outcome.state, "over", outcome=outcome)
        (self.folder / job.STATUS_JSON).write_text(to_json(self.status))
        (self.folder / job.OUTCOME_JSON).write_text("{}")
        self.holder.kill()
        self.holder.wait(LIMIT_S)

    # ------------------------------------------------------------ what the service asks

    def came(self, link: Link) -> str | None:
        return "no agents here"

    def said(self, link: Link, message: pb.FromAgent) -> None:
        raise AssertionError

    def went(self, link: Link) -> None:
        """None comes, none goes."""

    def status_json(self, events_after: int) -> str:
        return to_json(self.status)

    def kill(self, user: str, reason: str) -> None:
        self.kills.append((user, reason))
        threading.Thread(
            target=self.finish, args=(Outcome("KILLED", reason, "killed_by_user"),)
        ).start()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJob]:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path))
    running = FakeJob(home.local_jobs() / "local_1_1")
    yield running
    running.close()


def view(fake: FakeJob) -> job.LocalView:
    return job.LocalView(local.LocalJob("local_1_1", fake.folder))


def test_a_running_job_is_seen_through_its_am(fake: FakeJob) -> None:
    seen = view(fake)
    sight = seen.look()
    seen.close()
    assert (sight.live, sight.gone) == (True, False)
    assert sight.status == fake.status


def test_another_pair_sees_nothing(fake: FakeJob) -> None:
    credentials.new_credentials().write(fake.folder / local.AM_FOLDER)
    seen = view(fake)
    sight = seen.look()
    seen.close()
    assert sight.status is None
    assert "does not answer" in sight.trouble


def test_a_job_that_has_ended_is_read_from_its_directory(fake: FakeJob) -> None:
    fake.finish(Outcome("FAILED", "worker 0 raised", "script"))
    sight = view(fake).look()
    assert (sight.live, sight.gone) == (False, True)
    assert sight.status is not None
    assert sight.status.outcome == Outcome("FAILED", "worker 0 raised", "script")


def test_watching_to_the_end(fake: FakeJob) -> None:
    lines: list[str] = []

    def out(line: str) -> None:
        lines.append(line)
        if line == "it trains":
            fake.finish(Outcome("SUCCEEDED"))

    watched = watch(view(fake), printer=Plain(out))
    assert lines == ["it trains"]
    assert (watched.end.code, watched.end.sentence) == (0, "over")


def test_kill_goes_through_the_am(fake: FakeJob, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["kill", "local_1_1", "--reason", "enough", "-o", "json"]) == 0
    assert [reason for _, reason in fake.kills] == ["enough"]
    assert json.loads(capsys.readouterr().out)["state"] == "KILLED"
    assert main.run(["attach", "local_1_1"]) == 5


def test_status_and_list(fake: FakeJob, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["status", "local_1_1"]) == 0
    assert capsys.readouterr().out.startswith("it trains\n")
    assert main.run(["status", "local_1_1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "TRAINING"
    assert main.run(["list", "--cluster", "local", "-o", "json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["application"], line["state"]) == ("local_1_1", "TRAINING")
    assert main.run(["status", "local_9_9"]) == 2
    assert "no such job" in capsys.readouterr().err


def attach(fake: FakeJob, *options: str) -> subprocess.Popen[str]:
    """A client in a process of its own, that has seen the job."""
    process = subprocess.Popen(
        [sys.executable, "-m", "yarnps.client.main", "attach", "local_1_1", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "YARNPS_HOME": os.environ["YARNPS_HOME"]},
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "it trains\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_leave_the_job_running(fake: FakeJob, number: signal.Signals) -> None:
    process = attach(fake)
    process.send_signal(number)
    _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3
    assert "yarnps attach local_1_1" in told
    assert fake.kills == []


def test_kill_on_exit(fake: FakeJob) -> None:
    process = attach(fake, "--kill-on-exit")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 5
    assert [reason for _, reason in fake.kills] == [
        "the client got SIGTERM, and --kill-on-exit is set"
    ]


@pytest.mark.parametrize(("answer", "code", "kills"), [("k\n", 5, 1), ("l\n", 3, 0)])
def test_ctrl_c_on_a_terminal_asks(fake: FakeJob, answer: str, code: int, kills: int) -> None:
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "yarnps.client.main", "attach", "local_1_1"],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(follower)
    assert process.stderr is not None
    assert process.stderr.readline() == "it trains\n"
    process.send_signal(signal.SIGINT)
    os.write(leader, answer.encode())
    out, _ = process.communicate(timeout=LIMIT_S)
    os.close(leader)
    assert "[k]ill it" in out
    assert process.returncode == code
    assert len(fake.kills) == kills


def test_the_live_screen() -> None:
    from rich.console import Console

    from yarnps.client.screen import view as shown
    from yarnps.status import Process, Progress

    processes = tuple(Process("worker", n, "running", rows_per_s=10.0) for n in range(8))
    status = Status(
        "app", "job", "ada", "TRAINING", "it trains", processes=processes,
        progress=Progress(rows=1234, splits_total=4, fraction=0.5, seconds_left=90.0),
    )  # fmt: skip
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(shown("app", job.Sight(status=status, live=True)))
    text = console.export_text()
    assert "it trains" in text
    assert "1,234 rows" in text
    assert "1 min 30 s left" in text
    assert "8 workers running" in text
    assert "and 2 more" in text


def test_a_signal_between_submission_and_watching_ends_the_job(fake: FakeJob) -> None:
    with kept() as signals:
        signals.remember()
        os.kill(os.getpid(), signal.SIGTERM)
        out: list[str] = []
        watched = watch(view(fake), kill_on_exit=True, printer=Plain(out.append), signals=signals)
    assert watched.end.code == exits.KILLED
    assert [reason for _, reason in fake.kills] == [
        "the client got SIGTERM, and --kill-on-exit is set"
    ]
