"""What goes in and out of the ledger, and what it keeps for each lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yarnps.am.training.dataset import SplitLike
from yarnps.protocol import control_pb2 as pb


class Grant(NamedTuple):
    """The right to work on a split, from a batch on."""

    epoch: int
    phase: str
    split: SplitLike
    token: int
    from_batch: int
    from_rows: int  # in the batches before
    input: str = ""  # fingerprint of the training input
    span: tuple[float, float] = (0.0, 1.0)  # of the whole training, for a training split

    def to_pb(self) -> pb.Lease:
        """The message for the worker."""
        return pb.Lease(
            epoch=self.epoch,
            phase=self.phase,
            split=self.split.to_pb(),
            token=self.token,
            from_batch=self.from_batch,
            from_rows=self.from_rows,
            input=self.input,
            begins=self.span[0],
            ends=self.span[1],
        )


class Progressed(NamedTuple):
    """Whether a progress message came from the lease's holder, and whether it ended the split."""

    accepted: bool
    split_done: bool


class Failed(NamedTuple):
    """What follows from a failed split."""

    accepted: bool  # False: not from the lease's holder; nothing has changed
    again: bool  # it will be leased again
    dead_letter: bool  # it is given up
    error: str


class Revoked(NamedTuple):
    """A lease that is void."""

    epoch: int
    phase: str
    split: int
    token: int
    part: int | None = None  # BSP: of a part, and of no split

    def to_pb(self) -> pb.Revoke:
        """The message for workers and servers."""
        return pb.Revoke(
            epoch=self.epoch,
            phase=self.phase,
            split=self.split,
            token=self.token,
            part=self.part,
        )


class DoneSplits(NamedTuple):
    """Splits of an epoch that a snapshot counts as done; empty: all of the epoch."""

    epoch: int
    splits: tuple[int, ...]

    def to_pb(self) -> pb.DoneSplits:
        """The message for the servers."""
        return pb.DoneSplits(epoch=self.epoch, splits=self.splits)


@dataclass
class Lease:
    """Who works on a split."""

    worker: int
    token: int
    since: float


@dataclass
class Position:
    """How far a split that is not done has been committed."""

    batches: int = 0
    rows: int = 0
    work: int = 0  # bytes


@dataclass
class Worker:
    """A live incarnation that has asked for leases."""

    node: str
    heard: float  # its last word about its work
    splits: dict[int, None] = field(default_factory=dict)  # what it holds, oldest first


def done_splits(snapshot: Mapping[str, Any], train: Sequence[SplitLike]) -> list[DoneSplits]:
    """What a ledger's snapshot counts as done: the servers' marks of it are not needed any more."""
    epoch, phase = int(snapshot["epoch"]), snapshot["phase"]
    complete = epoch if phase == "test" else epoch - 1
    result = [DoneSplits(e, ()) for e in range(1, complete + 1)]
    if phase == "train":
        done = tuple(train[i].id for i, state in enumerate(snapshot["state"]) if state == "2")
        if done:
            result.append(DoneSplits(epoch, done))
    return result
