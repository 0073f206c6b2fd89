"""Watching a job from a terminal or a script: looks, prints, and answers signals."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from yarnps.client import exits
from yarnps.client.follow import End, Follow, how_to_attach
from yarnps.client.job import JobView, Sight
from yarnps.client.output import Say, say

if TYPE_CHECKING:
    from yarnps.client.screen import Screen
    from yarnps.status import Status

# At first something new is to be seen at any moment; later a look a second is enough.
FAST_S, SLOW_S, FAST_FOR_S = 0.2, 1.0, 10.0
# After the job was asked to end, it is watched this long for its last words.
KILL_LIMIT_S = 60.0

QUESTION = "\nThe job runs on. [l]eave it running, [k]ill it, or Enter to keep watching: "


@dataclass(frozen=True)
class Watched:
    """How watching ended."""

    end: End
    status: Status | None


class Printer(Protocol):
    """Shows what `Follow` says."""

    def show(self, lines: list[str], sight: Sight) -> None:
        """New lines, and the newest sight."""

    def pause(self) -> None:
        """Leave the terminal to a question."""

    def close(self) -> None:
        """No more will be shown."""


class Plain:
    """Lines only."""

    def __init__(self, out: Say = say) -> None:
        self._say = out

    def show(self, lines: list[str], sight: Sight) -> None:
        for line in lines:
            self._say(line)

    def pause(self) -> None:
        """Nothing is in the way."""

    def close(self) -> None:
        """Nothing to undo."""


class Signals:
    """Remembers signals, and wakes whoever waits for the next look."""

    def __init__(self) -> None:
        self._caught: list[int] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in self._caught:
            raise KeyboardInterrupt  # a second Ctrl-C while a slow call holds us up
        self._caught.append(number)
        os.write(self._write, b".")

    def wait(self, seconds: float) -> None:
        """Wait, at most until a signal comes."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 1024)

    def take(self) -> int | None:
        """The oldest signal that has not been taken."""
        return self._caught.pop(0) if self._caught else None

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


@contextmanager
def _signals() -> Iterator[Signals]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signals = Signals()
    # What was ignored before (nohup) stays ignored.
    old = {n: signal.getsignal(n) for n in numbers}
    try:
        for number in numbers:
            if old[number] is not signal.SIG_IGN:
                signal.signal(number, signals.handle)
        yield signals
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signals.close()


def make_printer(application: str) -> Printer:
    """A live screen on a terminal, else plain lines."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from yarnps.client.screen import Screen

        screen: Screen = Screen(application)
        return screen
    return Plain()


def watch(view: JobView, *, kill_on_exit: bool = False, printer: Printer | None = None) -> Watched:
    """Follow a job to its end, or until the user or a signal ends the watching.

    Parameters
    ----------
    view
        The job.
    kill_on_exit
        End the job whenever the watching ends early.
    """
    shown = printer or make_printer(view.application)
    follow = Follow(view.application, time.monotonic())
    started = time.monotonic()
    try:
        with _signals() as signals:
            while True:
                sight = view.look(follow.last_event)
                now = time.monotonic()
                lines = follow.see(sight, now)
                shown.show(lines, sight)
                if follow.end is not None:
                    return Watched(follow.end, follow.status)
                number = signals.take()
                if number is not None:
                    end = _interrupted(number, view, kill_on_exit, shown)
                    if end is not None:
                        return Watched(end, follow.status)
                signals.wait(FAST_S if now - started < FAST_FOR_S else SLOW_S)
    finally:
        shown.close()


def _interrupted(number: int, view: JobView, kill_on_exit: bool, shown: Printer) -> End | None:
    """What a signal means; None: keep watching."""
    name = signal.Signals(number).name
    if kill_on_exit:
        return kill_and_wait(view, f"the client got {name}, and --kill-on-exit is set")
    if number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty():
        shown.pause()
        answer = _ask()
        if answer.startswith("k"):
            return kill_and_wait(view, "killed by the user")
        if not answer:
            return None
    return End(exits.LOST, None, how_to_attach(view.application))


def _ask() -> str:
    try:
        return input(QUESTION).strip().lower()
    except (EOFError, KeyboardInterrupt):
        return "leave"


def kill_and_wait(view: JobView, reason: str) -> End:
    """End the job and wait for its last words."""
    from yarnps.status import Outcome

    view.kill(reason)
    follow = Follow(view.application, time.monotonic())
    deadline = time.monotonic() + KILL_LIMIT_S
    while time.monotonic() < deadline:
        follow.see(view.look(follow.last_event), time.monotonic())
        if follow.end is not None:
            return follow.end
        time.sleep(FAST_S)
    outcome = Outcome("KILLED", reason, "killed_by_user")
    return End(exits.KILLED, outcome, f"Killed: {reason}; its processes have not gone yet.")
