"""The ledger: who works on which split, and how far everything is.

Pure: events and the time go in, decisions come out, and the same inputs give the same decisions.
Epochs count from 1; epoch 0 means that nothing has begun. A lease is named by a token that grows
over the whole job, so that whatever an old holder still says or sends can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from yarnps.am.training.dataset import Failure
from yarnps.am.training.ledger_records import (
    Failed,
    Grant,
    Lease,
    Position,
    Progressed,
    Revoked,
    Worker,
)
from yarnps.am.training.ledger_state import DEAD, DONE, FREE, LEASED, LedgerState
from yarnps.am.training.rate import Rate
from yarnps.protocol import control_pb2 as pb

# For so long a split is kept from a node that it failed on, if a worker elsewhere could take it.
AVOID_NODE_S = 30.0


class Ledger(LedgerState):
    """The splits of every epoch and phase: who works on them, and how far they are.

    For the parameters, the numbers and the snapshots see `LedgerState`.
    """

    # ------------------------------------------------------------ phases

    def begin(self, epoch: int, phase: str) -> list[Revoked]:
        """Start a phase, or start it again from nothing. Leases that are left are void."""
        if phase not in self._sets or not 1 <= epoch <= self.epochs:
            raise ValueError(f"no such phase: epoch {epoch}, {phase!r}")
        revoked = self.close()
        if (epoch, phase) != (self.epoch, self.phase):
            self._splits_before += self._done
        if self.phase == "prepare":
            self._rate = Rate()  # training is far slower than the pass before it
        self.epoch, self.phase, self.closed = epoch, phase, False
        if phase == "train":
            del self._rows_of_epoch[epoch - 1 :]
            self._rows_of_epoch += [0] * (epoch - len(self._rows_of_epoch))
        self._reset_phase()
        self._pool.fill(lambda split: self._state[split] == FREE)
        return revoked

    def close(self) -> list[Revoked]:
        """Give out nothing more of this phase, and take back what is leased (a time limit)."""
        self.closed = True
        return [r for worker in sorted(self._workers) for r in self.revoke(worker)]

    # ------------------------------------------------------------ leases

    def lease(self, worker: int, node: str, count: int, now: float) -> list[Grant]:
        """Up to `count` splits for an incarnation on `node`: local ones first.

        A split does not go back to a node that it failed on while a worker elsewhere can take it,
        for at most `AVOID_NODE_S`. So an empty answer means: ask again after the next change, or
        in a second; only `phase_done` means that nothing is left.
        """
        holder = self._workers.setdefault(worker, Worker(node.lower(), now))
        if not holder.splits:
            holder.heard = now
        grants: list[Grant] = []
        while len(grants) < count and not self.closed:
            index = self._pool.take(holder.node, lambda i: self._avoids(i, holder.node, now))
            if index is None:
                break
            self._token += 1
            self._tokens[index] = self._token
            self._state[index] = LEASED
            self._leases[index] = Lease(worker, self._token, now)
            holder.splits[index] = None
            at = self._partial.setdefault(index, Position())
            split = self._sets[self.phase].splits[index]
            grants.append(
                Grant(
                    self.epoch,
                    self.phase,
                    split,
                    self._token,
                    at.batches,
                    at.rows,
                    self._sets["train"].fingerprint,
                    self.span(index) if self.phase == "train" else (0.0, 0.0),
                )
            )
        return grants

    def grants(self, worker: int, node: str, count: int, now: float) -> list[pb.Lease]:
        """The same as messages."""
        return [grant.to_pb() for grant in self.lease(worker, node, count, now)]

    def spread(self, worker: int) -> Revoked | None:
        """What another has to give up for a worker that waits: nothing, where leases are short."""
        return None

    def _avoids(self, index: int, node: str, now: float) -> bool:
        failures = self._sets[self.phase].failures.get(index)
        if not failures or now - failures[-1].time >= AVOID_NODE_S:
            return False
        bad = {failure.node for failure in failures}
        return node in bad and any(w.node not in bad for w in self._workers.values())

    def progress(self, worker: int, p: pb.Progress, now: float) -> Progressed:
        """How far a lease is. Numbers only go forward; a repeated message does no harm."""
        index = self._index_of(p)
        if index is None:
            return Progressed(False, False)
        lease = self._leases.get(index)
        if lease is None or lease.token != p.token or lease.worker != worker:
            repeated = self._state[index] == DONE and self._tokens[index] == p.token
            return Progressed(repeated, False)
        at = self._partial[index]
        if p.batches < at.batches:
            return Progressed(True, False)
        self._advance(index, p, self._workers[worker], now)
        if not p.done:
            return Progressed(True, False)
        self._settle(index, DONE)
        self._done += 1
        data = self._sets[self.phase]
        data.complete(index)
        data.failures.pop(index, None)  # it can be read: the next epoch counts anew
        if self.phase == "test":
            self._sums.add(index, p.sums)
        return Progressed(True, True)

    def _index_of(self, message: pb.Progress | pb.SplitFailed) -> int | None:
        """The split's index, if the message is about the present phase."""
        if message.epoch != self.epoch or message.phase != self.phase:
            return None
        return self._sets[self.phase].index.get(message.split)

    def _advance(self, index: int, p: pb.Progress, worker: Worker, now: float) -> None:
        data, at = self._sets[self.phase], self._partial[index]
        more = max(0, p.rows - at.rows)
        work = min(max(p.bytes, at.work), data.weights[index])
        self._rate.add(more, worker.heard, now)
        worker.heard = now
        self._phase_rows += more
        self._phase_work += work - at.work
        if self.phase == "train":
            self._rows_of_epoch[-1] += more
        at.batches, at.rows, at.work = p.batches, at.rows + more, work
        data.saw(index, at.rows, p.bad_records, p.bad)

    def _settle(self, index: int, state: int) -> None:
        """A leased split will not be leased again in this phase."""
        lease = self._leases.pop(index)
        self._workers[lease.worker].splits.pop(index)
        self._state[index] = state
        at = self._partial.pop(index)
        self._phase_work += self._sets[self.phase].weights[index] - at.work

    def failed(self, worker: int, f: pb.SplitFailed, node: str, now: float) -> Failed:
        """A split could not be read. A changed file is given up at once."""
        index = self._index_of(f)
        lease = None if index is None else self._leases.get(index)
        if index is None or lease is None or lease.token != f.token or lease.worker != worker:
            return Failed(False, False, False, f.error)
        data = self._sets[self.phase]
        failures = data.failures.setdefault(index, [])
        failures.append(Failure(node.lower(), f.error, now))
        if len(failures) < self._max_failures and not f.changed:
            self._free(index)
            return Failed(True, True, False, f.error)
        self._dead_rows += self._partial[index].rows
        self._settle(index, DEAD)
        data.bury(index, f.error)
        return Failed(True, False, True, f.error)

    def lost(self, worker: int) -> list[Revoked]:
        """An incarnation is gone; its leases are free from their last committed batch."""
        revoked = self.revoke(worker)
        self._workers.pop(worker, None)
        return revoked

    def revoke(self, worker: int, *, keep: Iterable[int] = ()) -> list[Revoked]:
        """Take back an incarnation's leases, except those with the tokens in `keep`.

        After the ApplicationMaster's return, `keep` is what the worker says it holds: a grant
        that never reached it would otherwise be waited for without end.
        """
        kept = set(keep)
        holder = self._workers.get(worker)
        revoked = []
        for index in [] if holder is None else list(holder.splits):
            token = self._leases[index].token
            if token not in kept:
                split = self._sets[self.phase].splits[index].id
                revoked.append(Revoked(self.epoch, self.phase, split, token))
                self._free(index)
        return revoked

    def _free(self, index: int) -> None:
        lease = self._leases.pop(index)
        self._workers[lease.worker].splits.pop(index)
        self._release(index)

    def _release(self, index: int) -> None:
        """A split that nobody holds any more is free, from its last committed batch.

        Outside training from its beginning: its results come with the end of a split only.
        """
        self._state[index] = FREE
        at = self._partial[index]
        if self.phase != "train" or at.batches == 0:
            self._phase_rows -= at.rows
            self._phase_work -= at.work
            if self.phase == "train":
                self._rows_of_epoch[-1] -= at.rows
            del self._partial[index]
        self._pool.put_back(index)

    def overdue(self, now: float, limit: float) -> list[tuple[int, float]]:
        """Incarnations that hold leases and have said nothing of them for `limit` seconds.

        Each with the time of its last word, longest silence first.
        """
        late = [
            (w.heard, worker)
            for worker, w in self._workers.items()
            if w.splits and now - w.heard >= limit
        ]
        return [(worker, heard) for heard, worker in sorted(late)]

    def restore_cut(self, data: Mapping[str, Any]) -> list[Revoked]:
        """Go back to a cut's snapshot: when a server's state is lost, or in a new attempt.

        Every lease is void, and what was leased at the cut is free from its position there. The
        tokens, the live workers and the rate stay as they are. A snapshot of a new ledger stands
        for "no cut yet".

        Returns
        -------
        list of Revoked
            The leases that were out.
        """
        revoked = [r for worker in sorted(self._workers) for r in self.revoke(worker)]
        self._restore_work(data)
        self._token = max(self._token, data["token"])
        for index, *_ in sorted(data["leases"], key=lambda lease: -int(lease[2])):
            self._release(index)
        return revoked
