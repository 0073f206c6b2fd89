"""The supervisor as a process, with programs in place of the ApplicationMaster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yarnps.am.supervisor import ENDED_MARK, EXIT_ATTEMPT_OVER, EXIT_GAVE_UP, TICK_FD, Ticker

LIMIT_S = 20.0

RUN = """
import json, sys
from pathlib import Path
from yarnps.am.supervisor import Limits, Supervisor
program, folder, limits = sys.argv[1:]
sys.exit(Supervisor(
    [sys.executable, "-c", program],
    Path(folder),
    limits=Limits(**json.loads(limits)),
    farewell=lambda cause: Path(folder, "farewell").write_text(cause),
).run())
"""

# `start` counts the starts; `log` keeps what happened and when.
PRELUDE = """
import os, signal, sys, time
start = int(os.environ["YARNPS_AM_START"])
def log(what):
    with open("log", "a") as f:
        f.write(f"{start} {what} {time.monotonic()} {os.getpid()}\\n")
log("started")
"""
TICKS = """
from yarnps.am.supervisor import Ticker
ticker = Ticker.from_environment()
"""


class Run:
    """A supervisor at work."""

    def __init__(self, folder: Path, program: str, **limits: float) -> None:
        self.folder = folder
        self._stderr = (folder / "stderr").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, PRELUDE + program, str(folder), json.dumps(limits)],
            stderr=self._stderr,
        )

    def ends(self) -> int:
        return self.process.wait(LIMIT_S)

    @property
    def text(self) -> str:
        return (self.folder / "stderr").read_text()

    def log(self) -> list[tuple[int, str, float, int]]:
        path = self.folder / "log"
        lines = [x.split() for x in path.read_text().splitlines()] if path.exists() else []
        return [(int(n), what, float(at), int(pid)) for n, what, at, pid in lines]

    def wait_for(self, start: int, what: str) -> int:
        """The pid of the process that logged it."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            for n, said, _, pid in self.log():
                if (n, said) == (start, what):
                    return pid
            time.sleep(0.005)
        raise AssertionError(f"{start} {what} never logged: {self.log()} {self.text}")

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT_S)
        self._stderr.close()


Start = Callable[..., Run]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def start(program: str, **limits: float) -> Run:
        runs.append(Run(tmp_path, program, **limits))
        return runs[-1]

    yield start
    for r in runs:
        r.clean_up()


def test_a_good_end(run: Start) -> None:
    r = run("sys.exit(0)")
    assert r.ends() == 0
    assert [x[:2] for x in r.log()] == [(0, "started")]


def test_it_is_started_again_at_once(run: Start) -> None:
    r = run("if start == 0: log('dies'); os.kill(os.getpid(), 9)\nlog('lives')")
    assert r.ends() == 0
    died = next(at for n, what, at, _ in r.log() if what == "dies")
    lived = next(at for n, what, at, _ in r.log() if (n, what) == (1, "started"))
    assert lived - died < 0.5
    assert "died (SIGKILL); starting it again" in r.text


def test_three_deaths_end_the_attempt(run: Start, tmp_path: Path) -> None:
    r = run("sys.exit(f'ValueError: bad shard {start}')")
    assert r.ends() == EXIT_GAVE_UP
    assert [n for n, *_ in r.log()] == [0, 1, 2]
    cause = (tmp_path / "farewell").read_text()
    assert cause == (
        "the ApplicationMaster died (exit status 1) 3 times within 120 s: ValueError: bad shard 2"
    )


def test_deaths_are_forgotten_after_the_window(run: Start) -> None:
    r = run("if start < 5: time.sleep(0.15); sys.exit(1)", window_s=0.2)
    assert r.ends() == 0
    assert len(r.log()) == 6


def test_a_loop_that_does_not_tick_is_killed(run: Start) -> None:
    program = (
        TICKS
        + """
import faulthandler
faulthandler.register(signal.SIGUSR1)
ticker.tick()
def hangs_here():
    while start == 0: time.sleep(1)
hangs_here()
"""
    )
    r = run(program, tick_s=0.3, dump_s=0.3)
    assert r.ends() == 0
    assert len(r.log()) == 2
    assert "has not ticked for" in r.text
    assert "the ApplicationMaster hung (SIGKILL); starting it again" in r.text
    assert "in hangs_here" in r.text, "its stack is in the log"


def test_a_loop_that_ticks_is_left_alone(run: Start) -> None:
    program = TICKS + "for _ in range(30): ticker.tick(); time.sleep(0.05)"
    r = run(program, tick_s=0.5, first_tick_s=30)
    assert r.ends() == 0
    assert len(r.log()) == 1


def test_the_first_tick_has_its_own_limit(run: Start) -> None:
    r = run("if start == 0: time.sleep(60)", tick_s=0.1, first_tick_s=0.4, dump_s=0.1)
    assert r.ends() == 0
    assert len(r.log()) == 2


def test_sigterm_is_passed_on(run: Start) -> None:
    program = """
signal.signal(signal.SIGTERM, lambda *_: (log("told"), sys.exit(7)))
log("ready")
while True: signal.pause()
"""
    r = run(program)
    r.wait_for(0, "ready")
    r.process.terminate()
    assert r.ends() == 143
    assert [x[1] for x in r.log()] == ["started", "ready", "told"]


def test_sigterm_that_is_ignored(run: Start) -> None:
    program = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
log("ready")
while True: signal.pause()
"""
    r = run(program, term_grace_s=0.2)
    pid = r.wait_for(0, "ready")
    r.process.terminate()
    assert r.ends() == 143
    assert not Path(f"/proc/{pid}").exists()


def test_a_good_end_on_sigterm_is_a_good_end(run: Start) -> None:
    program = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
log("ready")
while True: signal.pause()
"""
    r = run(program)
    r.wait_for(0, "ready")
    r.process.terminate()
    assert r.ends() == 0


def test_it_is_not_started_again_once_the_outcome_is_written(run: Start) -> None:
    r = run(f"open({ENDED_MARK!r}, 'w').close(); os.kill(os.getpid(), 9)")
    assert r.ends() == 0
    assert len(r.log()) == 1


def test_an_attempt_that_is_over_is_not_started_again(run: Start) -> None:
    r = run(f"sys.exit({EXIT_ATTEMPT_OVER})")
    assert r.ends() == EXIT_ATTEMPT_OVER
    assert len(r.log()) == 1


def test_the_applicationmaster_outlives_its_supervisor(run: Start) -> None:
    program = (
        TICKS
        + """
log("ready")
while not os.path.exists("stop"): ticker.tick(); time.sleep(0.01)
log("stopped")
"""
    )
    r = run(program)
    r.wait_for(0, "ready")
    r.process.kill()
    r.process.wait(LIMIT_S)
    (r.folder / "stop").touch()
    r.wait_for(0, "stopped")


def test_it_weighs_little(run: Start) -> None:
    r = run("log('ready')\nwhile True: signal.pause()")
    r.wait_for(0, "ready")
    status = Path(f"/proc/{r.process.pid}/status").read_text()
    rss = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
    assert rss < 20_000, f"{rss} kB"


def test_a_ticker_without_a_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TICK_FD, raising=False)
    Ticker.from_environment().tick()
    ours, theirs = os.pipe()
    ticker = Ticker(theirs)
    os.close(ours)
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    ticker.tick()
    ticker.tick()  # and again, when it has been closed
