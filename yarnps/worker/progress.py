"""What the ApplicationMaster is told of leases: how far they are, and what is wrong with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import control_pb2 as pb
from yarnps.worker.leases import Held

# Progress of a split in work is told this often; the end of a split at once.
PROGRESS_S = 1.0

# Bad records that are passed on with one message.
_BAD_SHOWN = 5


class Progress:
    """Says how far leases are, from the program's thread and from the link's.

    Parameters
    ----------
    say
        Sends a message to the ApplicationMaster.
    """

    def __init__(self, say: Callable[[pb.FromRole], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._last = 0.0
        self._untold: Held | None = None
        self._bad: list[pb.BadRecord] = []

    def note(self, lease: Held, raw: Any) -> None:
        """What was read of the split with a batch, bad records included."""
        lease.bytes = raw.bytes_read
        lease.bad_records = raw.bad_total
        with self._lock:
            for bad in raw.bad[: _BAD_SHOWN - len(self._bad)]:
                self._bad.append(
                    pb.BadRecord(path=bad.path, line=bad.line, error=bad.error, text=bad.text)
                )

    def tell(self, lease: Held) -> None:
        """Progress of a split in work, at most once a second."""
        if time.monotonic() - self._last >= PROGRESS_S:
            self.say(lease)
        else:
            self._untold = lease

    def tell_rest(self) -> None:
        """What was not told because the last word was too short a time ago."""
        lease = self._untold
        late = time.monotonic() - self._last >= PROGRESS_S
        if lease is not None and late and not (lease.revoked or lease.done):
            self.say(lease)

    def say(self, lease: Held, sums: Mapping[str, NDArray[np.float64]] | None = None) -> None:
        """How far a lease is, now."""
        with self._lock:
            self._last, self._untold = time.monotonic(), None
            progress = lease.progress()
            progress.bad.extend(self._bad)
            self._bad.clear()
            for name, values in (sums or {}).items():
                progress.sums.add(name=name, values=values.tolist())
            self._say(pb.FromRole(progress=progress))

    def failed(self, lease: Held, error: Exception) -> None:
        """A split cannot be read."""
        from yarnps.data import FileChanged

        self._say(
            pb.FromRole(
                split_failed=pb.SplitFailed(
                    epoch=lease.epoch,
                    phase=lease.phase,
                    split=lease.split.id,
                    token=lease.token,
                    error=str(error) or type(error).__name__,
                    changed=isinstance(error, FileChanged),
                )
            )
        )
