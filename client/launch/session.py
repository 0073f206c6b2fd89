"""The processes of a launch from their start to their end.

The first process that fails ends all others; its status is that of the launch. What could keep the
processes waiting for ever ends the launch as well, with a sentence that names who is missing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from yarnps._signals import signal_name
from yarnps.client import exits
from yarnps.client.launch.meeting import Meeting, Verdict, names
from yarnps.client.launch.options import Limits, Options
from yarnps.client.launch.places import Broken, Ended, Line, Place
from yarnps.client.launch.plan import own_address, seats
from yarnps.client.launch.pslite import PsLite
from yarnps.client.launch.rabit import Rabit
from yarnps.pslite.wire import Seat

# After the last worker the servers have this long to end by themselves.
SERVERS_END_S: Final = 30.0
LOOK_S: Final = 1.0

_STOPPED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Session:
    """One launch.

    Parameters
    ----------
    say
        Called with lines about the launch; with `debug=True`: only for those who look for faults.
    """

    def __init__(
        self,
        options: Options,
        place: Place,
        environ: Mapping[str, str],
        say: Callable[..., None],
        limits: Limits,
    ) -> None:
        self._options = options
        self._place = place
        self._say = say
        self._seats = seats(options)
        self._verdict = Verdict()
        kind = PsLite if options.server.count else Rabit
        self._meeting: Meeting = kind(options, environ, self._verdict, say, limits)
        self._codes: dict[Seat, int] = {}
        self._workers_ended: float | None = None

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
            await self._meeting.open(own_address(self._options, self._place.first_host))
            tasks = [self._meeting.task(seat) for seat in self._seats]
            await self._place.start(tasks, self._hear)
            while not await self._verdict.wait(LOOK_S):
                self._look(time.monotonic())
            if self._verdict.text:
                self._say(self._verdict.text)
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)
            await self._place.end()
            await self._meeting.close()
        assert self._verdict.code is not None
        return self._verdict.code

    def _hear(self, event: Line | Ended | Broken) -> None:
        if isinstance(event, Line):
            self._show(event)
        elif isinstance(event, Broken):
            self._verdict.give(exits.FAILED, event.text)
        else:
            self._ended(event.seat, event.code)

    def _show(self, line: Line) -> None:
        who = self._options.launcher if line.seat is None else line.seat
        stream = sys.stderr if line.is_error else sys.stdout
        try:
            print(f"[{who}] {line.text}", file=stream, flush=True)
        except BrokenPipeError:
            # Where the reader has gone (`| head`), no line may stop the launch's own end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            self._verdict.give(exits.FAILED, "nobody reads the output any more: all are ended")

    def _ended(self, seat: Seat, code: int) -> None:
        self._say(f"{seat} has ended with status {code}", debug=True)
        self._codes[seat] = code
        if code != 0:
            self._verdict.give(code, f"{seat} {how(code)}: all others are ended")
            return
        left = [other for other in self._seats if other not in self._codes]
        self._meeting.ended_well(seat, left)
        if not left:
            self._verdict.give(exits.SUCCEEDED, "")
        elif all(other.role == "server" for other in left):
            self._workers_ended = self._workers_ended or time.monotonic()

    def _look(self, now: float) -> None:
        self._meeting.look(now)
        if self._workers_ended is not None and now - self._workers_ended > SERVERS_END_S:
            left = [seat for seat in self._seats if seat not in self._codes]
            text = (
                f"all workers have ended with success; {names(left)} did not end within "
                f"{SERVERS_END_S:.0f} s after them, and is ended now"
            )
            self._verdict.give(exits.SUCCEEDED, text)

    def _stopped(self, number: signal.Signals) -> None:
        self._verdict.give(128 + number, f"stopped by {signal_name(number)}")


def how(code: int) -> str:
    """How a process ended, from its status as a shell gives it."""
    if code - 128 in set(signal.Signals):
        return f"was ended by {signal_name(code - 128)}"
    return f"failed with status {code}"
