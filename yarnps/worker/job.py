"""The job, as a worker's program sees it."""

from __future__ import annotations

import functools
import logging
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from yarnps._errors import InputError, ServerRefused, YarnpsError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel
from yarnps.protocol.settings import EngineSettings
from yarnps.protocol.tables import (
    AUDIT_TABLE,
    Add,
    Clip,
    Combine,
    Init,
    NonFinite,
    Optimizer,
    Sgd,
    TableSpec,
    WhenFull,
    Wire,
    Zeros,
)
from yarnps.worker.ahead import Pull
from yarnps.worker.batch import Batch
from yarnps.worker.client import Client
from yarnps.worker.link import Link
from yarnps.worker.loop import DataLoop, Evaluate
from yarnps.worker.preparing import Prepare, PreparedFiles
from yarnps.worker.reading import Ahead, reader
from yarnps.worker.stopwatch import Rate
from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable, Table

if TYPE_CHECKING:
    import yarnps.spec

log = logging.getLogger(__name__)


class Job:
    """The job that this process is a worker of; made by `connect`.

    Attributes
    ----------
    application : str
        The application's id.
    job_dir : str
        Address of the job directory.
    rank : int
        This worker's number, the same after a restart.
    workers : int
        How many workers the job was submitted with.
    params : dict
        `yarnps.params` of the job file.
    seed : int
        `yarnps.train.seed` of the job file.
    """

    def __init__(self, channel: RoleChannel, begin: pb.Begin, early: list[pb.ToRole]) -> None:
        self._settings = EngineSettings.from_job_json(begin.job_json)
        self._begin = begin
        self._client = Client(begin, self._settings.request_limit)
        self._tables: list[Table] = []
        self._client.on_void = self._tell_void
        self._current = CurrentBatch()
        self._loop: DataLoop | None = None
        self._before_loop: list[pb.ToRole] = []
        self._prepared = PreparedFiles(begin.job_dir)
        self._told_failure = False
        self._finished = False
        self._epoch = 0
        self._rate = Rate()
        self.application: str = begin.application
        self.job_dir: str = begin.job_dir
        self.rank: int = begin.rank
        self.workers: int = begin.workers
        self.params = self._settings.params
        self.seed = self._settings.seed
        self.app = self._settings.app
        self._link = Link(channel, self._on_message, self._stats)
        self._link.start(early)

    @functools.cached_property
    def config(self) -> yarnps.spec.Job:
        """The whole job file."""
        from yarnps.spec import Job as JobFile

        return JobFile.from_json(self._begin.job_json)

    # ------------------------------------------------------------------ tables

    def sparse(
        self,
        name: str,
        dim: int = 1,
        dtype: str = "float32",
        *,
        optimizer: Optimizer | None = None,
        init: Init | None = None,
        model: bool = True,
        combine: Combine | None = None,
        clip: Clip | None = None,
        nonfinite: NonFinite = "fail",
        when_full: WhenFull = "fail",
        admit: int = 1,
        expire: int | None = None,
        wire: Wire | None = None,
    ) -> SparseTable:
        """A table of int64 keys, each with a row of `dim` numbers.

        Parameters
        ----------
        name : str
            Every worker that names it gets the same table.
        dtype : {"float32", "float64"}
        optimizer : Optimizer, default Sgd()
            What the servers do with pushed gradients.
        init : Init, default Zeros()
            Values of a row before its first push; they depend on (seed, name, key) only.
        model : bool
            The table belongs to the model that the job writes.
        combine : {"mean", "sum"}, optional
            What a BSP step makes of its parts' pushes: their mean weighted by rows, which is right
            for gradients of a mean loss, or their sum. Not given: the sum for `Add`, else the mean.
        clip : Clip, optional
            Limits on gradients.
        nonfinite : {"fail", "skip", "clip"}
            What servers do with NaN and infinity in gradients: refuse the push, leave the row
            out, or replace them by 0 and ``clip.value``.
        when_full : {"fail", "ignore", "evict"}
            What servers do with new keys when their table memory is used up: refuse the push,
            give them no row, or forget the rows that were not pushed for the longest time.
        admit : int
            A key gets a row at its n-th push.
        expire : int, optional
            A row that was not pushed for more than so many batches (clocks) is forgotten.
        wire : Wire, optional
            Shorter forms of its numbers on the wire; they lose something.

        Raises
        ------
        ServerRefused
            The table exists with other settings.

        Examples
        --------
        >>> w = job.sparse("w", optimizer=yarnps.Ftrl(alpha=0.1, l1=1.0))  # doctest: +SKIP
        """
        table = SparseTable(
            self._client,
            self._open(
                name,
                "sparse",
                (dim,),
                dtype,
                optimizer,
                init,
                model=model,
                combine=combine,
                clip=clip,
                nonfinite=nonfinite,
                when_full=when_full,
                admit=admit,
                expire=expire,
                wire=wire or Wire(),
            ),
            self._current,
        )
        self._tables.append(table)
        return table

    def dense(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: str = "float32",
        *,
        optimizer: Optimizer | None = None,
        init: Init | None = None,
        model: bool = True,
        combine: Combine | None = None,
        clip: Clip | None = None,
        nonfinite: NonFinite = "fail",
        wire: Wire | None = None,
    ) -> DenseTable:
        """An array on the servers; the parameters are those of `sparse`."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        table = DenseTable(
            self._client,
            self._open(
                name,
                "dense",
                sizes,
                dtype,
                optimizer,
                init,
                model=model,
                combine=combine,
                clip=clip,
                nonfinite=nonfinite,
                wire=wire or Wire(),
            ),
            self._current,
        )
        self._tables.append(table)
        return table

    def _open(
        self,
        name: str,
        kind: Any,
        shape: tuple[int, ...],
        dtype: str,
        optimizer: Optimizer | None,
        init: Init | None,
        **policies: Any,
    ) -> TableSpec:
        spec = TableSpec(
            name=name,
            kind=kind,
            shape=shape,
            dtype=str(dtype),
            optimizer=optimizer or Sgd(),
            init=init or Zeros(),
            seed=self.seed,
            **policies,
        )
        self._client.open(spec)
        return spec

    # ------------------------------------------------------------------ input

    def data(
        self,
        evaluate: Evaluate | None = None,
        *,
        prepare: Prepare | None = None,
        ahead: Ahead | None = None,
        pull: Pull | None = None,
    ) -> Iterator[Batch]:
        """All batches that this worker gets, of all epochs, until the input has ended.

        Parameters
        ----------
        evaluate : callable, optional
            Called with each batch of the test input, after every epoch, on a model that nobody
            changes meanwhile. It returns a dict of numbers or vectors, which are added up over
            the whole test input; a vector of two numbers [sum, weight] becomes the metric
            ``test_<name>`` = sum / weight.
        prepare : callable, optional
            For jobs with `train.prepare`: called for each split of the training input, before the
            first epoch, with an iterator of its batches. It returns bytes, which are kept in the
            job directory, once for each split whoever dies; `prepared` reads them all.
        ahead : callable, optional
            Called with the rows of each batch in a thread that reads ahead, while the program
            works on an earlier batch. What it returns is the batch's `ahead`: work that needs the
            rows only, and no table, is done there beside the program's own. With bsp there is a
            thread for each part, so it may be called several times at once.
        pull : callable, optional
            Called with each batch, of training and test: it makes the pulls that the batch needs,
            without waiting for them, and what it returns is the batch's `pulled`. With
            `train.pull_ahead`, and not with bsp, it is called before the batch in front of it is
            in work, when the batch has been read by then. So the pulls travel meanwhile, and do
            not see what that batch in front pushes; `sync.staleness` holds all the same.

        Yields
        ------
        Batch
            Work on it inside ``with batch:``, which commits it.

        Examples
        --------
        >>> for batch in job.data():                       # doctest: +SKIP
        ...     with batch:
        ...         w = table.pull(batch.keys).wait()
        ...         table.push(batch.keys, gradient(w, batch))
        """
        if self._loop is not None:
            raise YarnpsError("data() was called twice", "it goes through all epochs by itself")
        audit = None
        if self._settings.audit:
            audit = self.sparse(AUDIT_TABLE, dtype="float64", optimizer=Add(), model=False)
        loop = DataLoop(
            self._client,
            self._settings,
            self._current,
            read=reader(self._begin.job_json, ahead),
            say=self._link.send,
            keep=self._prepared.keep,
            audit=audit,
        )
        self._loop = loop
        early, self._before_loop = self._before_loop, []
        for message in early:
            self._on_message(message)
        return self._noting_epochs(loop.batches(evaluate, prepare, pull))

    def prepared(self) -> list[bytes]:
        """What `prepare` has made of each split, in the order of the splits.

        Call it when the first batch of training is there: then all splits have been through. The
        answer is the same in every worker, and after a restart.

        Raises
        ------
        YarnpsError
            There has been no batch yet.

        Examples
        --------
        >>> def count(batches):                            # doctest: +SKIP
        ...     return str(sum(batch.rows for batch in batches)).encode()
        >>> total = None                                   # doctest: +SKIP
        >>> for batch in job.data(prepare=count):
        ...     if total is None:
        ...         total = sum(int(part) for part in job.prepared())
        """
        if self._loop is None or not self._loop.input:
            raise YarnpsError(
                "prepared() was called before the first batch",
                "call it inside `for batch in data(prepare=fn)`",
            )
        return self._prepared.read(self._loop.input)

    def _noting_epochs(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self._epoch = batch.epoch
            yield batch

    def report(self, **values: float) -> None:
        """Show numbers of your own on the page, in `yarnps status` and in the event log."""
        numbers = {name: float(value) for name, value in values.items()}
        self._link.send(pb.FromRole(report=pb.Report(values=numbers, epoch=self._epoch)))

    # ------------------------------------------------------------------ the agent's channel

    def _on_message(self, message: pb.ToRole) -> None:
        """In the link's thread."""
        kind = message.WhichOneof("kind")
        if kind == "routes":
            self._client.post_routes(message.routes)
        elif kind == "begin":  # a restarted AM repeats it
            self._client.post_routes(message.begin.routes)
        elif kind == "stop":
            log.info("stopping: %s", message.stop.reason)
            logging.shutdown()
            os._exit(0)
        elif self._loop is None:
            if kind == "am_back":
                self._link.send(pb.FromRole(hello=pb.RoleHello(pid=os.getpid(), resync=True)))
            else:
                self._before_loop.append(message)
        elif kind == "grant":
            self._loop.on_grant(message.grant)
        elif kind == "revoke":
            self._loop.on_revoke(message.revoke)
        elif kind == "end_of_data":
            self._loop.on_end_of_data()
        elif kind == "am_back":
            self._loop.on_am_back()

    def _tell_void(self, text: str) -> None:
        log.warning("%s", text)
        self._link.send(pb.FromRole(event=pb.RoleEvent(name="residuals", text=text)))

    def _stats(self) -> pb.Stats:
        rows = 0 if self._loop is None else self._loop.rows_done
        if self._loop is not None:
            self._loop.each_second()
        return pb.Stats(
            clock=self._client.clock or 0,
            rows_per_s=self._rate.at(rows, time.monotonic()),
            idle_s=self._client.idle.seconds,
            late=0 if self._loop is None else self._loop.late,
        )

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """The program is through with its work. Called by itself when the interpreter exits."""
        if self._finished or self._told_failure or self._loop is None or not self._loop.ended:
            return
        self._finished = True
        try:
            self._client.settle()
        except YarnpsError as error:
            log.error("what nobody has waited for has failed: %s", error)
            self.fail(error)
            return
        for table in self._tables:
            table.give_up()
        self._link.send(pb.FromRole(finished=pb.Finished()))

    def fail(self, error: BaseException) -> None:
        """Tell the ApplicationMaster what the program ended with."""
        if self._told_failure:
            return
        self._told_failure = True
        if isinstance(error, YarnpsError):
            text = f"{error.what}. {error.remedy}" if error.remedy else error.what
        else:
            text = (str(error).strip() or type(error).__name__).splitlines()[0]
        self._link.send(
            pb.FromRole(
                failed=pb.RoleFailed(
                    # One line: it is part of sentences. The kind decides what is said about it.
                    error=f"{type(error).__name__}: {' '.join(text.split())}",
                    traceback="".join(traceback.format_exception(error)),
                    user_error=isinstance(error, InputError)
                    or (isinstance(error, ServerRefused) and error.certain),
                )
            )
        )
