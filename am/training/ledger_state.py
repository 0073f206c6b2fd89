"""What the ledger knows: the state of every split, the numbers that follow, and snapshots."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from yarnps.am.training.dataset import BAD_SAMPLES, BadSample, DataSet, DeadLetter, SplitLike
from yarnps.am.training.ledger_records import Lease, Position, Worker
from yarnps.am.training.pool import Pool
from yarnps.am.training.rate import Rate
from yarnps.am.training.sums import Sums, Vector
from yarnps.status import Progress

# Tokens of one attempt. A new attempt starts above all that the older ones may have given out
# after the cut that it resumes from. Tokens have 32 bits, which is enough for 64 attempts.
TOKENS_OF_ATTEMPT = 1 << 26

FREE, LEASED, DONE, DEAD = b"0123"


class LedgerState:
    """The splits of the present phase, each free, leased, done or dead, and what is behind.

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
    prepare
        There is a pass over the training input before its first epoch.
    racks
        Node to rack, where there is more than one.
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
        prepare: bool = False,
        racks: Mapping[str, str] | None = None,
    ) -> None:
        self.epochs = epochs
        self._racks = {node.lower(): rack for node, rack in (racks or {}).items()}
        self._seed = seed
        self._shuffle = shuffle
        self._max_failures = max_failures
        self._token = min(attempt - 1, 63) * TOKENS_OF_ATTEMPT
        self._inputs = (DataSet("train", train), DataSet("test", test))
        # The pass before the first epoch is over the training input: what it finds out is known.
        self._sets = {"prepare": self._inputs[0], "train": self._inputs[0], "test": self._inputs[1]}
        self._prepare = prepare
        self._workers: dict[int, Worker] = {}
        self._rate = Rate()
        self.epoch = 0
        self.phase = ""
        self.closed = False
        self._rows_of_epoch: list[int] = []
        self._splits_before = 0  # done in the phases before this one
        self._reset_phase()

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
        order = self._order()
        self._before = _sums_before(order, data.weights) if data else []
        self._pool = Pool(order, data.hosts if data else (), self._racks)

    def _order(self) -> list[int]:
        order = list(range(len(self._state)))
        if self._shuffle and self.phase == "train":
            random.Random(f"{self._seed}/{self.epoch}").shuffle(order)
        return order

    def span(self, index: int) -> tuple[float, float]:
        """Which stretch of the whole training, from 0 to 1, a split of this epoch stands for.

        By bytes and in the epoch's order, so that it is the same whoever works on the split, and
        when: what depends on the progress (a learning rate) is a function of the batch.
        """
        train = self._sets["train"]
        before = (self.epoch - 1) * train.weight + self._before[index]
        whole = self.epochs * train.weight
        return before / whole, (before + train.weights[index]) / whole

    @property
    def phase_done(self) -> bool:
        """Every split of the phase is done or given up (or the phase was closed)."""
        return self.epoch > 0 and (self.closed or (not self._leases and not len(self._pool)))

    # ------------------------------------------------------------ numbers

    @property
    def rows(self) -> int:
        """Training rows that are committed, over all epochs."""
        return sum(self._rows_of_epoch)

    @property
    def bytes(self) -> int:
        """Bytes of input done, over all epochs and phases."""
        train, test = self._sets["train"].weight, self._sets["test"].weight
        before = max(0, self.epoch - 1) * (train + test)
        if self._prepare and self.phase in ("train", "test"):
            before += train
        return before + (train if self.phase == "test" else 0) + self._phase_work

    @property
    def bytes_total(self) -> int:
        """Bytes of all epochs and phases."""
        train, test = self._inputs
        return self.epochs * (train.weight + test.weight) + self._prepare * train.weight

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
        if rate <= 0 or train is None or test is None or self.phase == "prepare":
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
            splits_all=self._splits_before + self._done,
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
        return sum(data.bad_records for data in self._inputs)

    @property
    def bad_samples(self) -> list[BadSample]:
        """The first few of them."""
        return [sample for data in self._inputs for sample in data.samples][:BAD_SAMPLES]

    def over_limit(self, max_bad: float) -> bool:
        """Whether more records are bad than the job file allows.

        `max_bad` is a count (a whole number) or a ratio below 1, which holds for each data set
        and is judged once enough rows have been seen, or at the phase's end.
        """
        if isinstance(max_bad, int) or max_bad >= 1 or max_bad <= 0:
            return self.bad_records > max_bad
        return any(
            data.bad_ratio_over(max_bad, self.phase_done and self._sets[self.phase] is data)
            for data in self._inputs
        )

    @property
    def skipped(self) -> list[DeadLetter]:
        """The dead-letter list: splits that are given up, for all epochs."""
        return [letter for data in self._inputs for letter in data.dead.values()]

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
            "splits_before": self._splits_before,
            "rows_of_epoch": list(self._rows_of_epoch),
            "pool": self._pool.snapshot(),
            "sums": self._sums.snapshot(),
            "sets": {data.phase: data.snapshot() for data in self._inputs},
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

    def _restore_work(self, data: Mapping[str, Any]) -> None:
        """All but the leases, the workers, the token and the rate."""
        for known in self._inputs:
            known.restore(data["sets"][known.phase])
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
        self._splits_before = data["splits_before"]
        self._sums.restore(data["sums"])
        self._pool.restore(data["pool"], lambda split: self._state[split] == FREE)


def _sums_before(order: Sequence[int], weights: Sequence[int]) -> list[int]:
    """For each split the weight of those that come before it in the order."""
    before = [0] * len(order)
    total = 0
    for index in order:
        before[index] = total
        total += weights[index]
    return before
