"""`data()`: leases in, batches out, commits and progress back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy.typing import ArrayLike

from yarnps._errors import LeaseRevoked, YarnpsError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.settings import EngineSettings
from yarnps.worker.ahead import Pull, Pulls
from yarnps.worker.audit import count_rows
from yarnps.worker.batch import Batch
from yarnps.worker.client import Client
from yarnps.worker.clock import ClockMember
from yarnps.worker.evaluation import Evaluated
from yarnps.worker.feed import Feed, Parsed
from yarnps.worker.leases import HOLD, Held, Leases
from yarnps.worker.parts import HeldPart, Parts, announce, end_part
from yarnps.worker.preparing import Prepare, SplitBatches, result_of
from yarnps.worker.progress import Progress
from yarnps.worker.reading import Read
from yarnps.worker.tables import CurrentBatch, SparseTable

log = logging.getLogger(__name__)

Evaluate = Callable[[Batch], Mapping[str, ArrayLike]]
Say = Callable[[pb.FromRole], None]

# While nothing can be done: how long one wait is, and how often the log says what it is for.
_WAIT_S = 0.5
_LOG_WAITING_S = 60.0


class DataLoop:
    """The state behind `data()`. The link's thread calls the methods named `on_…`.

    Parameters
    ----------
    read
        The batches of a lease, from its first uncommitted one.
    say
        Sends a message to the ApplicationMaster.
    keep
        Keeps what the program has made of a split in the pass before the first epoch.
    audit
        The table that counts rows, if the job wants that.
    """

    def __init__(
        self,
        client: Client,
        settings: EngineSettings,
        current: CurrentBatch,
        *,
        read: Read,
        say: Say,
        keep: Callable[[Held, bytes], None],
        audit: SparseTable | None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._current = current
        self._say = say
        self._keep = keep
        self._audit = audit
        self._lock = threading.Lock()
        self._leases = Leases()
        self._parts = Parts(read, client.wake)
        self._feed = Feed(read, client.wake)
        self._progress = Progress(say)
        self._evaluate: Evaluate | None = None
        self._prepare: Prepare | None = None
        self._pulls = Pulls(current)
        self._returned: Parsed | None = None  # read, and it is not its turn yet
        self._early: Batch | None = None  # made of that one, with its pulls under way
        self.input = ""  # fingerprint of the training input, once there has been a lease
        self._evaluated = Evaluated()
        self._clock = ClockMember(client, settings.staleness)
        self._first_push = True
        self.rows_done = 0
        self.late = 0  # BSP: batches that came when their step had been closed
        self.ended = False

    # ------------------------------------------------------------------ from the link's thread

    def on_grant(self, grant: pb.Grant) -> None:
        with self._lock:
            for lease in self._leases.granted(grant):
                log.info("leased: %s", lease)
                self.input = lease.input
                self._feed.add(lease)
            for part in self._parts.granted(grant):
                self.input = part.whole.input
                self._leases.came(1)
        self._client.wake()

    def on_revoke(self, revoke: pb.Revoke) -> None:
        with self._lock:
            if revoke.HasField("part"):
                self._parts.revoked(revoke)
            else:
                self._leases.revoked(revoke)
        self._client.wake()

    def on_end_of_data(self) -> None:
        with self._lock:
            self._leases.ended = True
        self._client.wake()

    def on_am_back(self) -> None:
        """Say everything again to a restarted ApplicationMaster."""
        with self._lock:
            held = [lease.progress() for lease in self._leases.held if not lease.revoked]
            held += self._parts.progress()
            self._leases.forget_asked()
        self._say(pb.FromRole(hello=pb.RoleHello(resync=True, held=held)))
        self._client.wake()

    def each_second(self) -> None:
        """Tell what was committed and is untold: the next commit may have to wait for others."""
        self._progress.tell_rest()

    # ------------------------------------------------------------------ the program's thread

    def batches(
        self, evaluate: Evaluate | None, prepare: Prepare | None, pull: Pull | None
    ) -> Iterator[Batch]:
        """All batches that this worker gets, until the input has ended."""
        self._evaluate, self._prepare, self._pulls.function = evaluate, prepare, pull
        try:
            while (parsed := self._next()) is not None:
                if parsed.lease.phase == "prepare":
                    self._prepare_split(parsed)
                elif parsed.raw is None:
                    self._split_ended(parsed)
                elif len(parsed.raw.rows) == 0:
                    self._progress.note(parsed.lease, parsed.raw)
                    parsed.lease.batches = parsed.raw.index + 1
                elif parsed.lease.phase == "train":
                    yield from self._train(parsed)
                else:
                    self._test(parsed)
            self.ended = True
        finally:
            self._feed.stop()
            self._parts.stop()

    def _next(self) -> Parsed | None:
        """The next batch of a live lease; None at the end of the input."""
        begun = logged = time.monotonic()
        while True:
            self._ask()
            parsed, self._returned = self._returned or self._take(), None
            if parsed is not None and not parsed.lease.revoked:
                return parsed
            if parsed is not None:
                with self._lock:
                    self._leases.drop(parsed.lease)
                continue
            with self._lock:
                held = any(not lease.revoked for lease in self._leases.held)
                idle = not held and not self._parts.live
                ended = self._leases.ended
            if idle:
                self._clock.leave()
                if ended:
                    return None
            if time.monotonic() - logged >= _LOG_WAITING_S:
                logged = time.monotonic()
                waits = "a lease" if idle else "the input"
                log.info("waiting for %s for %.0f s", waits, logged - begun)
            with self._client.idle:
                self._client.pump(_WAIT_S)

    def _ask(self) -> None:
        with self._lock:
            for lease in [lease for lease in self._leases.held if lease.revoked]:
                self._leases.drop(lease)
            hold = max(HOLD, self._settings.parts or 0)
            parts = len(self._parts.live)
            want = None if self._leases.ended else self._leases.want(parts, hold)
        if want is not None:
            self._say(pb.FromRole(want=want))

    def _take(self) -> Parsed | None:
        """What is next in turn, if it is there."""
        while True:
            with self._lock:
                self._parts.drop_void()
                part = self._parts.turn()
            if part is None:
                return self._feed.take()
            if part.splits:
                return part.take()
            self._end_part(part)

    # ------------------------------------------------------------------ training

    def _train(self, parsed: Parsed) -> Iterator[Batch]:
        lease, raw = parsed.lease, parsed.raw
        self._progress.note(lease, raw)
        if lease.part is None:
            self._clock.join()
        batch = self._batch_of(parsed)
        self._pull_ahead(batch)
        yield batch
        if not batch.entered:
            raise YarnpsError(
                "a batch was taken from data() and not entered",
                "put the work on it in a block `with batch:`; its end commits the batch",
            )
        if lease.part is not None and batch.again_in is not None:
            self.late += batch.again_in > lease.part.step
            lease.part.put_back(parsed, batch.again_in)
        elif not batch.committed and not lease.revoked:
            # Its block ended with an exception that the program has swallowed.
            raise YarnpsError(
                f"batch {batch.index} of split {batch.split} was not committed",
                "do not swallow an exception inside `for batch in data()`",
            )

    def enter(self, batch: Batch) -> None:
        """The program begins with a batch."""
        if self._current.now is not None:
            raise YarnpsError(
                "a batch was entered inside another", "finish one batch before the next"
            )
        self._current.now = batch
        if self._audit is not None:
            count_rows(self._client, batch, self._audit)

    def leave(self, batch: Batch) -> None:
        """The program is through with a batch, one way or another."""
        if self._current.now is batch:
            self._current.now = None

    # ------------------------------------------------------------------ pulling ahead

    def _batch_of(self, parsed: Parsed) -> Batch:
        """The batch whose turn it is; its pulls may have been made already."""
        early, self._early = self._early, None
        if early is not None and early.is_of(parsed.lease, parsed.raw):
            return early
        return Batch(self, parsed.lease, parsed.raw, self._settings.seed)

    def pulls_of(self, batch: Batch) -> Any:
        """What the program's `pull` returns for a batch."""
        return self._pulls.of(batch)

    def _pull_ahead(self, batch: Batch) -> None:
        """Make the pulls of the batch after this one, if it has been read already.

        In the program's own thread, just before it begins with `batch`: what the servers answer
        comes in while it computes.
        """
        if not self._settings.pull_ahead or self._pulls.function is None or batch.part is not None:
            return
        if not batch.has_pulled:  # its own come first
            self._pulls.make(batch, early=False)
        if self._returned is None:
            self._returned = self._take()
        parsed = self._returned
        if parsed is None or parsed.raw is None or not len(parsed.raw.rows):
            return
        lease = parsed.lease
        if lease.revoked or (lease.phase, lease.epoch) != (batch.phase, batch.epoch):
            return
        self._early = Batch(self, lease, parsed.raw, self._settings.seed)
        self._pulls.make(self._early, early=True)

    def commit(self, batch: Batch) -> None:
        """Wait for the batch's acknowledgements; it counts from then on.

        Raises
        ------
        LeaseRevoked
            It does not count: somebody else does it again.
        """
        for call in batch.pushes:
            self._client.wait(call)
        lease = batch.lease
        if lease.part is not None:
            announce(self._client, batch)
        self._keep_pace(batch)
        if lease.revoked:
            raise LeaseRevoked(f"the lease of split {lease.split.id} is void")
        batch.committed = True
        with self._lock:
            lease.batches = batch.index + 1
            lease.rows += batch.rows
            if lease.part is not None:
                lease.part.batches += 1
                lease.part.step += 1
        self.rows_done += batch.rows
        if self._first_push and batch.pushes:
            self._first_push = False
            self._say(pb.FromRole(first_push=pb.FirstPush()))
        if lease.part is not None:
            self._client.clock = lease.part.step
        else:
            self._clock.tick()
        self._progress.tell(lease)

    def _keep_pace(self, batch: Batch) -> None:
        """Wait until the batch has taken the time that it should; that is no work of its own."""
        with self._client.idle:
            while self._settings.pace > (seconds := time.monotonic() - batch.begun):
                self._client.pump(min(0.1, self._settings.pace - seconds))

    # ------------------------------------------------------------------ parts of BSP steps

    def _end_part(self, part: HeldPart) -> None:
        """A part has no more batches in this epoch: nobody has to wait for it."""
        try:
            end_part(self._client, part)
        except LeaseRevoked:
            part.revoke()
            return
        self._say(pb.FromRole(progress=part.end()))
        with self._lock:
            self._parts.drop(part)

    # ------------------------------------------------------------------ the test phase

    def _test(self, parsed: Parsed) -> None:
        if self._evaluate is None:
            raise YarnpsError(
                "the job file has a test input, and the program no evaluation",
                "call data(evaluate=fn), or leave out data.test",
            )
        lease = parsed.lease
        self._progress.note(lease, parsed.raw)
        self._clock.leave()
        batch = self._batch_of(parsed)
        self._pull_ahead(batch)
        self._current.now = batch
        try:
            sums = self._evaluate(batch)
        except LeaseRevoked:
            return
        finally:
            self._current.now = None
        self._evaluated.add(lease, sums)
        lease.batches = batch.index + 1
        lease.rows += batch.rows
        self.rows_done += batch.rows

    # ------------------------------------------------------------------ before the first epoch

    def _prepare_split(self, first: Parsed) -> None:
        """Hand a whole split to the program; it is done when what came of it is kept."""

        def batch_of(parsed: Parsed) -> Batch:
            lease, batch = parsed.lease, Batch(self, parsed.lease, parsed.raw, self._settings.seed)
            self._progress.note(lease, parsed.raw)
            lease.batches = batch.index + 1
            lease.rows += batch.rows
            self.rows_done += batch.rows
            self._progress.tell(lease)
            return batch

        self._clock.leave()
        split = SplitBatches(first, self._next, batch_of)
        result = result_of(split, self._prepare)
        self._returned = split.beyond
        if result is not None:
            self._keep(split.lease, result)
        if split.end is not None:
            self._split_ended(split.end)

    # ------------------------------------------------------------------ the end of a split

    def _split_ended(self, parsed: Parsed) -> None:
        lease = parsed.lease
        if parsed.error is None:
            log.info("done: %s, %d rows", lease, lease.rows)
            lease.done = True
            lease.bytes = lease.bytes or lease.split.length
            self._progress.say(lease, self._evaluated.of(lease))
        else:
            log.warning("split %d cannot be read: %s", lease.split.id, parsed.error)
            self._progress.failed(lease, parsed.error)
        with self._lock:
            if lease.part is None:
                self._leases.drop(lease)
            elif parsed.error is None:
                lease.part.split_ended(lease)
            else:  # the whole part is leased anew, to whom the split may be readable
                lease.part.revoke()
