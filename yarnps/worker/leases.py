"""The leases that a worker holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from yarnps.protocol import control_pb2 as pb

# The lease in work and one ahead.
HOLD = 2


class WholePart(Protocol):
    """BSP: what a lease knows of the part whose stream its split belongs to.

    Attributes
    ----------
    batches
        Of the stream, committed.
    step
        The step that the next batch is for.
    is_early
        Another part in hand is behind this one.
    """

    number: int
    batches: int
    step: int

    @property
    def is_early(self) -> bool: ...

    def put_back(self, parsed: Any, step: int) -> None: ...

    def progress(self, *, ended: bool = False) -> pb.PartProgress: ...

    def split_ended(self, held: Held) -> None: ...

    def revoke(self) -> None: ...


@dataclass(eq=False)
class Held:
    """A lease in hand, with how far it is.

    Attributes
    ----------
    batches, rows
        Committed, from the split's beginning.
    input
        Fingerprint of the training input.
    begins, ends
        The stretch of the whole training, from 0 to 1, that the split stands for.
    generation
        What is pushed under the lease counts in this one only; None: in any.
    part
        BSP: the part whose stream the split belongs to.
    revoked
        Void: nothing of it counts any more.
    """

    epoch: int
    phase: str
    split: pb.SplitInfo
    token: int
    batches: int
    rows: int
    input: str = ""
    begins: float = 0.0
    ends: float = 0.0
    bytes: int = 0
    bad_records: int = 0
    generation: int | None = None
    part: WholePart | None = None
    revoked: bool = False
    done: bool = False

    @property
    def is_early(self) -> bool:
        """BSP: another part in hand is behind this one, and has to come first."""
        return self.part is not None and self.part.is_early

    def __str__(self) -> str:
        return f"split {self.split.id} of epoch {self.epoch}, {self.phase}"

    @classmethod
    def from_pb(cls, lease: pb.Lease) -> Held:
        return cls(
            epoch=lease.epoch,
            phase=lease.phase,
            split=lease.split,
            token=lease.token,
            batches=lease.from_batch,
            rows=lease.from_rows,
            input=lease.input,
            begins=lease.begins,
            ends=lease.ends,
            generation=lease.generation or None,
        )

    def progress(self) -> pb.Progress:
        """How far the lease is, for the ApplicationMaster."""
        return pb.Progress(
            epoch=self.epoch,
            phase=self.phase,
            split=self.split.id,
            token=self.token,
            batches=self.batches,
            rows=self.rows,
            bytes=self.bytes,
            bad_records=self.bad_records,
            done=self.done,
            part=None if self.part is None else self.part.progress(),
        )


class Leases:
    """Leases in the order in which they came. Not thread-safe: its owner has a lock."""

    def __init__(self) -> None:
        self._held: deque[Held] = deque()
        self.ended = False
        self._asked = 0
        self._asked_idle = False

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held(self) -> list[Held]:
        return list(self._held)

    def granted(self, grant: pb.Grant) -> list[Held]:
        """Take new leases; one that is held already (a repeated message) is not taken twice."""
        new = []
        for lease in grant.leases:
            if lease.HasField("part"):
                continue  # that is `Parts`'
            held = Held.from_pb(lease)
            key = (held.epoch, held.phase, held.split.id, held.token)
            if all((h.epoch, h.phase, h.split.id, h.token) != key for h in self._held):
                self._held.append(held)
                new.append(held)
        self.came(len(new))
        return new

    def came(self, count: int) -> None:
        """So many of the leases that were asked for are here."""
        self._asked = max(0, self._asked - count)

    def revoked(self, revoke: pb.Revoke) -> list[Held]:
        """Mark what is void; `drop` takes it out."""
        void = [
            held
            for held in self._held
            if (held.epoch, held.phase, held.split.id) == (revoke.epoch, revoke.phase, revoke.split)
            and held.token <= revoke.token
        ]
        for held in void:
            held.revoked = True
        return void

    def drop(self, lease: Held) -> None:
        """The lease is done, void or given back."""
        if lease in self._held:
            self._held.remove(lease)

    def want(self, parts: int = 0, hold: int = HOLD) -> pb.WantLeases | None:
        """What to ask for now; None when that has been asked already.

        Parameters
        ----------
        parts
            Live leases of parts, which others keep.
        hold
            How many leases this worker can do with.
        """
        live = parts + sum(not held.revoked for held in self._held)
        count, idle = max(0, hold - live), live == 0
        # What was asked for may be on its way: only more of it, or having nothing to do, is news.
        if count == 0 or (count <= self._asked and (self._asked_idle or not idle)):
            return None
        self._asked, self._asked_idle = count, idle
        return pb.WantLeases(count=count, idle=idle)

    def forget_asked(self) -> None:
        """A restarted ApplicationMaster is told everything anew."""
        self._asked, self._asked_idle = 0, False
