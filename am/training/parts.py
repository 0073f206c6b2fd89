"""The ledger of a BSP job: training input is leased by parts, not by splits.

Each epoch's splits are dealt to P streams, the parts, as a function of the seed and the epoch.
Whoever holds a part reads its stream from where the last holder's word of it left off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from yarnps.am.training.dataset import SplitLike
from yarnps.am.training.ledger import Ledger
from yarnps.am.training.ledger_records import (
    Failed,
    Grant,
    Lease,
    Position,
    Progressed,
    Revoked,
    Worker,
)
from yarnps.am.training.ledger_state import DEAD, DONE, FREE, LEASED
from yarnps.protocol import control_pb2 as pb

# Outside training, where splits are leased: as many as other jobs' workers hold.
HOLD = 2


@dataclass
class Part:
    """One stream of the present epoch.

    Attributes
    ----------
    splits
        Indices, in the order of the stream.
    batches
        Of the stream, committed.
    step
        The next step that it contributes to.
    ended
        Its stream is through, and every server knows that.
    worker, token
        Who holds it; None: nobody does.
    """

    splits: tuple[int, ...] = ()
    batches: int = 0
    step: int = 0
    ended: bool = False
    worker: int | None = None
    token: int = 0


class PartGrant(NamedTuple):
    """The right to go on with a part."""

    epoch: int
    part: int
    batches: int
    step: int
    token: int
    splits: tuple[Grant, ...]
    input: str

    def to_pb(self) -> pb.Lease:
        """The message for the worker."""
        lease = pb.Lease(epoch=self.epoch, phase="train", token=self.token, input=self.input)
        lease.part.CopyFrom(
            pb.PartLease(
                part=self.part,
                batches=self.batches,
                step=self.step,
                splits=[grant.to_pb() for grant in self.splits],
            )
        )
        return lease


class PartLedger(Ledger):
    """A ledger whose training phases are leased by parts; see the module's text.

    Parameters
    ----------
    parts
        Of each step; the same for the whole job.
    """

    def __init__(
        self,
        train: Sequence[SplitLike],
        test: Sequence[SplitLike] = (),
        *,
        parts: int,
        **settings: Any,
    ) -> None:
        self._count = parts
        self._parts: list[Part] = []
        super().__init__(train, test, **settings)

    def _reset_phase(self) -> None:
        super()._reset_phase()
        self._parts = self._dealt() if self.phase == "train" else []

    def _dealt(self) -> list[Part]:
        """The epoch's splits, in its order, each to the part that has the fewest bytes so far."""
        weights = self._sets["train"].weights
        streams: list[list[int]] = [[] for _ in range(self._count)]
        sizes = [0] * self._count
        for index in self._order():
            number = sizes.index(min(sizes))
            streams[number].append(index)
            sizes[number] += weights[index]
        return [Part(tuple(stream)) for stream in streams]

    @property
    def streams(self) -> list[tuple[int, ...]]:
        """The splits of each part of this epoch, by their indices."""
        return [part.splits for part in self._parts]

    @property
    def phase_done(self) -> bool:
        """Every part is through (or the phase was closed)."""
        if not self._parts:
            return super().phase_done
        return self.closed or all(part.ended for part in self._parts)

    # ------------------------------------------------------------ leases

    def grants(self, worker: int, node: str, count: int, now: float) -> list[pb.Lease]:
        """Parts for an incarnation, up to its share; outside training splits as usual."""
        if not self._parts:
            return super().grants(worker, node, min(count, HOLD), now)
        return [grant.to_pb() for grant in self.lease_parts(worker, node, now)]

    def lease_parts(self, worker: int, node: str, now: float) -> list[PartGrant]:
        """Free parts, up to the incarnation's share."""
        holder = self._workers.setdefault(worker, Worker(node.lower(), now))
        if not holder.splits:
            holder.heard = now
        grants: list[PartGrant] = []
        for number, part in enumerate(self._parts):
            if self.closed or self.held_by(worker) >= self._share():
                break
            if part.worker is None and not part.ended and not self._keeps_off(part, holder, now):
                grants.append(self._grant(number, part, worker, now))
        return grants

    def held_by(self, worker: int) -> int:
        """How many parts an incarnation holds."""
        return sum(part.worker == worker for part in self._parts)

    def _share(self) -> int:
        """Parts for each live worker, when all have theirs."""
        left = sum(not part.ended for part in self._parts)
        return -(-left // max(1, len(self._workers)))

    def _keeps_off(self, part: Part, holder: Worker, now: float) -> bool:
        """Whether a split that could not be read on this node is next in the part."""
        return any(self._avoids(i, holder.node, now) for i in self._left_of(part)[:1])

    def _left_of(self, part: Part) -> list[int]:
        return [index for index in part.splits if self._state[index] in (FREE, LEASED)]

    def _grant(self, number: int, part: Part, worker: int, now: float) -> PartGrant:
        self._token += 1
        part.worker, part.token = worker, self._token
        fingerprint = self._sets["train"].fingerprint
        splits = []
        for index in self._left_of(part):
            self._tokens[index] = self._token
            self._state[index] = LEASED
            self._leases[index] = Lease(worker, self._token, now)
            self._workers[worker].splits[index] = None
            at = self._partial.setdefault(index, Position())
            split = self._sets["train"].splits[index]
            splits.append(
                Grant(
                    self.epoch,
                    "train",
                    split,
                    self._token,
                    at.batches,
                    at.rows,
                    fingerprint,
                    self.span(index),
                )
            )
        return PartGrant(
            self.epoch, number, part.batches, part.step, part.token, tuple(splits), fingerprint
        )

    def spread(self, worker: int) -> Revoked | None:
        """Take a part from whoever holds most, for a worker that waits for one and has less."""
        if self.closed or any(p.worker is None and not p.ended for p in self._parts):
            return None
        most = max(self._workers, key=self.held_by, default=worker)
        if self.held_by(most) - self.held_by(worker) < 2:
            return None
        return self._take_back(next(i for i, p in enumerate(self._parts) if p.worker == most))

    def _take_back(self, number: int) -> Revoked:
        part = self._parts[number]
        for index in self._left_of(part):
            if index in self._leases:
                self._free(index)
        part.worker = None
        return Revoked(self.epoch, "train", 0, part.token, number)

    def revoke(self, worker: int, *, keep: Iterable[int] = ()) -> list[Revoked]:
        """Take back an incarnation's parts, except those with the tokens in `keep`."""
        if not self._parts:
            return super().revoke(worker, keep=keep)
        kept = set(keep)
        return [
            self._take_back(number)
            for number, part in enumerate(self._parts)
            if part.worker == worker and part.token not in kept
        ]

    # ------------------------------------------------------------ how far they are

    def progress(self, worker: int, p: pb.Progress, now: float) -> Progressed:
        """How far a part is: of the split that it is in, and of its stream."""
        if not self._parts or not p.HasField("part"):
            return super().progress(worker, p, now)
        same_phase = (p.epoch, p.phase) == (self.epoch, self.phase)
        if not same_phase or p.part.part >= len(self._parts):
            return Progressed(False, False)
        part = self._parts[p.part.part]
        if (part.worker, part.token) != (worker, p.token):
            return Progressed(part.ended and part.token == p.token, False)
        if p.part.ended:
            for index in self._left_of(part):
                self._settle(index, DONE)  # an empty one, that nobody has spoken of
                self._done += 1
            part.ended, part.worker = True, None
            return Progressed(True, True)
        answer = Progressed(True, False)
        if self._index_of(p) in part.splits:
            answer = super().progress(worker, p, now)
        if answer.accepted and p.part.batches >= part.batches:
            part.batches, part.step = p.part.batches, p.part.step
        return answer

    def failed(self, worker: int, f: pb.SplitFailed, node: str, now: float) -> Failed:
        """A split could not be read: its part is free, and goes on with it or behind it."""
        answer = super().failed(worker, f, node, now)
        if answer.accepted and self._parts:
            index = self._index_of(f)
            number = next(i for i, part in enumerate(self._parts) if index in part.splits)
            self._take_back(number)
        return answer

    def overdue(self, now: float, limit: float) -> list[tuple[int, float]]:
        """Those that hold up the step: all others wait for them, and are silent as well."""
        late = super().overdue(now, limit)
        steps = [part.step for part in self._parts if not part.ended]
        behind = {p.worker for p in self._parts if not p.ended and p.step == min(steps)}
        return [(worker, heard) for worker, heard in late if not steps or worker in behind]

    # ------------------------------------------------------------ cuts

    def at_steps(self, saved: Sequence[pb.StepsAt]) -> dict[str, Any]:
        """The snapshot that goes with what the servers have saved, each at the same step.

        Where parts may be late, servers differ in what they have of one: the least counts, and
        the others drop what they have already. Servers that have heard nothing of this epoch yet
        save at the last one's end: then it is at its beginning.
        """
        if any(at.epoch < self.epoch for at in saved):
            saved = [pb.StepsAt(epoch=self.epoch, parts=[pb.PartAt()] * len(self._parts))]
        data = self.snapshot()
        state = bytearray(data["state"].encode())
        partial: dict[int, Position] = {}
        parts: list[list[Any]] = []
        rows = work = 0
        closed = max(s.closed for s in saved)
        weights, index_of = self._sets["train"].weights, self._sets["train"].index
        for number, part in enumerate(self._parts):
            least = min((s.parts[number] for s in saved), key=lambda p: (p.ended, p.batches))
            known = {index_of[s.split]: s for s in least.splits}
            last = max((part.splits.index(i) for i in known), default=-1)
            for place, index in enumerate(part.splits):
                seen = known.get(index)
                rows += seen.rows if seen else 0
                done = least.ended or place < last
                if state[index] == DEAD:
                    work += weights[index]
                    continue
                state[index] = DONE if done else FREE
                if done:
                    work += weights[index]
                elif seen:
                    read = self._read_of(index, seen.rows)
                    partial[index] = Position(seen.batches, seen.rows, read)
                    work += read
            parts.append([least.batches, closed, least.ended, None, 0])
        data |= {
            "state": state.decode(),
            "partial": [[i, p.batches, p.rows, p.work] for i, p in sorted(partial.items())],
            "leases": [],
            "parts": parts,
            "phase_rows": rows,
            "phase_work": work,
            "rows_of_epoch": [*data["rows_of_epoch"][:-1], rows],
        }
        return data

    def _read_of(self, index: int, rows: int) -> int:
        """Bytes of a split behind so many rows, which may be more than its reader has told of."""
        told, data = self._partial.get(index), self._sets["train"]
        if told is not None and told.rows == rows:
            return told.work
        open_ones = self._partial.values()
        density = data.density(sum(at.rows for at in open_ones), sum(at.work for at in open_ones))
        return min(data.weights[index], round(rows / density)) if density else data.weights[index]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON data."""
        parts = [[p.batches, p.step, p.ended, p.worker, p.token] for p in self._parts]
        return {**super().snapshot(), "parts": parts}

    def _restore_work(self, data: Mapping[str, Any]) -> None:
        super()._restore_work(data)
        for part, (batches, step, ended, worker, token) in zip(
            self._parts, data["parts"], strict=True
        ):
            part.batches, part.step, part.ended = batches, step, ended
            part.worker, part.token = worker, token

    def restore_cut(self, data: Mapping[str, Any]) -> list[Revoked]:
        """Go back to a cut's snapshot; see `Ledger.restore_cut`."""
        revoked = super().restore_cut(data)
        for part in self._parts:
            part.worker = None
        return revoked
