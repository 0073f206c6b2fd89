"""The ledger: who works on which split, and how far everything is.

Pure: events and the time go in, decisions come out, and the same inputs give the same decisions.
Epochs count from 1; epoch 0 means that nothing has begun. A lease is named by a token that grows
over the whole job, so that whatever an old holder still says or sends can be told apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yarnps.am.dataset import BadSample, DataSet, DeadLetter, Failure, SplitLike
from yarnps.am.ledger_records import (
    Failed,
    Grant,
    Lease,
    Position,
    Progressed,
    Revoked,
    Worker,
)
from yarnps.am.pool import Pool
from yarnps.am.rate import Rate
from yarnps.am.sums import Sums, Vector
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Progress

# For so long a split is kept from a node that it failed on, if a worker elsewhere could take it.
AVOID_NODE_S = 30.0
# Tokens of one attempt. A new attempt starts above all that the older ones may have given out
# after the cut that it resumes from. Tokens have 32 bits, which is enough for 64 attempts.
TOKENS_OF_ATTEMPT = 1 << 26

FREE, LEASED, DONE, DEAD = b"0123"


class Ledger:
    """The splits of every epoch and phase, each free, leased, done or dead.

    Parameters
    ----------
    train, test
        The input as listed; ids are unique within each.
    epochs, seed, shuffle
        How often the training input is gone through, and in which order.
    max_failures
        So often a split may fail before it is given up.
    attempt
        Of the ApplicationMaster, from 1.
    """

    def __init__(
        self,
        train: Sequence[SplitLike],
        test: Sequence[SplitLike] = (),
        *,
        epochs: int = 1,
        seed: int = 1,
        shuffle: bool = True,
        max_failures: int = 3,
        attempt: int = 1,
    ) -> None:
        self.epochs = epochs
        self._seed = seed
        self._shuffle = shuffle
        self._max_failures = max_failures
        self._token = min(attempt - 1, 63) * TOKENS_OF_ATTEMPT
        self._sets = {"train": DataSet("train", train), "test": DataSet("test", test)}
        self._workers: dict[int, Worker] = {}
        self._rate = Rate()
        self.epoch = 0
        self.phase = ""
        self.closed = False
        self._rows_of_epoch: list[int] = []
        self._reset_phase()

    # ------------------------------------------------------------ phases

    def begin(self, epoch: int, phase: str) -> list[Revoked]:
        """Start a phase, or start it again from nothing. Leases that are left are void."""
        if phase not in self._sets or not 1 <= epoch <= self.epochs:
            raise ValueError(f"no such phase: epoch {epoch}, {phase!r}")
        revoked = self.close()
        self.epoch, self.phase, self.closed = epoch, phase, False
        if phase == "train":
            del self._rows_of_epoch[epoch - 1 :]
            self._rows_of_epoch += [0] * (epoch - len(self._rows_of_epoch))
        self._reset_phase()
        self._pool.fill(lambda split: self._state[split] == FREE)
        return revoked

    def _reset_phase(self) -> None:
        data = self._sets.get(self.phase)
        count = len(data.splits) if data else 0
        dead = data.dead if data else {}
        self._state = bytearray(DEAD if i in dead else FREE for i in range(count))
        self._tokens = [0] * count
        self._leases: dict[int, Lease] = {}
        self._partial: dict[int, Position] = {}
        self._done = 0
        self._phase_rows = 0
        self._phase_work = sum(data.weights[i] for i in dead) if data else 0
        self._dead_rows = 0
        self._sums = Sums()
        self._pool = Pool(self._order(), data.hosts if data else ())

    def _order(self) -> list[int]:
        order = list(range(len(self._state)))
        if self._shuffle and self.phase == "train":
            random.Random(f"{self._seed}/{self.epoch}").shuffle(order)
        return order

    def close(self) -> list[Revoked]:
        """Give out nothing more of this phase, and take back what is leased (a time limit)."""
        self.closed = True
        return [r for worker in sorted(self._workers) for r in self.revoke(worker)]

    @property
    def phase_done(self) -> bool:
        """Every split of the phase is done or given up (or the phase was closed)."""
        return self.epoch > 0 and (self.closed or (not self._leases and not len(self._pool)))

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
            grants.append(Grant(self.epoch, self.phase, split, self._token, at.batches, at.rows))
        return grants

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
        self._sets[self.phase].complete(index)
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

        In the test phase from its beginning: the sums come with the end of a split only.
        """
        self._state[index] = FREE
        at = self._partial[index]
        if self.phase == "test" or at.batches == 0:
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

    def holders(self) -> dict[int, list[int]]:
        """Which splits each incarnation holds: whom the phase waits for."""
        splits = self._sets[self.phase].splits if self.phase else ()
        return {
            worker: [splits[i].id for i in holder.splits]
            for worker, holder in sorted(self._workers.items())
            if holder.splits
        }

    # ------------------------------------------------------------ numbers

    @property
    def rows(self) -> int:
        """Training rows that are committed, over all epochs."""
        return sum(self._rows_of_epoch)

    @property
    def rows_of_epochs(self) -> tuple[int, ...]:
        """The same for each epoch that has begun."""
        return tuple(self._rows_of_epoch)

    @property
    def bytes(self) -> int:
        """Bytes of input done, over all epochs and phases."""
        train, test = self._sets["train"].weight, self._sets["test"].weight
        before = max(0, self.epoch - 1) * (train + test)
        return before + (train if self.phase == "test" else 0) + self._phase_work

    @property
    def bytes_total(self) -> int:
        """Bytes of all epochs and phases."""
        return self.epochs * (self._sets["train"].weight + self._sets["test"].weight)

    @property
    def fraction(self) -> float:
        """How much of the whole work is done, by bytes."""
        return self.bytes / self.bytes_total if self.bytes_total else 0.0

    @property
    def splits_done(self) -> int:
        """Of the present phase."""
        return self._done

    @property
    def splits_total(self) -> int:
        """Of the present phase."""
        return len(self._state)

    @property
    def splits_leased(self) -> int:
        """Of the present phase."""
        return len(self._leases)

    @property
    def rows_total(self) -> int | None:
        """Training rows of all epochs: estimated from bytes until the first epoch is complete."""
        per_epoch = self._rows_per_epoch("train")
        if per_epoch is None:
            return None
        passed = self.epoch if self.phase == "test" else max(0, self.epoch - 1)
        before = sum(self._rows_of_epoch[:passed])
        extra = self._dead_rows if self.phase == "train" else 0
        return round(before + (self.epochs - passed) * per_epoch + extra)

    def _rows_per_epoch(self, phase: str) -> float | None:
        data = self._sets[phase]
        rows = weight = 0
        if phase == self.phase:
            for index, at in self._partial.items():
                if not data.is_known(index):
                    rows, weight = rows + at.rows, weight + at.work
        otherwise = self._sets["train"].density() if phase == "test" else None
        return data.rows_per_epoch(rows, weight, otherwise)

    def rate(self, now: float) -> float:
        """Rows per second, train or test, over the last half minute."""
        return self._rate.per_second(now)

    def seconds_left(self, now: float) -> float | None:
        """At the present rate, over all epochs and phases; None: cannot be said yet."""
        rate, train, test = self.rate(now), self.rows_total, self._rows_per_epoch("test")
        if rate <= 0 or train is None or test is None:
            return None
        in_test = self.phase == "test"
        tests_left = self.epochs - max(0, self.epoch - 1)
        left = train - self.rows + tests_left * test - (self._phase_rows if in_test else 0)
        return max(0.0, left) / rate

    def summary(self, now: float) -> Progress:
        """The numbers for the status document."""
        return Progress(
            epoch=self.epoch,
            epochs=self.epochs,
            phase=self.phase or "train",
            splits_done=self._done,
            splits_total=len(self._state),
            splits_leased=len(self._leases),
            rows=self.rows,
            rows_total=self.rows_total,
            fraction=self.fraction,
            rows_per_s=self.rate(now),
            seconds_left=self.seconds_left(now),
            bad_records=self.bad_records,
            skipped_splits=len(self.skipped),
        )

    @property
    def sums(self) -> Mapping[str, Vector]:
        """What the present test phase has added up so far, in the order of splits."""
        return self._sums.total()

    # ------------------------------------------------------------ what is wrong with the input

    @property
    def bad_records(self) -> int:
        """Records that did not parse, each counted once whatever the number of epochs."""
        return sum(data.bad_records for data in self._sets.values())

    @property
    def bad_samples(self) -> list[BadSample]:
        """The first few of them."""
        return [sample for data in self._sets.values() for sample in data.samples][:5]

    def over_limit(self, max_bad: float) -> bool:
        """Whether more records are bad than the job file allows.

        `max_bad` is a count (a whole number) or a ratio below 1, which holds for each data set
        and is judged once enough rows have been seen, or at the phase's end.
        """
        if isinstance(max_bad, int) or max_bad >= 1 or max_bad <= 0:
            return self.bad_records > max_bad
        return any(
            data.bad_ratio_over(max_bad, self.phase_done and self.phase == phase)
            for phase, data in self._sets.items()
        )

    @property
    def skipped(self) -> list[DeadLetter]:
        """The dead-letter list: splits that are given up, for all epochs."""
        return [letter for data in self._sets.values() for letter in data.dead.values()]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON data."""
        return {
            "epoch": self.epoch,
            "phase": self.phase,
            "closed": self.closed,
            "token": self._token,
            "state": self._state.decode(),
            "tokens": list(self._tokens),
            "leases": [[i, x.worker, x.token, x.since] for i, x in sorted(self._leases.items())],
            "partial": [
                [i, at.batches, at.rows, at.work] for i, at in sorted(self._partial.items())
            ],
            "phase_rows": self._phase_rows,
            "phase_work": self._phase_work,
            "dead_rows": self._dead_rows,
            "rows_of_epoch": list(self._rows_of_epoch),
            "pool": self._pool.snapshot(),
            "sums": self._sums.snapshot(),
            "sets": {phase: data.snapshot() for phase, data in self._sets.items()},
            "workers": [
                [worker, w.node, w.heard, list(w.splits)] for worker, w in self._workers.items()
            ],
            "rate": self._rate.snapshot(),
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back exactly what `snapshot` gave."""
        self._restore_work(data)
        self._token = data["token"]
        self._leases = {
            i: Lease(worker, token, since) for i, worker, token, since in data["leases"]
        }
        self._workers = {
            worker: Worker(node, heard, dict.fromkeys(splits))
            for worker, node, heard, splits in data["workers"]
        }
        self._rate.restore(data["rate"])

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

    def _restore_work(self, data: Mapping[str, Any]) -> None:
        """All but the leases, the workers, the token and the rate."""
        for phase, known in self._sets.items():
            known.restore(data["sets"][phase])
        self.epoch, self.phase, self.closed = data["epoch"], data["phase"], data["closed"]
        self._reset_phase()
        self._rows_of_epoch = list(data["rows_of_epoch"])
        self._state = bytearray(data["state"].encode())
        self._done = self._state.count(DONE)
        self._tokens = list(data["tokens"])
        self._partial = {i: Position(*numbers) for i, *numbers in data["partial"]}
        self._phase_rows = data["phase_rows"]
        self._phase_work = data["phase_work"]
        self._dead_rows = data["dead_rows"]
        self._sums.restore(data["sums"])
        self._pool.restore(data["pool"], lambda split: self._state[split] == FREE)
