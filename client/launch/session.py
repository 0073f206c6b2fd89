"""The processes of a launch from their start to their end, with the scheduler beside them.

The first process that fails ends all others; its status is that of the launch. What could keep the
processes waiting for ever ends the launch as well, with a sentence that names who is missing.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from yarnps.client import exits
from yarnps.client.launch.options import Options
from yarnps.client.launch.places import Broken, Ended, Line, Place
from yarnps.client.launch.plan import Task, own_address, seats, task
from yarnps.pslite import scheduler as ps
from yarnps.pslite.ports import Ports
from yarnps.pslite.scheduler import Scheduler
from yarnps.pslite.wire import Address, Seat

# After the last worker the servers have this long to end by themselves.
SERVERS_END_S: Final = 30.0
# The sentence about a barrier that is waited at comes first after this long, then ever more seldom.
BARRIER_NOTE_S: Final = 60.0
LOOK_S: Final = 1.0

_STOPPED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Verdict:
    """How a launch ends: the first word counts."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.text = ""
        self._given = asyncio.Event()

    def give(self, code: int, text: str) -> None:
        """End the launch with this status."""
        if self.code is None:
            self.code, self.text = code, text
            self._given.set()

    async def wait(self, limit_s: float) -> bool:
        """Whether it is there, after at most so long."""
        try:
            await asyncio.wait_for(self._given.wait(), limit_s)
        except asyncio.TimeoutError:
            return False
        return True


class Session:
    """One launch.

    Parameters
    ----------
    say
        Called with lines about the launch; the second argument: only for those who debug.
    start_limit_s
        Time for all processes to register, counted from the first that does (a batch system may
        let all of them wait).
    """

    def __init__(
        self,
        options: Options,
        place: Place,
        environ: Mapping[str, str],
        say: Callable[..., None],
        start_limit_s: float,
    ) -> None:
        self._options = options
        self._place = place
        self._environ = environ
        self._say = say
        self._start_limit_s = start_limit_s
        self._seats = seats(options)
        resend = {**environ, **options.env}.get("PS_RESEND", "0") not in ("", "0")
        self._scheduler = Scheduler(options.worker.count, options.server.count, resend=resend)
        self._ports = Ports(self._on_message)
        self._verdict = Verdict()
        self._codes: dict[Seat, int] = {}
        self._first_joined: float | None = None
        self._workers_ended: float | None = None
        self._noted: dict[tuple[int, float], float] = {}

    async def run(self) -> int:
        """Run to the end; returns the exit status of the launch.

        Raises
        ------
        YarnpsError
            The processes could not be started.
        """
        loop = asyncio.get_running_loop()
        # What was ignored when we were started (nohup) stays so.
        heeded = [n for n in _STOPPED_BY if signal.getsignal(n) is not signal.SIG_IGN]
        for number in heeded:
            loop.add_signal_handler(number, self._stopped, number)
        try:
            await self._place.start(self._tasks(), self._hear)
            while not await self._verdict.wait(LOOK_S):
                self._look(time.monotonic())
            if self._verdict.text:
                self._say(self._verdict.text)
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)
            await self._place.end()
            self._ports.stop()
        assert self._verdict.code is not None
        return self._verdict.code

    def _tasks(self) -> list[Task]:
        host = own_address(self._options, self._place.first_host)
        found = []
        for seat in self._seats:
            here = Address(host, self._ports.open(seat))
            self._scheduler.opened(seat, here)
            found.append(task(self._options, seat, here, self._environ))
        return found

    # ------------------------------------------------------------ what the processes do

    def _hear(self, event: Line | Ended | Broken) -> None:
        if isinstance(event, Line):
            who = self._options.launcher if event.seat is None else event.seat
            print(
                f"[{who}] {event.text}",
                file=sys.stderr if event.is_error else sys.stdout,
                flush=True,
            )
        elif isinstance(event, Broken):
            self._verdict.give(exits.FAILED, event.text)
        else:
            self._ended(event.seat, event.code)

    def _ended(self, seat: Seat, code: int) -> None:
        self._say(f"{seat} has ended with status {code}", debug=True)
        self._codes[seat] = code
        now = time.monotonic()
        if code != 0:
            self._verdict.give(code, f"{seat} {how(code)}: all others are ended")
            return
        early = seat.role == "server" and self._scheduler.complete
        if early and not self._scheduler.may_leave(seat) and self._left("worker"):
            text = f"{seat} has ended, with success, while {names(self._left('worker'))} need it"
            self._verdict.give(exits.FAILED, text)
            return
        self._carry_out(self._scheduler.ended(seat, well=True, now=now))
        self._check_absent()
        if not self._left("worker"):
            self._workers_ended = self._workers_ended or now
            if not self._left("server"):
                self._verdict.give(exits.SUCCEEDED, "")

    def _left(self, role: str) -> list[Seat]:
        """Those who have not ended."""
        return [s for s in self._seats if s.role == role and s not in self._codes]

    def _check_absent(self) -> None:
        """A process that ended without a word is waited for by all that have registered."""
        if self._first_joined is None or self._scheduler.complete:
            return
        absent = [s for s in self._codes if not self._scheduler.has_joined(s)]
        if absent:
            text = (
                f"{names(absent)} ended, with success, before registering with the scheduler, and "
                "the others would wait for ever: does the program come to its kvstore (ps-lite's "
                "start) in every role?"
            )
            self._verdict.give(exits.FAILED, text)

    # ------------------------------------------------------------ the scheduler

    def _on_message(self, seat: Seat, sender: bytes, message: bytes) -> None:
        now = time.monotonic()
        self._carry_out(self._scheduler.heard(seat, sender, message, now))

    def _carry_out(self, effects: list[ps.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ps.Send):
                self._ports.send(*effect)
            elif isinstance(effect, ps.Joined):
                self._say(f"{effect.seat} has registered from {effect.address}", debug=True)
                self._first_joined = self._first_joined or time.monotonic()
                self._check_absent()
            elif isinstance(effect, ps.Complete):
                self._say("all processes have registered", debug=True)
            elif isinstance(effect, ps.Passed):
                text = f"barrier {effect.nth} of group {effect.group} is over"
                self._say(text, debug=True)
            else:
                self._say(effect.text)

    # ------------------------------------------------------------ limits

    def _look(self, now: float) -> None:
        joined, limit_s = self._first_joined, self._start_limit_s
        if joined is not None and not self._scheduler.complete and now - joined > limit_s:
            absent = [s for s in self._seats if not self._scheduler.has_joined(s)]
            text = (
                f"{names(absent)} did not register within {limit_s:.0f} s after the first process "
                "had (--start-timeout)"
            )
            self._verdict.give(exits.START_TIMEOUT, text)
        if self._workers_ended is not None and now - self._workers_ended > SERVERS_END_S:
            text = (
                f"all workers have ended with success; {names(self._left('server'))} did not end "
                f"within {SERVERS_END_S:.0f} s after them, and is ended now"
            )
            self._verdict.give(exits.SUCCEEDED, text)
        self._note_barriers(now)

    def _note_barriers(self, now: float) -> None:
        """Say who keeps others waiting: nothing here can know whether they ever come."""
        for waiting in self._scheduler.waiting():
            key = (waiting.group, waiting.since)
            if all(seat.role == "server" for seat in waiting.present):
                continue  # servers wait for the end from their start on
            if now - waiting.since < self._noted.get(key, BARRIER_NOTE_S):
                continue
            self._noted[key] = 2 * (now - waiting.since)
            self._say(
                f"{names(waiting.present)} have waited at a barrier for "
                f"{now - waiting.since:.0f} s for {names(waiting.missing)}"
            )

    def _stopped(self, number: signal.Signals) -> None:
        self._verdict.give(128 + number, f"stopped by {signal.Signals(number).name}")


def how(code: int) -> str:
    """How a process ended, from its status as a shell gives it."""
    if code > 128:
        try:
            return f"was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass  # no signal has this number: the program chose the status
    return f"failed with status {code}"


def names(seats: list[Seat] | tuple[Seat, ...]) -> str:
    """`worker 0, worker 1 and server 0`."""
    words = [str(seat) for seat in seats]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
