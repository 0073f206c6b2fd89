"""The parts of BSP steps that a worker holds, each with the stream of its batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.wire import Flag, Op
from yarnps.worker.batch import Batch
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.feed import Feed, Parsed
from yarnps.worker.leases import Held
from yarnps.worker.reading import Read


class HeldPart:
    """A part in hand: what is left of its stream in this epoch, and how far it is.

    Attributes
    ----------
    batches
        Of the stream, committed.
    step
        The step that the next batch is for. Larger than `batches` where some came too late.
    splits
        What is left, in order; the first one is in work.
    whole
        The lease for calls that concern no split.
    """

    def __init__(
        self, lease: pb.Lease, read: Read, on_ready: Callable[[], None], others: list[HeldPart]
    ) -> None:
        self._others = others
        self.number = lease.part.part
        self.epoch = lease.epoch
        self.token = lease.token
        self.generation = lease.generation or None
        self.batches = lease.part.batches
        self.step = lease.part.step
        self.splits = [self._held(split) for split in lease.part.splits]
        self.whole = self._held(lease)
        self._again: Parsed | None = None
        self._feed = Feed(read, on_ready)
        for held in self.splits:
            self._feed.add(held)

    def _held(self, lease: pb.Lease) -> Held:
        held = Held.from_pb(lease)
        held.part, held.generation = self, self.generation
        return held

    @property
    def revoked(self) -> bool:
        """Void: somebody else has the part, or will have it."""
        return self.whole.revoked or any(held.revoked for held in self.splits)

    def revoke(self) -> None:
        for held in [self.whole, *self.splits]:
            held.revoked = True

    @property
    def is_early(self) -> bool:
        """Another part in hand is behind: one that came when a batch of this one had begun."""
        mine, others = (self.epoch, self.step), list(self._others)
        return any((p.epoch, p.step) < mine for p in others if not p.revoked)

    def take(self) -> Parsed | None:
        """The next batch of the stream, if it is there; one that was put back is there again."""
        again, self._again = self._again, None
        return again or self._feed.take()

    def put_back(self, parsed: Parsed, step: int) -> None:
        """The batch is the next one again, for this step: a later one if it was late."""
        self._again = parsed
        self.step = max(self.step, step)

    def split_ended(self, held: Held) -> None:
        self.splits.remove(held)

    def progress(self, *, ended: bool = False) -> pb.PartProgress:
        """How far the part is, for the ApplicationMaster."""
        return pb.PartProgress(part=self.number, batches=self.batches, step=self.step, ended=ended)

    def end(self) -> pb.Progress:
        """What the ApplicationMaster is told when every server knows that the stream is through."""
        return pb.Progress(
            epoch=self.epoch, phase="train", token=self.token, part=self.progress(ended=True)
        )

    def stop(self) -> None:
        """Read no further."""
        self._feed.stop()


class Parts:
    """The parts in hand. Not thread-safe: its owner has a lock."""

    def __init__(self, read: Read, on_ready: Callable[[], None]) -> None:
        self._read = read
        self._on_ready = on_ready
        self._held: list[HeldPart] = []

    @property
    def live(self) -> list[HeldPart]:
        """Those that are not void."""
        return [part for part in self._held if not part.revoked]

    def granted(self, grant: pb.Grant) -> list[HeldPart]:
        """Take new leases of parts. A repeated message changes nothing."""
        known = {(part.number, part.token) for part in self._held}
        new = [
            lease
            for lease in grant.leases
            if lease.HasField("part") and (lease.part.part, lease.token) not in known
        ]
        parts = [HeldPart(lease, self._read, self._on_ready, self._held) for lease in new]
        self._held += parts
        return parts

    def revoked(self, revoke: pb.Revoke) -> None:
        """Mark what is void; `turn` drops it."""
        for part in self._held:
            same = (part.epoch, part.number) == (revoke.epoch, revoke.part)
            if same and part.token <= revoke.token:
                part.revoke()

    def drop_void(self) -> None:
        """Forget what is void."""
        for part in [part for part in self._held if part.revoked]:
            self.drop(part)

    def drop(self, part: HeldPart) -> None:
        """The part is through with its epoch, or void."""
        self._held.remove(part)
        part.stop()

    def turn(self) -> HeldPart | None:
        """The part whose turn it is: steps in order, and parts in order within a step."""
        return min(self.live, key=lambda part: (part.step, part.number), default=None)

    def progress(self) -> list[pb.Progress]:
        """How far they are, for a restarted ApplicationMaster."""
        return [
            part.splits[0].progress()
            if part.splits
            else pb.Progress(
                epoch=part.epoch, phase="train", token=part.token, part=part.progress()
            )
            for part in self.live
        ]

    def stop(self) -> None:
        """Read nothing more."""
        for part in self._held:
            part.stop()


# ---------------------------------------------------------------------- what servers are told


def announce(client: Client, batch: Batch) -> None:
    """Tell every server that a part has pushed all of its step, and where it is then.

    Raises
    ------
    LeaseRevoked
        Somebody else has the part; `LateBatch`: a server has closed the step without it.
    """
    lease = batch.lease
    place = [batch.split, batch.index + 1, lease.rows + batch.rows]
    header = client.header(Op.ANNOUNCE, weight=batch.rows)
    call = Call(batch.in_step(header), f"end of step {batch.step}", lease=lease)
    client.wait(client.tell_all(call, np.array(place, np.int64)))


def end_part(client: Client, part: HeldPart) -> None:
    """Tell every server that a part has nothing more in its epoch.

    Raises
    ------
    LeaseRevoked
        Somebody else has the part.
    """
    header = client.header(
        Op.END_PART,
        flags=int(Flag.STEP),
        epoch=part.epoch,
        split=part.number,
        token=part.token,
        batch=part.batches,
        clock=part.step,
    )
    call = Call(header, f"end of part {part.number}", lease=part.whole)
    client.wait(client.tell_all(call, None))
