"""Small calls that travel together: they share a message, each keeps its own future.

A call that finds nothing under way is sent at once. While others are under way, calls of the same
kind are gathered until somebody waits, until another kind of call is made, or until there are
enough of them for a message: nobody is delayed, since whoever made them had answers to wait for.
The order of calls at a server stays that in which they were made.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import ServerRefused
from yarnps.protocol.shards import Int64s
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Header, Op
from yarnps.worker.calls import Call

if TYPE_CHECKING:
    from yarnps.worker.client import Client

# A call of more keys, or of wider rows, has its own message.
SMALL_KEYS = 8
SMALL_ROW_BYTES = 512

# A message is sent when it has so many keys: the server works while more are gathered.
GATHERED_KEYS = 64

# After a pause of this length the first call is sent at once, whatever is under way.
PAUSE_S = 200e-6


class Kind(NamedTuple):
    """What calls must have in common to share a message: all that the servers go by."""

    header: Header
    lease: Any = None


def may_share(spec: TableSpec) -> bool:
    """Whether one message of several pushes, applied row after row, means the same as several.

    Not where a push as a whole counts: for optimizers that count their steps, and for policies
    that look at a push at a time.
    """
    return (
        spec.kind == "sparse"
        and not spec.optimizer.counts_steps
        and spec.clip is None
        and spec.admit == 1
        and spec.nonfinite == "fail"
        and spec.when_full == "fail"
        and spec.wire.push == "exact"
    )


class Gathered:
    """Calls of one kind that wait to be sent.

    Attributes
    ----------
    keys, values, out
        Of all calls, one after another; the first `count` rows are in use.
    """

    def __init__(self, kind: Kind, spec: TableSpec, what: str) -> None:
        self.kind = kind
        self.spec = spec
        self.header = kind.header
        self.what = what
        self.count = 0
        self.keys = np.empty(GATHERED_KEYS, np.int64)
        rows = np.empty((GATHERED_KEYS, spec.dim), spec.dtype)
        pulls = kind.header.op == Op.PULL
        self.values = None if pulls else rows
        self.out = rows if pulls else None
        self.calls: list[Call] = []
        self._starts: list[int] = []

    def has_room(self, keys: int) -> bool:
        return self.count + keys <= GATHERED_KEYS

    def add(self, keys: Int64s, values: NDArray[Any] | None) -> Call:
        """One more call; a pull's `out` is a part of what all of them pull."""
        start, end = self.count, self.count + len(keys)
        self.keys[start:end] = keys
        out = None
        if self.values is not None:
            self.values[start:end] = values
        elif self.out is not None:
            out = self.out[start:end]
        call = Call(self.header, self.what, self.spec, out, self.kind.lease, left=1)
        self.calls.append(call)
        self._starts.append(start)
        self.count = end
        return call

    def carrier(self) -> Call:
        """The call that is sent in place of all."""
        out = None if self.out is None else self.out[: self.count]
        return Call(self.header, self.what, self.spec, out, self.kind.lease)

    def rows_of(self, number: int) -> tuple[Int64s, NDArray[Any] | None]:
        """Keys and values of one of the calls."""
        ends = [*self._starts[1:], self.count]
        part = slice(self._starts[number], ends[number])
        return self.keys[part], None if self.values is None else self.values[part]


class Sharing:
    """Gathers the small calls of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._gathered: Gathered | None = None
        self._shared_at = 0.0

    def share(
        self, kind: Kind, spec: TableSpec, what: str, keys: Int64s, values: NDArray[Any] | None
    ) -> Call:
        """A call of few keys, which may share a message with others of its kind.

        Parameters
        ----------
        keys
            At most `SMALL_KEYS`; they are copied, as are `values`.
        """
        client = self._client
        with client.lock:
            client.check()
            gathered, now = self._gathered, time.monotonic()
            if gathered is None and (now - self._shared_at > PAUSE_S or not client.outstanding):
                call = self._alone(kind, spec, what, keys, values)
                self._shared_at = time.monotonic()
                return call
            if gathered is None or gathered.kind != kind or not gathered.has_room(len(keys)):
                self.flush()
                gathered = self._gathered = Gathered(kind, spec, what)
            call = gathered.add(keys, values)
            if now - self._shared_at > PAUSE_S or not gathered.has_room(SMALL_KEYS):
                self.flush()
                now = time.monotonic()
            self._shared_at = now
        return call

    def _alone(
        self, kind: Kind, spec: TableSpec, what: str, keys: Int64s, values: NDArray[Any] | None
    ) -> Call:
        """A call that has nobody to share a message with."""
        out = np.empty((len(keys), spec.dim), spec.dtype) if values is None else None
        call = Call(kind.header, what, spec, out, kind.lease)
        # It may have to be sent again: the caller's arrays are the caller's.
        kept = None if values is None else values.copy()
        return self._client.submit(call, self._client.router.small(keys.copy(), kept, spec))

    def flush(self) -> None:
        """Send the calls that have been gathered."""
        gathered, self._gathered = self._gathered, None
        if gathered is None:
            return
        carrier = gathered.carrier()
        carrier.on_end = lambda call: self._ended(gathered, call)
        keys = gathered.keys[: gathered.count]
        values = None if gathered.values is None else gathered.values[: gathered.count]
        self._client.submit(carrier, self._client.router.small(keys, values, gathered.spec))

    def _ended(self, gathered: Gathered, carrier: Call) -> None:
        """Every call that shared a message has its answer, or is made on its own.

        A refused message has changed nothing; only one of its calls may be to blame.
        """
        refused = isinstance(carrier.error, ServerRefused) and len(gathered.calls) > 1
        for number, call in enumerate(gathered.calls):
            if carrier.error is None:
                call.left = 0
            elif not refused:
                call.fail(carrier.error)
            else:
                keys, values = gathered.rows_of(number)
                parts = self._client.router.small(keys, values, gathered.spec)
                self._client.submit(call, parts)
