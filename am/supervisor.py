"""``python -m yarnps.am.supervisor``: keeps the ApplicationMaster's process running.

It starts ``python -m yarnps.am`` and starts it again when it has died, or when its loop has not
ticked for 30 s. Three deaths in two minutes end this attempt of the application, with the cause.

What the ApplicationMaster tells by its exit status:

====================== =====================================================================
`EXIT_ENDED` (0)       the application has ended for good
`EXIT_ATTEMPT_OVER`    this attempt must not go on here (a newer one has taken over)
anything else          it died: it is started again
====================== =====================================================================

A file `ENDED_MARK` in its folder says that the outcome is written down and nothing is left to do
but to exit: from then on it is not started again, however it exits.

Little but the standard library: this process lives as long as the application and should weigh
nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnps._signals import signal_name

EXIT_ENDED = 0
EXIT_ATTEMPT_OVER = 64
# The supervisor's own: the ApplicationMaster dies again and again.
EXIT_GAVE_UP = 65

# Descriptor of the pipe to which the loop writes a byte, and how often it should.
TICK_FD = "YARNPS_TICK_FD"
TICK_S = 1.0

# How often this container's ApplicationMaster has been started before.
START = "YARNPS_AM_START"

ENDED_MARK = "yarnps-ended"

# What the fork server of a local job imports; without it there is no fork server.
FORK_PACKAGES = "YARNPS_FORK_PACKAGES"

_LONGEST_STEP_S = 1.0
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Limits:
    """When to act. `first_tick_s` is longer: it includes imports and the reading of the journal."""

    tick_s: float = 30.0
    first_tick_s: float = 120.0
    deaths: int = 3
    window_s: float = 120.0
    term_grace_s: float = 10.0
    dump_s: float = 1.0


class Ticker:
    """The ApplicationMaster's end: call `tick` from the loop, about every `TICK_S`."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        if fd is not None:
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)

    @classmethod
    def from_environment(cls) -> Ticker:
        """The pipe of the supervisor, if there is one."""
        fd = os.environ.pop(TICK_FD, None)
        return cls(None if fd is None else int(fd))

    def tick(self) -> None:
        """Tell that the loop runs."""
        if self._fd is None:
            return
        try:
            os.write(self._fd, b".")
        except BlockingIOError:  # the supervisor is slow: it has enough to read
            return
        except OSError:  # the supervisor is gone; the job goes on without it
            os.close(self._fd)
            self._fd = None


class Supervisor:
    """Runs a command until it has ended for good.

    Parameters
    ----------
    command
        The ApplicationMaster's.
    folder
        Its working directory.
    keep
        Descriptors that it inherits.
    farewell
        Called with the cause when the attempt is given up; it may take its time, within reason.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        keep: Sequence[int] = (),
        limits: Limits | None = None,
        farewell: Callable[[str], None] | None = None,
    ) -> None:
        self._command = list(command)
        self._folder = folder
        self._keep = tuple(keep)
        self._limits = limits or Limits()
        self._farewell = farewell
        self._deaths: deque[float] = deque()
        self._starts = 0
        self._terminate = False
        self._wake_in, self._wake_out = os.pipe()

    def run(self) -> int:
        """Until the end; the exit status of the supervisor."""
        self._listen_to_signals()
        while True:
            status, hung = self._one_life()
            if status == EXIT_ENDED or self._ended_for_good():
                return EXIT_ENDED
            if self._terminate:
                say("ended by SIGTERM")
                return 128 + signal.SIGTERM
            if status == EXIT_ATTEMPT_OVER:
                say("the ApplicationMaster says that this attempt is over")
                return EXIT_ATTEMPT_OVER
            cause = f"the ApplicationMaster {'hung' if hung else 'died'} ({_in_words(status)})"
            if self._too_many_deaths():
                limits = self._limits
                cause += f" {limits.deaths} times within {limits.window_s:.0f} s: {last_line()}"
                say(f"{cause}; this attempt ends")
                if self._farewell is not None:
                    self._farewell(cause)
                return EXIT_GAVE_UP
            say(f"{cause}; starting it again")

    def _listen_to_signals(self) -> None:
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # for the wake-up only
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_terminate", True))

    def _ended_for_good(self) -> bool:
        return (self._folder / ENDED_MARK).exists()

    def _too_many_deaths(self) -> bool:
        now = time.monotonic()
        self._deaths.append(now)
        while now - self._deaths[0] > self._limits.window_s:
            self._deaths.popleft()
        return len(self._deaths) >= self._limits.deaths

    # ------------------------------------------------------------------ one process

    def _one_life(self) -> tuple[int, bool]:
        """Start the ApplicationMaster and wait for its end: status, and whether it hung."""
        tick_in, tick_out = os.pipe()
        os.set_blocking(tick_in, False)
        env = {**os.environ, TICK_FD: str(tick_out), START: str(self._starts)}
        self._starts += 1
        try:
            child = subprocess.Popen(
                self._command, cwd=self._folder, env=env, pass_fds=[tick_out, *self._keep]
            )
        finally:
            os.close(tick_out)
        say(f"started the ApplicationMaster (pid {child.pid})")
        try:
            return self._watch(child, tick_in)
        finally:
            os.close(tick_in)

    def _watch(self, child: subprocess.Popen[bytes], tick_in: int) -> tuple[int, bool]:
        limits = self._limits
        silent, limit = 0.0, limits.first_tick_s
        kill_at: float | None = None
        last = time.monotonic()
        while child.poll() is None:
            self._wait(tick_in)
            now = time.monotonic()
            # Steps are cut: time in which this process was stopped as well says nothing.
            silent += min(now - last, 2 * _LONGEST_STEP_S)
            last = now
            if _drain(tick_in):
                silent, limit = 0.0, limits.tick_s
            if self._terminate and kill_at is None:
                child.terminate()
                kill_at = now + limits.term_grace_s
            if kill_at is not None and now > kill_at:
                child.kill()
            if silent > limit and kill_at is None:
                self._kill_hung(child, silent)
                return child.wait(), True
        return child.returncode, False

    def _wait(self, tick_in: int) -> None:
        """Until a tick, a signal, or one step of time."""
        step = min(_LONGEST_STEP_S, self._limits.tick_s / 4)
        ready, _, _ = select.select([self._wake_in, tick_in], [], [], step)
        if self._wake_in in ready:
            _drain(self._wake_in)
        elif tick_in in ready:
            # At the end of the stream (its exit is near) select returns at once, always.
            with contextlib.suppress(InterruptedError):
                select.select([self._wake_in], [], [], 0.01)

    def _kill_hung(self, child: subprocess.Popen[bytes], silent: float) -> None:
        """Have it write down where it hangs (its SIGUSR1 dumps the stacks), then kill it."""
        say(f"the ApplicationMaster's loop has not ticked for {silent:.0f} s: killing it")
        child.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(self._limits.dump_s)
        child.kill()


def _drain(fd: int) -> bool:
    """Read what is there; whether there was anything."""
    try:
        return bool(os.read(fd, 65536))
    except BlockingIOError:
        return False


def _in_words(status: int) -> str:
    return f"exit status {status}" if status >= 0 else signal_name(-status)


def say(text: str) -> None:
    """A line in the log."""
    print(time.strftime("%Y-%m-%d %H:%M:%S"), "SUPERVISOR", text, file=sys.stderr, flush=True)


def last_line() -> str:
    """The last line that the ApplicationMaster wrote to the standard error that it shares with us.

    Only where that is a file, as it is in a container.
    """
    try:
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return "see its output"
        with open("/proc/self/fd/2", "rb") as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = f.read().decode(errors="replace").splitlines()
    except OSError:
        return "see its output"
    lines = [line for line in lines if line.strip() and " SUPERVISOR " not in line]
    return lines[-1] if lines else "it wrote nothing"


def tell_yarn(cause: str) -> None:
    """Have YARN show the cause; skein's own words would only say that the driver failed."""
    if os.environ.get("YARNPS_CLUSTER") != "yarn":
        return
    command = [sys.executable, "-m", "yarnps.am.clusters.farewell", cause]
    try:
        subprocess.run(command, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        say(f"the cause could not be told to YARN: {e}")


def main() -> int:
    """Supervise the ApplicationMaster of this container."""
    command = [sys.executable, "-m", "yarnps.am", *sys.argv[1:]]
    packages = os.environ.get(FORK_PACKAGES)
    if packages is None:
        return Supervisor(command, Path.cwd(), farewell=tell_yarn).run()
    from yarnps.am.forks import serving

    with serving(packages.split(), Path.cwd()) as descriptor:
        return Supervisor(command, Path.cwd(), keep=[descriptor]).run()


if __name__ == "__main__":
    sys.exit(main())
