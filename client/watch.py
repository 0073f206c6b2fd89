"""Watching a job from a terminal or a script: looks, prints, and answers signals."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from yarnps.client import exits
from yarnps.client.follow import End, Follow, how_to_attach
from yarnps.client.job import JobView, Sight
from yarnps.client.output import Say, say
from yarnps.client.signals import Signals, kept

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


def make_printer(application: str) -> Printer:
    """A live screen on a terminal, else plain lines."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from yarnps.client.screen import Screen

        screen: Screen = Screen(application)
        return screen
    return Plain()


def watch(
    view: JobView,
    *,
    kill_on_exit: bool = False,
    printer: Printer | None = None,
    signals: Signals | None = None,
) -> Watched:
    """Follow a job to its end, or until the user or a signal ends the watching.

    Parameters
    ----------
    view
        The job.
    kill_on_exit
        End the job whenever the watching ends early.
    signals
        What has remembered signals since before the watching, if there is such a thing.
    """
    shown = printer or make_printer(view.application)
    follow = Follow(view.application, time.monotonic())
    started = time.monotonic()
    try:
        with nullcontext(signals) if signals else kept() as caught:
            caught.remember()
            while True:
                sight = view.look(follow.last_event)
                now = time.monotonic()
                lines = follow.see(sight, now)
                shown.show(lines, sight)
                if follow.end is not None:
                    return Watched(follow.end, follow.status)
                number = caught.take()
                if number is not None:
                    end = _interrupted(number, view, kill_on_exit, shown)
                    if end is not None:
                        return Watched(end, follow.status)
                caught.wait(FAST_S if now - started < FAST_FOR_S else SLOW_S)
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
