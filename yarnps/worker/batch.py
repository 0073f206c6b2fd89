"""A batch of the input: a context manager that commits."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import EarlyBatch, LateBatch, LeaseRevoked, YarnpsError
from yarnps.protocol import wire
from yarnps.worker.calls import Call
from yarnps.worker.leases import Held


class Loop(Protocol):
    """Whoever gives batches out is told what the program does with them."""

    def enter(self, batch: Batch) -> None: ...

    def commit(self, batch: Batch) -> None: ...

    def leave(self, batch: Batch) -> None: ...

    def pulls_of(self, batch: Batch) -> Any: ...


class Batch:
    """Some rows of a split.

    What is pushed inside ``with batch:`` is applied exactly once on every server, whoever dies:
    the end of the block waits for the servers' acknowledgements, and a batch that did not get
    there is done again by whoever gets its lease.

    Attributes
    ----------
    labels : ndarray of float32, shape (rows,)
    indptr : ndarray of int64, shape (rows + 1,)
        Row r has the entries ``indptr[r]:indptr[r + 1]`` of `keys` and `values`.
    keys : ndarray of int64
    values : ndarray of float32
    items : list
        Text lines, or what the job's own `parse` returned, where that is not labelled rows.
    epoch, split, index : int
        Which batch this is: number `index` of its split.
    phase : str
        "train", "test" or (before the first epoch) "prepare".
    part, step : int or None
        BSP: which part of which step of the epoch this batch is.
    rows : int
        How many rows or items.
    """

    def __init__(self, loop: Loop, lease: Held, raw: Any, seed: int) -> None:
        self._loop = loop
        self._raw = raw
        self._seed = seed
        self._push_number = 0
        self._entered = False
        self._pulled: Any = None
        self.has_pulled = False
        self.begun = 0.0
        self.lease = lease
        self.pushes: list[Call] = []
        self.committed = False
        self.again_in: int | None = None  # BSP: it has to be done again, for this step
        self.part: int | None = None if lease.part is None else lease.part.number
        self.step: int | None = None if lease.part is None else lease.part.step
        self.epoch: int = lease.epoch
        self.split: int = lease.split.id
        self.phase: str = lease.phase
        self.index: int = raw.index
        self.rows: int = len(raw.rows)

    def __len__(self) -> int:
        return self.rows

    @property
    def labels(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._column("labels")
        return found

    @property
    def indptr(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._column("indptr")
        return found

    @property
    def keys(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._column("keys")
        return found

    @property
    def values(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._column("values")
        return found

    @property
    def items(self) -> list[Any]:
        found: list[Any] = self._column("items")
        return found

    def _column(self, name: str) -> Any:
        try:
            return getattr(self._raw.rows, name)
        except AttributeError:
            raise AttributeError(
                f"batches of this input have no {name}: they hold {type(self._raw.rows).__name__}"
            ) from None

    @property
    def progress(self) -> float:
        """How far the whole training is at the batch's end, from 0 to 1: all epochs, by bytes.

        A function of the batch alone, as if all splits were gone through one after the other in
        the epoch's order: so what is made to depend on it (a learning rate) is the same whoever
        does the batch, and however often.
        """
        lease = self.lease
        share: float = min(1.0, self._raw.bytes_read / max(1, lease.split.length))
        return lease.begins + (lease.ends - lease.begins) * share

    @property
    def ahead(self) -> Any:
        """What the `ahead` of `data` has made of the rows; raises what that has raised."""
        if self._raw.ahead_error is not None:
            raise self._raw.ahead_error
        return self._raw.ahead

    @property
    def pulled(self) -> Any:
        """What the `pull` of `data` has returned for this batch: futures, as a rule."""
        if not self.has_pulled:
            self.pull_now()
        return self._pulled

    def pull_now(self) -> None:
        """Make the batch's pulls."""
        self._pulled = self._loop.pulls_of(self)
        self.has_pulled = True

    def is_of(self, lease: Held, raw: Any) -> bool:
        """Whether it was made of these rows, read under this lease."""
        return self.lease is lease and self._raw is raw

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers that follow from (seed, epoch, split, batch); from the start each time."""
        return np.random.default_rng((self._seed, self.epoch, self.split, self.index))

    def stamp(self, header: wire.Header, *, audit: bool = False) -> wire.Header:
        """Give a push the batch's identity."""
        number = wire.AUDIT_PUSH
        if not audit:
            number = self._push_number
            self._push_number += 1
            if number >= wire.AUDIT_PUSH:
                raise YarnpsError(
                    f"{number} pushes in one batch", "push more keys at a time, or smaller batches"
                )
        return self.in_step(
            header._replace(
                epoch=self.epoch,
                split=self.split,
                token=self.lease.token,
                batch=self.index,
                push=number,
                weight=self.rows,
            )
        )

    @staticmethod
    def early(header: wire.Header) -> wire.Header:
        """A pull before the batch's turn: gated as in its turn, without being there yet."""
        if header.clock == wire.NO_CLOCK:
            return header
        return header._replace(flags=header.flags | wire.Flag.EARLY, clock=header.clock + 1)

    def in_step(self, header: wire.Header) -> wire.Header:
        """BSP: name the part and the step, in the place of the split and the clock."""
        part = self.lease.part
        if part is None or self.step is None:
            return header
        return header._replace(
            flags=header.flags | wire.Flag.STEP,
            epoch=self.epoch,
            split=part.number,
            token=self.lease.token,
            batch=part.batches,
            clock=self.step,
        )

    @property
    def entered(self) -> bool:
        return self._entered

    def __enter__(self) -> Batch:
        if self.phase != "train":
            raise YarnpsError("with batch: outside training", "use the batch without `with` there")
        self._entered = True
        self.begun = time.monotonic()
        self._loop.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if error is None:
                self._loop.commit(self)
        except (LateBatch, EarlyBatch) as void:
            self.again_in = self._step_after(void)
            return True
        except LeaseRevoked:
            self.lease.revoked = True
            return False
        finally:
            self._loop.leave(self)
        if isinstance(error, LateBatch | EarlyBatch):
            self.again_in = self._step_after(error)
            return True
        return isinstance(error, LeaseRevoked) and self.lease.revoked

    def _step_after(self, void: LateBatch | EarlyBatch) -> int:
        """For which step a batch counts that is to be done again: a later one if it came late."""
        assert self.step is not None
        return max(self.step + 1, void.step) if isinstance(void, LateBatch) else self.step
