"""The event log: what happened to the job, for people and for programs.

Every event has a sequence number that grows over the restarts of the AM. Events are kept in memory
for the page, appended to a file in the AM's folder at once (a restarted AM reads it back, and knows
from a second file which of them were uploaded), and uploaded in pieces to the job directory by the
shell.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path

from yarnps.am.shell.journal import cut_torn_line
from yarnps.status import Event, to_dict, to_json

logger = logging.getLogger(__name__)

# Enough for a page and for `status --events-after`; the whole log is in the job directory.
KEPT = 5000
# The numbers of one attempt; those of the next one come after them, whatever was lost with its log.
NUMBERS_OF_AN_ATTEMPT = 1_000_000


class EventLog:
    """Collects events and hands out those that have not been uploaded yet."""

    def __init__(self, path: Path, attempt: int = 1) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._unsent: deque[str] = deque()  # its ends may be used by several threads
        self._next = (attempt - 1) * NUMBERS_OF_AN_ATTEMPT + 1
        self._sent_path = path.with_suffix(".sent")
        self._sent = int(self._sent_path.read_text()) if self._sent_path.exists() else 0
        cut_torn_line(path)
        if path.exists():
            for line in path.read_text().splitlines():
                self._remember(line)
        self._file = open(path, "a", buffering=1)  # noqa: SIM115 -- kept open for its life

    def _remember(self, line: str) -> None:
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError):
            logger.warning("event log: a line cannot be read and is left out: %.80s", line)
            return
        self._events.append(event)
        self._next = event.seq + 1
        if event.seq > self._sent:
            self._unsent.append(line)

    def add(self, event: Event) -> Event:
        """Number the event and log it; returns it as logged."""
        numbered = Event(**{**to_dict(event), "seq": self._next})
        self._next += 1
        self._events.append(numbered)
        line = to_json(numbered)
        self._file.write(line + "\n")
        self._unsent.append(line)
        logger.info("event %s: %s", numbered.kind, numbered.text)
        return numbered

    def after(self, seq: int = 0, limit: int = 500) -> tuple[Event, ...]:
        """The newest `limit` events with a number above `seq`, oldest first."""
        newer = [e for e in self._events if e.seq > seq]
        return tuple(newer[-limit:])

    def take_unsent(self) -> list[str]:
        """The lines that have not been taken for upload yet."""
        return [self._unsent.popleft() for _ in range(len(self._unsent))]

    def mark_sent(self, lines: list[str]) -> None:
        """These lines are uploaded. A process that dies before saying so uploads them again."""
        self._sent = max([self._sent, *(int(json.loads(line)["seq"]) for line in lines)])
        fresh = self._sent_path.with_suffix(".new")
        fresh.write_text(str(self._sent))
        fresh.replace(self._sent_path)

    def put_back(self, lines: list[str]) -> None:
        """Lines whose upload failed: they come first the next time."""
        self._unsent.extendleft(reversed(lines))

    def close(self) -> None:
        """Close the file; nothing can be added afterwards."""
        self._file.close()
