"""The journal: every input that changed the job's state, in order.

The state machines of the ApplicationMaster (AM) are deterministic, so that feeding them the same
inputs again gives the same state. The journal lives in the AM's container folder: it outlives the
Python process, not the container (for that there are cuts). A record is written before anything
that follows from it is sent. A kill of the process cannot lose what has been handed to the kernel,
so the file is flushed and not synced.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

# Beyond this size a snapshot takes the place of the records, if they have come to more than it: the
# snapshot of a job with very many splits is larger than this by itself.
COMPACT_BYTES = 16 << 20


class Journal:
    """Append-only file of JSON records, the first of which may be a snapshot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        cut_torn_line(path)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 -- kept open for its life
        self._size = self._file.tell()
        self._snapshot_size = 0
        self._waiting = bytearray()

    def append(self, record: bytes, *, soon: bool = False) -> None:
        """Write one record, which is JSON; it is with the kernel when this returns.

        Parameters
        ----------
        soon
            Nothing follows from it yet: it may wait for the next one, or for `flush`.
        """
        self._waiting += record + b"\n"
        if not soon:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            self._file.write(self._waiting)
            self._size += len(self._waiting)
            self._waiting.clear()

    @property
    def wants_compaction(self) -> bool:
        """Whether it has grown so much that a snapshot should replace it."""
        return self._size > max(COMPACT_BYTES, 2 * self._snapshot_size)

    def compact(self, snapshot: dict[str, Any]) -> None:
        """Replace all records by `snapshot`; the old file stays until the new one is whole.

        The snapshot holds what waits as well.
        """
        self._waiting.clear()
        fresh = self.path.with_suffix(".new")
        with open(fresh, "wb") as out:
            out.write(json.dumps({"snapshot": snapshot}, separators=(",", ":")).encode() + b"\n")
            out.flush()
            os.fsync(out.fileno())
        self._file.close()
        os.replace(fresh, self.path)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self._size = self._snapshot_size = self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self.flush()
        self._file.close()


def cut_torn_line(path: Path) -> None:
    """Take away a last line that its writer did not finish, so that the next one stands alone."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            torn = len(data) - whole
            logger.warning("%s: %d bytes of an incomplete record cut off", path.name, torn)
            file.truncate(whole)


def replay(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, oldest first."""
    cut_torn_line(path)
    if not path.exists():
        return
    with open(path, "rb") as lines:
        for line in lines:
            yield json.loads(line)
