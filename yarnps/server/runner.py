"""A job's own functions on the servers: one after another, in a process beside this one.

The server is one thread: a function must never be able to hold it up. So a shard's rows are
copied, the copy goes to `function_process`, and requests are served meanwhile; a function that
has not answered in time is ended together with its process, and the next one gets a new process.
"""

from __future__ import annotations

import logging
import queue
import socket
import subprocess
import sys
import threading
from collections import deque
from multiprocessing.connection import Connection
from typing import NamedTuple

from yarnps.server.function_process import Outcome, Work

log = logging.getLogger(__name__)

# Until the process has imported numpy; on a full machine that takes seconds.
_START_S = 60.0
_END_S = 10.0


class _Job(NamedTuple):
    number: int
    work: Work
    limit: float


class Done(NamedTuple):
    """A request's number and what came of it."""

    number: int
    outcome: Outcome


class Runner:
    """Runs one piece of work at a time; `take` gives what is finished."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._done: deque[Done] = deque()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self.busy = False

    def start(self, number: int, work: Work, limit: float) -> None:
        """Begin; the runner must not be busy."""
        self.busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="functions", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(number, work, limit))

    def take(self) -> Done | None:
        """What has been finished since, if anything."""
        if not self._done:
            return None
        self.busy = False
        return self._done.popleft()

    def close(self) -> None:
        """End the process."""
        if self._thread is not None:
            self._kill()
            self._jobs.put(None)
            self._thread.join(_END_S)

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                outcome = self._run(job)
            except (OSError, EOFError) as error:
                self._kill()
                outcome = Outcome([], f"its process has ended while it ran ({error!r})")
            self._done.append(Done(job.number, outcome))

    def _run(self, job: _Job) -> Outcome:
        connection = self._connected()
        connection.send(job.work)
        if not connection.poll(job.limit):
            self._kill()
            return Outcome(
                [], f"it has not ended within {job.limit:g} s (give the call a longer limit)"
            )
        outcome = connection.recv()
        assert isinstance(outcome, Outcome)
        if outcome.trace:
            log.warning("%s failed:\n%s", job.work.function, outcome.trace)
        return outcome

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        ours, theirs = socket.socketpair()
        # Not with -m: both ends must know the records by the same module.
        program = "from yarnps.server.function_process import main; main()"
        command = [sys.executable, "-c", program, str(theirs.fileno())]
        # In this process's group: whoever ends the server's group ends it, too.
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        connection = Connection(ours.detach())
        if not connection.poll(_START_S):
            connection.close()
            raise EOFError(f"it has not started within {_START_S:g} s")
        connection.recv()
        self._connection = connection
        return connection

    def _kill(self) -> None:
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        if process is not None:
            process.kill()
            process.wait(_END_S)
        if connection is not None:
            connection.close()
