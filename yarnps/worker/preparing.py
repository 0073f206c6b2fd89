"""The pass before the first epoch: whole splits in, what the program makes of them kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yarnps._errors import LeaseRevoked, YarnpsError
from yarnps.worker.batch import Batch
from yarnps.worker.feed import Parsed
from yarnps.worker.leases import Held

Prepare = Callable[[Iterator[Batch]], bytes]


class SplitBatches(Iterator[Batch]):
    """The batches of one split, up to its end or to the loss of its lease.

    Parameters
    ----------
    first
        The first thing that was read of the split.
    following
        What was read next, of this split or (when its lease is void) of another.
    batch_of
        Makes the program's batch of what was read.

    Attributes
    ----------
    end : Parsed or None
        The split's end, or its error, when it has been met.
    beyond : Parsed or None
        What came instead of the split's end; it belongs to whoever reads on.
    void : bool
        The lease was lost before the end.
    """

    def __init__(
        self,
        first: Parsed,
        following: Callable[[], Parsed | None],
        batch_of: Callable[[Parsed], Batch],
    ) -> None:
        self.lease = first.lease
        self.end: Parsed | None = None
        self.beyond: Parsed | None = None
        self.void = False
        self._first: Parsed | None = first
        self._following = following
        self._batch_of = batch_of

    def __next__(self) -> Batch:
        while self.end is None and not self.void:
            parsed = self._first or self._following()
            self._first = None
            if parsed is None or parsed.lease is not self.lease:
                self.beyond, self.void = parsed, True
            elif parsed.raw is None:
                self.end = parsed
            else:
                batch = self._batch_of(parsed)
                if len(batch):
                    return batch
        if self.void or (self.end is not None and self.end.error is not None):
            # Half a split must not be taken for a whole one.
            raise LeaseRevoked(f"split {self.lease.split.id} could not be read to its end")
        raise StopIteration


def result_of(split: SplitBatches, prepare: Prepare | None) -> bytes | None:
    """What the program makes of a split; None when it could not be read to its end.

    Raises
    ------
    YarnpsError
        The program has no function for it, or one that returns something else.
    """
    if prepare is None:
        raise YarnpsError(
            "the job file has a pass before the first epoch, and the program nothing for it",
            "call data(prepare=fn), or leave out train.prepare",
        )
    try:
        result = prepare(split)
        for _ in split:  # what the program did not want to see
            pass
    except LeaseRevoked:
        return None
    if not isinstance(result, bytes):
        raise YarnpsError(
            f"prepare= returned {type(result).__name__} for split {split.lease.split.id}",
            "return bytes: json.dumps(…).encode(), for example",
        )
    return result


class PreparedFiles:
    """The results of all splits, in the job directory.

    A file is named by its split, in a folder named by the input's fingerprint, and appears whole.
    So a split that is done twice (its worker died before it could say so) leaves one result, and
    one of an input that has changed since an earlier attempt is not taken for this one's.
    """

    def __init__(self, job_dir: str) -> None:
        self._job_dir = job_dir

    def keep(self, lease: Held, result: bytes) -> None:
        """Write the result of a split."""
        from yarnps.jobdir import PREPARED, JobDir

        job_dir = JobDir(self._job_dir)
        path = job_dir.inside(PREPARED, lease.input, f"{lease.split.id:08d}")
        job_dir.files.write_bytes(path, result, overwrite=True)

    def read(self, input_name: str) -> list[bytes]:
        """The results of all splits of an input, in the order of the splits."""
        from yarnps.jobdir import PREPARED, JobDir

        job_dir = JobDir(self._job_dir)
        files, folder = job_dir.files, job_dir.inside(PREPARED, input_name)
        if not files.exists(folder):
            return []
        paths = {info.path.rstrip("/").rpartition("/")[2]: info.path for info in files.list(folder)}
        # A name of digits only: not the temporary file of a worker that died in writing.
        return [files.read_bytes(paths[name]) for name in sorted(paths) if name.isdigit()]
