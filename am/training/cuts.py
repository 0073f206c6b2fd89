"""Cuts: when one is due, who still has to save, and which one a lost server comes back from.

A cut is the ledger as it was at one moment, and every server's shards with their marks as they
were some time after. What a shard holds beyond the ledger is dropped by its marks when it is
replayed, so nobody pauses for a cut. A cut counts when its manifest is in place ("durable").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from yarnps.protocol import control_pb2 as pb

NO_CUT = -1


class Cut(NamedTuple):
    """A cut that the servers are to save now."""

    number: int
    folder: str  # inside the job directory
    reason: str


class Abandoned(NamedTuple):
    """A cut that will not be; its folder can be deleted."""

    number: int
    folder: str
    reason: str


class Durable(NamedTuple):
    """A cut is in place: these older ones are not needed any more."""

    number: int
    delete: list[Cut]


@dataclass(frozen=True)
class CutFile:
    """A file of a cut. `sum` is that of all values of the table in it."""

    server_rank: int
    incarnation: int
    name: str  # relative to the cut's folder
    bytes: int
    rows: int
    table: str
    sum: float

    def to_pb(self) -> pb.SavedFile:
        """The message that tells a server what to load."""
        return pb.SavedFile(
            name=self.name, bytes=self.bytes, rows=self.rows, table=self.table, sum=self.sum
        )


@dataclass(frozen=True)
class Manifest:
    """All that is needed to go back to a cut; `manifest.json` in its folder."""

    number: int
    folder: str
    reason: str
    time: float  # when the ledger was read
    servers: int
    ledger: Mapping[str, Any]
    extra: Mapping[str, Any]  # what else the ApplicationMaster wants back (history, routes, …)
    files: tuple[CutFile, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**{k: v for k, v in vars(self).items() if k != "files"}, "files": self.file_list()}

    def file_list(self) -> list[dict[str, Any]]:
        """The files as plain data."""
        return [asdict(file) for file in self.files]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Manifest:
        """The inverse of `to_json`."""
        return Manifest(**{**data, "files": tuple(CutFile(**file) for file in data["files"])})


class Cuts:
    """The cuts of a job, one at a time.

    Parameters
    ----------
    every
        Seconds from one cut's beginning to the next; 0: only when asked for.
    keep
        How many durable cuts are kept.
    first_ledger
        The snapshot of the ledger before anything has begun: what a job without a cut goes back
        to.
    limit
        Seconds after which a cut that is not complete is abandoned.
    start
        When the job began: the first cut is due `every` after that.
    """

    def __init__(
        self,
        every: float,
        keep: int,
        first_ledger: Mapping[str, Any],
        *,
        limit: float = 600.0,
        start: float = 0.0,
    ) -> None:
        self._every = every
        self._keep = max(1, keep)
        self._limit = limit
        self._first_ledger = first_ledger
        self._last_begun = start
        self._next = 1
        self._open: Manifest | None = None
        self._missing: dict[int, int] = {}  # server rank -> incarnation
        self._complete = False
        self._newest: Manifest | None = None
        self._kept: list[tuple[int, str]] = []  # older durable ones, oldest first

    def adopt(self, manifests: Sequence[Manifest], numbers: Iterable[int] = ()) -> None:
        """In a new attempt: the durable cuts that are there, and every number that is taken.

        Numbers include folders of cuts that were never complete, so that none is used again.
        """
        ordered = sorted(manifests, key=lambda m: m.number)
        self._kept = [(m.number, m.folder) for m in ordered]
        self._newest = ordered[-1] if ordered else None
        taken = [*numbers, *(m.number for m in ordered)]
        self._next = max([self._next, *(n + 1 for n in taken)])

    # ------------------------------------------------------------ one cut

    def due(self, now: float) -> bool:
        """Whether it is time for a cut, and none is under way."""
        return self._open is None and self._every > 0 and now - self._last_begun >= self._every

    def begin(
        self,
        ledger: Mapping[str, Any],
        servers: Mapping[int, int],
        now: float,
        *,
        reason: str = "time",
        extra: Mapping[str, Any] | None = None,
    ) -> Cut:
        """Start a cut of the ledger's snapshot. `servers` are ranks with their incarnations.

        The snapshot must have been taken before any server is told to save.
        """
        if self._open is not None:
            raise ValueError(f"cut {self._open.number} is not finished")
        number, self._next = self._next, self._next + 1
        self._last_begun = now
        self._open = Manifest(
            number, f"cuts/{number}", reason, now, len(servers), ledger, extra or {}, ()
        )
        self._missing = dict(sorted(servers.items()))
        self._complete = False
        return Cut(number, self._open.folder, reason)

    @property
    def open(self) -> Cut | None:
        """The cut that is under way."""
        m = self._open
        return None if m is None else Cut(m.number, m.folder, m.reason)

    @property
    def missing(self) -> list[int]:
        """The server ranks that the open cut waits for."""
        return list(self._missing)

    def waits_for(self, rank: int, incarnation: int) -> bool:
        """Whether the open cut lacks this server process."""
        return self._open is not None and self._missing.get(rank) == incarnation

    def save_done(self, rank: int, incarnation: int, done: pb.SaveDone) -> Manifest | None:
        """A server has saved its shards.

        Returns
        -------
        Manifest or None
            When it was the last: to be written as ``manifest.json``, after which `durable` is
            called. A server that could not save does not count: see `error_of`.
        """
        if self._open is None or done.cut != self._open.number or done.error:
            return None
        if self._missing.get(rank) != incarnation:
            return None
        del self._missing[rank]
        files = tuple(
            CutFile(rank, incarnation, f.name, f.bytes, f.rows, f.table, f.sum) for f in done.files
        )
        self._open = Manifest(**{**vars(self._open), "files": self._open.files + files})
        self._complete = not self._missing
        return self._open if self._complete else None

    def amend(self, ledger: Mapping[str, Any]) -> Manifest | None:
        """The ledger that goes with what the servers have saved, when that is known at last."""
        if self._open is not None:
            self._open = replace(self._open, ledger=ledger)
        return self._open

    def error_of(self, rank: int, incarnation: int, done: pb.SaveDone) -> str:
        """Why the open cut cannot be completed, if this message says so ('' otherwise)."""
        awaited = self._missing.get(rank) == incarnation
        ours = self._open is not None and done.cut == self._open.number
        return (
            f"server {rank} could not save: {done.error}" if awaited and ours and done.error else ""
        )

    def expired(self, now: float) -> str:
        """Why the open cut has taken too long, and whom it waits for ('' while it has not)."""
        if self._open is None or now - self._open.time < self._limit:
            return ""
        who = ", ".join(f"server {rank}" for rank in self._missing) or "its manifest"
        return f"not complete after {self._limit:.0f} s: {who} missing"

    def abandon(self, reason: str) -> Abandoned | None:
        """Give up the open cut: a server died or could not save, or it took too long."""
        m, self._open, self._missing = self._open, None, {}
        return None if m is None else Abandoned(m.number, m.folder, reason)

    def durable(self, number: int) -> Durable | None:
        """The manifest of the open cut is in place. None: it was abandoned meanwhile."""
        if self._open is None or self._open.number != number or not self._complete:
            return None
        self._newest, self._open = self._open, None
        self._kept.append((number, self._newest.folder))
        old, self._kept = self._kept[: -self._keep], self._kept[-self._keep :]
        return Durable(number, [Cut(n, folder, "") for n, folder in old])

    # ------------------------------------------------------------ going back

    @property
    def newest(self) -> Manifest | None:
        """The newest durable cut."""
        return self._newest

    @property
    def newest_number(self) -> int:
        """Its number; `NO_CUT` when there is none."""
        return NO_CUT if self._newest is None else self._newest.number

    @property
    def newest_ledger(self) -> Mapping[str, Any]:
        """The ledger to go back to when a server is lost."""
        return self._first_ledger if self._newest is None else self._newest.ledger

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "last_begun": self._last_begun,
            "next": self._next,
            "open": None if self._open is None else self._open.to_json(),
            "missing": [[rank, incarnation] for rank, incarnation in self._missing.items()],
            "complete": self._complete,
            "newest": None if self._newest is None else self._newest.to_json(),
            "kept": [[number, folder] for number, folder in self._kept],
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._last_begun = data["last_begun"]
        self._next = data["next"]
        self._open = None if data["open"] is None else Manifest.from_json(data["open"])
        self._missing = dict(data["missing"])
        self._complete = data["complete"]
        self._newest = None if data["newest"] is None else Manifest.from_json(data["newest"])
        self._kept = [(number, folder) for number, folder in data["kept"]]
