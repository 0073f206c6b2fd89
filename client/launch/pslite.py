"""ps-lite's scheduler, in the launcher."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from yarnps.client import exits
from yarnps.client.launch.meeting import Meeting, names
from yarnps.client.launch.plan import Task, seats, task
from yarnps.pslite import scheduler as ps
from yarnps.pslite.barriers import Passed, Waiting
from yarnps.pslite.scheduler import Scheduler
from yarnps.pslite.van import Van
from yarnps.pslite.wire import HALL, Address, Seat

# The sentence about a barrier that is waited at comes first after this long, then ever more seldom.
BARRIER_NOTE_S: Final = 60.0


class PsLite(Meeting):
    """See the module's text."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        options = self.options
        self._seats = seats(options)
        resend = {**self.environ, **options.env}.get("PS_RESEND", "0") not in ("", "0")
        self._scheduler = Scheduler(options.worker.count, options.server.count, resend=resend)
        self._van = Van(self._heard, self._failed)
        self._host = ""
        self._first_joined: float | None = None
        self._ended: list[Seat] = []
        self._noted: dict[tuple[int, float], float] = {}

    async def open(self, host: str) -> None:
        self._host = host
        self._scheduler.hall_opened(self._van.open(HALL))

    def task(self, seat: Seat) -> Task:
        here = Address(self._host, self._van.open(seat))
        self._scheduler.opened(seat, here)
        return task(self.options, seat, here, self.environ)

    async def close(self) -> None:
        self._van.stop()

    def ended_well(self, seat: Seat, left: Sequence[Seat]) -> None:
        early = seat.role == "server" and self._scheduler.complete
        workers = [other for other in left if other.role == "worker"]
        if early and workers and not self._scheduler.may_leave(seat):
            text = f"{seat} has ended, with success, while {names(workers)} need it"
            self.verdict.give(exits.FAILED, text)
            return
        self._ended.append(seat)
        self._carry_out(self._scheduler.ended(seat, well=True, now=time.monotonic()))
        self._check_absent()

    def _check_absent(self) -> None:
        """A process that ended without a word is waited for by all that have registered."""
        if self._first_joined is None or self._scheduler.complete:
            return
        absent = [seat for seat in self._ended if not self._scheduler.has_joined(seat)]
        if absent:
            text = (
                f"{names(absent)} ended, with success, before registering with the scheduler, and "
                "the others would wait for ever: does the program come to its kvstore (ps-lite's "
                "start) in every role?"
            )
            self.verdict.give(exits.FAILED, text)

    # ------------------------------------------------------------ the scheduler

    def _failed(self, error: Exception) -> None:
        self.verdict.give(exits.FAILED, f"the scheduler hears nothing any more: {error}")

    def _heard(self, seat: Seat, sender: bytes, message: bytes) -> None:
        self._carry_out(self._scheduler.heard(seat, sender, message, time.monotonic()))

    def _carry_out(self, effects: Sequence[ps.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ps.Send):
                self._van.send(*effect)
            elif isinstance(effect, ps.Joined):
                self.say(f"{effect.seat} has registered from {effect.address}", debug=True)
                self._first_joined = self._first_joined or time.monotonic()
                self._check_absent()
            elif isinstance(effect, ps.Complete):
                self.say("all processes have registered", debug=True)
            elif isinstance(effect, Passed):
                text = f"barrier {effect.nth} of group {effect.group} is over"
                self.say(text, debug=True)
            else:
                self.say(effect.text)

    # ------------------------------------------------------------ limits

    def look(self, now: float) -> None:
        joined, limit_s = self._first_joined, self.limits.start_s
        if joined is not None and not self._scheduler.complete and now - joined > limit_s:
            absent = [seat for seat in self._seats if not self._scheduler.has_joined(seat)]
            text = (
                f"{names(absent)} did not register within {limit_s:.0f} s after the first process "
                "had (--start-timeout)"
            )
            self.verdict.give(exits.START_TIMEOUT, text)
        for waiting in self._scheduler.waiting():
            # Servers wait for the end from their start on.
            if any(seat.role == "worker" for seat in waiting.present):
                self._look_at_barrier(waiting, now)

    def _look_at_barrier(self, waiting: Waiting, now: float) -> None:
        """Say who keeps others waiting; in the end, end the launch for it."""
        waited = now - waiting.since
        text = f"{names(waiting.present)} have waited at a barrier for {waited:.0f} s for "
        text += names(waiting.missing)
        if waited > self.limits.barrier_s:
            self.verdict.give(exits.FAILED, f"{text} (--barrier-timeout)")
            return
        key = (waiting.group, waiting.since)
        if waited >= self._noted.get(key, BARRIER_NOTE_S):
            self._noted[key] = 2 * waited
            self.say(text)
