"""What the ledger learns about one data set (train or test), whatever the epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from yarnps._errors import DataError
from yarnps.protocol import control_pb2 as pb

BAD_SAMPLES = 5
LEAST_ROWS_FOR_RATIO = 1000


class SplitLike(Protocol):
    """What the ledger needs of a `yarnps.data.Split`."""

    @property
    def id(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def file_size(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    def to_pb(self) -> pb.SplitInfo: ...


@dataclass(frozen=True)
class Failure:
    """A split could not be read."""

    node: str
    error: str
    time: float


@dataclass(frozen=True)
class BadSample:
    """A record that did not parse."""

    path: str
    line: int
    error: str
    text: str


@dataclass(frozen=True)
class DeadLetter:
    """A split that is given up."""

    phase: str
    split: int
    path: str
    start: int
    length: int
    error: str
    nodes: tuple[str, ...]  # where it failed


class DataSet:
    """Row counts, bad records and failures of each split of a data set.

    Splits are named by their index here. `weights` is their size in bytes, which for Parquet
    (lengths are row groups) is the split's share of its file.
    """

    def __init__(self, phase: str, splits: Sequence[SplitLike]) -> None:
        self.phase = phase
        self.splits = splits
        self.index = {split.id: i for i, split in enumerate(splits)}
        self.hosts = [tuple(h.lower() for h in split.hosts) for split in splits]
        self.weights = _weights(splits)
        self.weight = sum(self.weights)
        self.fingerprint = _fingerprint(splits)
        self.failures: dict[int, list[Failure]] = {}
        self.dead: dict[int, DeadLetter] = {}
        self.samples: list[BadSample] = []
        self._rows = [0] * len(splits)  # the most that an epoch has seen
        self._bad = [0] * len(splits)
        self._known = bytearray(len(splits))  # its rows have been counted to the end
        self._tally()

    def _tally(self) -> None:
        """The aggregates of the arrays above."""
        self.rows_seen = sum(self._rows)
        self.bad_records = sum(self._bad)
        known = [i for i in range(len(self.splits)) if self._known[i] and i not in self.dead]
        self._known_rows = sum(self._rows[i] for i in known)
        self._known_weight = sum(self.weights[i] for i in known)
        self._dead_weight = sum(self.weights[i] for i in self.dead)

    def saw(self, index: int, rows: int, bad: int, samples: Iterable[pb.BadRecord]) -> None:
        """A split has been read up to here. Every epoch sees the same: the most counts."""
        more = rows - self._rows[index]
        if more > 0 and not self._known[index]:
            self._rows[index] = rows
            self.rows_seen += more
        if bad > self._bad[index]:
            self.bad_records += bad - self._bad[index]
            self._bad[index] = bad
            for s in samples:
                sample = BadSample(s.path, s.line, s.error, s.text)
                if len(self.samples) < BAD_SAMPLES and sample not in self.samples:
                    self.samples.append(sample)

    def complete(self, index: int) -> None:
        """A split has been read to its end."""
        if not self._known[index]:
            self._known[index] = 1
            self._known_rows += self._rows[index]
            self._known_weight += self.weights[index]

    def bury(self, index: int, error: str) -> DeadLetter:
        """A split is given up, for this epoch and all that follow."""
        split = self.splits[index]
        nodes = tuple(failure.node for failure in self.failures.get(index, []))
        letter = DeadLetter(
            self.phase, split.id, split.path, split.start, split.length, error, nodes
        )
        self.dead[index] = letter
        self._dead_weight += self.weights[index]
        if self._known[index]:
            self._known_rows -= self._rows[index]
            self._known_weight -= self.weights[index]
        return letter

    def is_known(self, index: int) -> bool:
        """Whether the split's rows have been counted to the end."""
        return bool(self._known[index])

    def rows_per_epoch(
        self, partial_rows: int = 0, partial_weight: int = 0, otherwise: float | None = None
    ) -> float | None:
        """Rows that one epoch has; exact when every split is known, else estimated from bytes.

        `partial_*` is what has been read of splits that are not known yet; `otherwise` is the
        rows per byte to go by when nothing has been read. None: nothing to go by.
        """
        unknown = self.weight - self._known_weight - self._dead_weight
        if unknown <= 0:
            return float(self._known_rows)
        density = self.density(partial_rows, partial_weight)
        density = otherwise if density is None else density
        return None if density is None else self._known_rows + unknown * density

    def density(self, partial_rows: int = 0, partial_weight: int = 0) -> float | None:
        """Rows per byte as far as they are known."""
        weight = self._known_weight + partial_weight
        rows = self._known_rows + partial_rows
        return rows / weight if rows > 0 and weight > 0 else None

    def bad_ratio_over(self, ratio: float, at_end: bool) -> bool:
        """Whether more than `ratio` of the records are bad, once that can be said."""
        seen = self.rows_seen + self.bad_records
        enough = max(LEAST_ROWS_FOR_RATIO, 10 / ratio if ratio > 0 else 0)
        return (at_end or seen >= enough) and self.bad_records > ratio * seen

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "fingerprint": self.fingerprint,
            "rows": list(self._rows),
            "bad": [[i, bad] for i, bad in enumerate(self._bad) if bad],
            "known": "".join("1" if known else "0" for known in self._known),
            "failures": [[i, [asdict(f) for f in self.failures[i]]] for i in sorted(self.failures)],
            "dead": [[i, self.dead[i].error] for i in self.dead],
            "samples": [asdict(sample) for sample in self.samples],
        }

    def restore(self, data: Any) -> None:
        """Put back what `snapshot` gave.

        Raises
        ------
        DataError
            The snapshot is of another input.
        """
        if data["fingerprint"] != self.fingerprint:
            raise DataError(
                f"the {self.phase} input is not the one that this job started with: files were "
                "added, removed or changed",
                "put the files back as they were, or submit the job anew",
            )
        self._rows = list(data["rows"])
        self._bad = [0] * len(self.splits)
        for i, bad in data["bad"]:
            self._bad[i] = bad
        self._known = bytearray(int(known) for known in data["known"])
        self.failures = {i: [Failure(**f) for f in failures] for i, failures in data["failures"]}
        self.samples = [BadSample(**sample) for sample in data["samples"]]
        self.dead = {}
        for i, error in data["dead"]:
            self.bury(i, error)
        self._tally()


def _weights(splits: Sequence[SplitLike]) -> list[int]:
    lengths: dict[str, int] = {}
    for split in splits:
        lengths[split.path] = lengths.get(split.path, 0) + split.length
    return [
        max(1, split.file_size * split.length // max(1, lengths[split.path])) for split in splits
    ]


def _fingerprint(splits: Sequence[SplitLike]) -> str:
    digest = hashlib.sha256()
    for s in splits:
        digest.update(repr((s.id, s.path, s.start, s.length, s.file_size, s.modified_ms)).encode())
    return digest.hexdigest()[:16]
