"""What the ApplicationMaster writes down in the job directory, during the job and at its end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from yarnps._errors import YarnpsError
from yarnps.am.config import Config
from yarnps.am.shell import chores
from yarnps.am.shell.events import EventLog
from yarnps.am.supervisor import ENDED_MARK
from yarnps.jobdir import OUTCOME, STATUS, JobDir
from yarnps.status import Outcome, Status, to_json

logger = logging.getLogger(__name__)

# A file system that is away when the job ends may come back: without an outcome the job would be
# run again.
OUTCOME_LIMIT_S = 120.0
AGAIN_S = 2.0


class Records:
    """Events in pieces, the status document, the outcome.

    All blocking work is done in threads. `status` is called in the loop's: there, nothing that it
    reads changes meanwhile.
    """

    def __init__(
        self,
        config: Config,
        job_dir: JobDir,
        events: EventLog,
        status: Callable[[], Status],
        folder: Path,
    ) -> None:
        self._config = config
        self._job_dir = job_dir
        self._events = events
        self._status = status
        self._folder = folder
        # A task that is cancelled leaves its thread at work: two must not send at one time.
        self._sending = threading.Lock()
        # Nor may a status from before the end replace the last one.
        self._writing = threading.Lock()
        self._ended = False

    async def send_events(self) -> None:
        """Write the events that are not in the job directory yet."""
        await asyncio.to_thread(self._send_events)

    def _send_events(self) -> None:
        with self._sending:
            lines = self._events.take_unsent()
            if not lines:
                return
            try:
                self._job_dir.write_events(self._config.attempt, lines)
                self._events.mark_sent(lines)
            except (YarnpsError, OSError) as error:
                logger.warning("events could not be written, they are tried again: %s", error)
                self._events.put_back(lines)

    async def write_status(self) -> None:
        """Replace the status document."""
        status = self._status()
        try:
            await asyncio.to_thread(self._write_status, status)
        except (YarnpsError, OSError) as error:
            logger.warning("the status could not be written, it is tried again: %s", error)

    def _write_status(self, status: Status) -> None:
        with self._writing:
            if not self._ended:
                self._job_dir.write(STATUS, to_json(status).encode())

    async def newest_attempt(self) -> int:
        """The attempt that owns the job directory; 0 when that cannot be read now."""
        try:
            return await asyncio.to_thread(self._job_dir.newest_attempt)
        except (YarnpsError, OSError) as error:
            logger.warning("the attempt's marker could not be read: %s", error)
            return 0

    async def leave_word(self, outcome: Outcome) -> None:
        """Write down how the job ended.

        The outcome goes before anything that ends the application: with it in place no attempt
        runs this job again.

        Raises
        ------
        YarnpsError, OSError
            It could not be written within `OUTCOME_LIMIT_S`.
        """
        status, deadline = self._status(), time.monotonic() + OUTCOME_LIMIT_S
        while True:
            try:
                await asyncio.to_thread(self._write_outcome, status, outcome)
                break
            except (YarnpsError, OSError) as error:
                if time.monotonic() > deadline:
                    raise
                logger.warning("the outcome could not be written, it is tried again: %s", error)
                await asyncio.sleep(AGAIN_S)
        await self.send_events()
        await asyncio.to_thread(self._tidy)

    def _write_outcome(self, status: Status, outcome: Outcome) -> None:
        with self._writing:
            self._ended = True
            self._job_dir.write(STATUS, to_json(status).encode())
        self._job_dir.write(OUTCOME, to_json(outcome).encode())
        (self._folder / ENDED_MARK).touch()

    def _tidy(self) -> None:
        try:
            chores.remove_leftovers(self._config)
            chores.remove_keys(self._job_dir)
        except (YarnpsError, OSError) as error:
            logger.warning("what is of no use any more could not be removed: %s", error)
