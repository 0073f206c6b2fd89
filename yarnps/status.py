"""The status document: one vocabulary for `yarnps status -o json`, the page and the history.

The ApplicationMaster builds a `Status`, serves it over gRPC and on its page, and writes it to the
job directory (``status.json``), last of all when the job ends. Times are seconds since the epoch
(UTC), sizes are bytes, rates are per second. ``None`` means: not known or not applicable.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any

# States of a job, in the order of a life.
STATES = (
    "STARTING",
    "PREPARING",
    "TRAINING",
    "EVALUATING",
    "FINISHING",
    "SUCCEEDED",
    "FAILED",
    "KILLED",
)


@dataclass(frozen=True)
class Outcome:
    """How the job ended. `cause_code` is one of `yarnps.causes`' codes, '' when it succeeded.

    `exit_code` is that of the process whose failure ended the job, as a shell gives it; None where
    something else did.
    """

    state: str
    cause: str = ""
    cause_code: str = ""
    retry_helps: bool | None = None
    skipped_splits: int = 0
    traceback: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Progress:
    """The ledger in numbers. Rows count every epoch, splits are those of the present phase."""

    epoch: int = 0
    epochs: int = 0
    phase: str = "train"  # or "prepare", before the first epoch, or "test"
    splits_done: int = 0
    splits_total: int = 0
    splits_leased: int = 0
    splits_all: int = 0  # done over all epochs and phases
    rows: int = 0
    rows_total: int | None = None  # estimated from bytes until an epoch is known
    fraction: float = 0.0
    rows_per_s: float = 0.0
    seconds_left: float | None = None
    bad_records: int = 0
    skipped_splits: int = 0


@dataclass(frozen=True)
class TableInfo:
    """One table on one server."""

    name: str
    rows: int
    bytes: int
    ignored: int = 0  # new rows for which there was no memory
    evicted: int = 0  # rows that made room for others
    expired: int = 0  # rows that were not pushed for too long
    waiting: int = 0  # keys not yet seen often enough for a row
    nonfinite: int = 0  # rows of gradients with NaN or infinity in them

    def __add__(self, other: TableInfo) -> TableInfo:
        """The same table on two servers."""
        mine, theirs = dataclasses.astuple(self)[1:], dataclasses.astuple(other)[1:]
        return TableInfo(self.name, *(a + b for a, b in zip(mine, theirs, strict=True)))

    @property
    def losses(self) -> str:
        """What the table's policies have cost, in words; empty: nothing."""
        words = {
            "ignored": self.ignored,
            "evicted": self.evicted,
            "expired": self.expired,
            "not admitted": self.waiting,
            "with NaN or infinity": self.nonfinite,
        }
        return ", ".join(f"{number:,} {word}" for word, number in words.items() if number)


@dataclass(frozen=True)
class Process:
    """One container with its role."""

    role: str
    rank: int
    state: str  # requested, starting, running, restarting, finished, failed, lost
    node: str = ""
    container: str = ""
    incarnation: int = 0  # how many times this rank has been started, from 1
    cpu_percent: float | None = None
    memory: int | None = None
    memory_peak: int | None = None
    memory_limit: int | None = None
    rows_per_s: float | None = None
    rows: int = 0
    clock: int | None = None
    idle_s: float | None = None
    late: int = 0  # BSP with spare parts: batches that came too late, and were done again
    last_heard: float | None = None
    deaths: int = 0
    note: str = ""  # why it is not running, or what it waits for
    logs: str = ""  # address of its log page, when there is one
    tables: tuple[TableInfo, ...] = ()


@dataclass(frozen=True)
class Event:
    """One line of the event log."""

    seq: int
    time: float
    kind: str  # see docs/operations.md: grant, start, death, restart, save, epoch, metric, …
    text: str
    role: str = ""
    rank: int | None = None
    container: str = ""
    incarnation: int | None = None
    node: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """A value at a time."""

    time: float
    value: float
    epoch: int | None = None


@dataclass(frozen=True)
class Status:
    """Everything that a person may ask about a job."""

    application: str
    name: str
    user: str
    state: str
    sentence: str  # the first thing to read
    attempt: int = 1
    generation: int = 0
    started: float = 0.0
    now: float = 0.0
    ended: float | None = None
    job_dir: str = ""
    model: str = ""
    cluster: str = ""  # yarn or local
    queue: str = ""
    runtime: str = "native"
    app: str = ""
    progress: Progress = field(default_factory=Progress)
    metrics: dict[str, float] = field(default_factory=dict)  # the newest value of each
    best: dict[str, float] = field(default_factory=dict)
    curves: dict[str, tuple[Point, ...]] = field(default_factory=dict)  # metric -> points
    rate: tuple[Point, ...] = ()  # rows/s over time, at most 600 points
    processes: tuple[Process, ...] = ()  # worst first
    events: tuple[Event, ...] = ()  # newest last, at most 500
    waits: tuple[str, ...] = ()  # what the job waits for, until when
    outcome: Outcome | None = None
    restarts: int = 0
    lost_rows: int = 0  # done, but lost with a server in its shards: `server.on_loss: patch`
    rows_pushed: int | None = None  # what the audit table on the servers says, when it is on
    last_cut: int | None = None
    last_cut_time: float | None = None
    am_restarts: int = 0
    am_loop_lag_s: float = 0.0


def to_dict(record: Any) -> dict[str, Any]:
    """The record as JSON-ready data."""
    return dataclasses.asdict(record)


def to_json(record: Any) -> str:
    """The record as one line of JSON (ASCII)."""
    return json.dumps(to_dict(record), separators=(",", ":"), default=str)


def status_from_json(text: str) -> Status:
    """The inverse of `to_json` for a `Status`; unknown keys of a newer version are left out."""
    result = _build(Status, json.loads(text))
    assert isinstance(result, Status)
    return result


def _build(kind: Any, value: Any) -> Any:
    """`value` (parsed JSON) as an instance of the annotation `kind`."""
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        known = {k: _build(hints[k], v) for k, v in value.items() if k in hints}
        assert isinstance(kind, type)
        return kind(**known)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in args if a is not type(None)]
        return None if value is None else _build(inner[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_build(args[0], v) for v in value)
    if origin is dict and isinstance(value, dict):
        return {k: _build(args[1], v) for k, v in value.items()}
    return value
