"""`yarnps.shard()`: a worker's share of the input, for programs that know nothing of a ledger."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from yarnps._errors import YarnpsError

if TYPE_CHECKING:
    from yarnps.data import DataSettings, RawBatch, Rows, Split

POLL_S = 0.2


@dataclass(frozen=True)
class Shard:
    """One worker's share of an input.

    Attributes
    ----------
    rank : int
        This worker's number, from 0; the same after a restart.
    world : int
        How many workers there are.
    splits : tuple of Split
        Its splits: each split of the input belongs to exactly one worker, about as many bytes to
        each. A split is a range of a file (`path`, `start`, `length`).
    settings : DataSettings
        How records are written, from the job file's `data`.
    """

    rank: int
    world: int
    splits: tuple[Split, ...]
    settings: DataSettings = field(repr=False)

    def batches(self) -> Iterator[RawBatch]:
        """The records of all splits in the files' order, `train.batch_rows` at a time.

        Yields
        ------
        RawBatch
            Its `rows` are `Rows`, or `Records` with `format: text` and for parsers of your own.

        Raises
        ------
        DataError
            A file cannot be read, or is not as it was listed.
        """
        from yarnps.data import read_batches

        for split in self.splits:
            yield from read_batches(split, self.settings, epoch=0, shuffle=False)

    def rows(self) -> Rows:
        """All rows at once (CSR).

        Raises
        ------
        DataError
            As from `batches`; or the records are no labelled rows (`format: text`).
        """
        from yarnps._errors import DataError
        from yarnps.data import Rows

        parts = []
        for batch in self.batches():
            if not isinstance(batch.rows, Rows):
                raise DataError(
                    f"records of format {self.settings.format} are not labelled rows",
                    "Go through `batches()`, or set data.format to what the files are.",
                )
            parts.append(batch.rows)
        return Rows.concat(parts) if parts else Rows.empty()


def shard(part: Literal["train", "test"] = "train") -> Shard:
    """This worker's share of the job's input, with `runtime: xgboost`.

    The ApplicationMaster has listed `data.train` (and `data.test`) of the job file; every worker
    gets the same list and takes its own part of it.

    Parameters
    ----------
    part : {"train", "test"}
        Which input.

    Raises
    ------
    YarnpsError
        This process is no worker of such a job, the job file names no such input, or the
        ApplicationMaster did not list it in time (`start_timeout`).

    Examples
    --------
    >>> share = yarnps.shard()                               # doctest: +SKIP
    >>> rows = share.rows()                                  # doctest: +SKIP
    """
    from yarnps.data import DataSettings
    from yarnps.jobdir import JOB_JSON, SPLITS, JobDir
    from yarnps.rabit.contract import TASK_ID, WORKERS
    from yarnps.spec import Job

    names = ("YARNPS_JOB_DIR", TASK_ID, WORKERS)
    address, rank, world = (os.environ.get(name, "") for name in names)
    if not (address and rank and world):
        raise YarnpsError(
            "this process is not a worker of a job with runtime: xgboost",
            "Start the program with `yarnps submit`; `--cluster local` runs it on this machine.",
        )
    job_dir = JobDir(address)
    job = Job.from_json(job_dir.read(JOB_JSON).decode())
    assert job.block is not None
    if not getattr(job.block.data, part):
        raise YarnpsError(
            f"the job file names no input to share: data.{part}", f"Set yarnps.data.{part}."
        )
    deadline = time.monotonic() + job.block.start_timeout
    while (listed := job_dir.read_json(SPLITS)) is None:
        if time.monotonic() > deadline:
            raise YarnpsError(
                f"the input was not listed within {job.block.start_timeout:.0f} s (start_timeout)",
                "`yarnps status` says what the ApplicationMaster is doing.",
            )
        time.sleep(POLL_S)
    splits = share(from_json(listed[part]), int(rank), int(world))
    settings = DataSettings.from_block(job.block)
    return Shard(int(rank), int(world), splits, settings)


def share(splits: Sequence[Split], rank: int, world: int) -> tuple[Split, ...]:
    """The splits of one worker: the largest first to whoever has least; in the input's order."""
    loads = [0] * world
    mine = []
    for split in sorted(splits, key=lambda s: (-s.length, s.id)):
        owner = min(range(world), key=lambda worker: (loads[worker], worker))
        loads[owner] += split.length
        if owner == rank:
            mine.append(split)
    return tuple(sorted(mine, key=lambda s: s.id))


def as_json(splits: Sequence[Split]) -> list[str]:
    """Splits for a JSON document."""
    return [base64.b64encode(s.to_pb().SerializeToString()).decode() for s in splits]


def from_json(texts: Sequence[Any]) -> list[Split]:
    """The inverse of `as_json`."""
    from yarnps.data import Split
    from yarnps.protocol import control_pb2 as pb

    return [Split.from_pb(pb.SplitInfo.FromString(base64.b64decode(text))) for text in texts]
