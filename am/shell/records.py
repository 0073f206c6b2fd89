"""What the ApplicationMaster writes down in the job directory, during the job and at its end."""

from __future__ import annotations

import logging
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

# Pieces of the event log are numbered within one process of the AM; so many fit.
PIECES_OF_PROCESS = 1_000_000


class Records:
    """Events in pieces, the status document, the outcome. Blocking: call it in a thread."""

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
        self._piece = 0

    def number_from(self, am_restarts: int) -> None:
        """Pieces of a restarted process do not replace those of the one before."""
        self._piece = am_restarts * PIECES_OF_PROCESS

    def send_events(self) -> None:
        """Write the events that are not in the job directory yet."""
        lines = self._events.take_unsent()
        if not lines:
            return
        self._piece += 1
        try:
            self._job_dir.write_events(self._config.attempt, self._piece, lines)
            self._events.mark_sent(lines)
        except (YarnpsError, OSError) as error:
            logger.warning("events could not be written, they are tried again: %s", error)
            self._events.put_back(lines)

    def write_status(self) -> None:
        """Replace the status document."""
        try:
            self._job_dir.write(STATUS, to_json(self._status()).encode())
        except (YarnpsError, OSError) as error:
            logger.warning("the status could not be written, it is tried again: %s", error)

    def newest_attempt(self) -> int:
        """The attempt that owns the job directory; 0 when that cannot be read now."""
        try:
            return self._job_dir.newest_attempt()
        except (YarnpsError, OSError) as error:
            logger.warning("the attempt's marker could not be read: %s", error)
            return 0

    def leave_word(self, outcome: Outcome) -> None:
        """Write down how the job ended.

        The outcome goes before anything that ends the application: with it in place no attempt
        runs this job again.
        """
        self._job_dir.write(STATUS, to_json(self._status()).encode())
        self._job_dir.write(OUTCOME, to_json(outcome).encode())
        (self._folder / ENDED_MARK).touch()
        self.send_events()
        try:
            chores.remove_leftovers(self._config)
            chores.remove_keys(self._job_dir)
        except YarnpsError as error:
            logger.warning("what is of no use any more could not be removed: %s", error)
