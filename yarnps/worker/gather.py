"""Small calls that travel together: they share a message, each keeps its own future.

Calls of the same kind are gathered until somebody waits for them or has nothing else to wait for,
until another kind of call is made, or until there are as many of them as are under way, half of
all: so the server has work while the next are gathered, and nobody is delayed, since whoever made
them had answers to wait for. How many are under way at a time is learnt from the calls before: one
that was alone each time, or comes after a pause, is sent at once. The order of calls at a server
stays that in which they were made.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import ServerRefused, YarnpsError
from yarnps.protocol.shards import Int64s
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Header
from yarnps.worker.calls import Call
from yarnps.worker.futures import Future, Waiter
from yarnps.worker.leases import Held
from yarnps.worker.routing import Part, Router

# A call of more keys, or of wider rows, has its own message.
SMALL_KEYS = 8
SMALL_ROW_BYTES = 512

# A message has at most so many keys. Fewer calls than `FEW_CALLS` are not worth one of their own
# while others are under way.
GATHERED_KEYS = 256
FEW_CALLS = 16

# While somebody waits, calls are gathered no longer than this (epoll counts in milliseconds).
GROW_S = 1e-3

# When nothing was called or answered for so long, a call is sent at once, whatever is under way.
PAUSE_S = 200e-6


class Kind(NamedTuple):
    """What calls must have in common to share a message: all that the servers go by.

    Attributes
    ----------
    what
        For messages: "push to table w".
    """

    header: Header
    spec: TableSpec
    what: str
    lease: Held | None = None


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


class Sender(Waiter, Protocol):
    """What sharing needs of its client."""

    router: Router
    broken: YarnpsError | None  # what has ended the work of the client

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def submit(self, call: Call, parts: list[Part]) -> Call: ...


class Shared(Call):
    """One call in the place of several of one kind, which are numbered by their first keys.

    Attributes
    ----------
    arrived
        All of them are done, and none has failed.
    calls, keys
        How many of either there are.
    """

    __slots__ = ("_keys", "_sharing", "_values", "apart", "arrived", "calls", "keys", "kind")

    def __init__(self, kind: Kind, sharing: Sharing) -> None:
        super().__init__(kind.header, kind.what, kind.spec, None, kind.lease, left=1)
        self.kind = kind
        self.arrived = False
        self.calls = self.keys = 0
        self.apart: dict[int, Call] = {}
        self._sharing = sharing
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def add(self, keys: Int64s, values: NDArray[Any] | None) -> int:
        """One more call, with copies of its keys and values; returns its number."""
        first = self.keys
        self.keys = first + len(keys)
        self.calls += 1
        self._keys.append(keys.tobytes())
        if values is not None:
            self._values.append(values.tobytes())
        return first

    def rows(self) -> tuple[Int64s, NDArray[Any] | None]:
        """Keys and values of all calls, one after another; where the answer of a pull belongs is
        known from then on."""
        spec = self.kind.spec
        keys = np.frombuffer(b"".join(self._keys), np.int64)
        if self._values:
            return keys, np.frombuffer(b"".join(self._values), spec.dtype).reshape(-1, spec.dim)
        self.out = np.empty((self.keys, spec.dim), spec.dtype)
        return keys, None

    def firsts(self) -> list[int]:
        """The numbers of all calls, and the end."""
        found = [0]
        for keys in self._keys:
            found.append(found[-1] + len(keys) // 8)
        return found

    def _ended(self) -> None:
        self.arrived = self.error is None
        self._sharing.ended(self)


class SharedFuture(Future):
    """One of several calls that share a message."""

    __slots__ = ("_end", "_first", "_shared")

    def __init__(self, client: Waiter, shared: Shared, first: int, end: int) -> None:
        self._client = client
        self._shared = shared
        self._first = first
        self._end = end

    def done(self) -> bool:
        shared = self._shared
        return shared.arrived or shared.apart.get(self._first, shared).done

    def wait(self, timeout: float | None = None) -> Any:
        shared = self._shared
        if not shared.arrived:
            self._wait(timeout)
        out = shared.out
        if out is None:
            return None
        rows = out[self._first : self._end]
        return rows[:, 0] if out.shape[1] == 1 else rows

    def _wait(self, timeout: float | None) -> None:
        """A refused message has changed nothing, and its calls are made anew, each on its own."""
        begun = time.monotonic()
        try:
            self._client.wait(self._shared, timeout)
        except ServerRefused:
            own = self._shared.apart.get(self._first)
            if own is None:
                raise
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
            self._client.wait(own, left)


class Sharing:
    """Gathers the small calls of a client."""

    def __init__(self, client: Sender) -> None:
        self._client = client
        self._gathered: Shared | None = None
        self._under_way = 0  # calls that have been sent and have no answer
        self._deepest = 0  # most of them since there was none
        self._depth = 0  # most of them the time before
        self._enough = 1  # so many calls are worth a message
        self._latest = 0.0  # when the latest call was made, or answered

    def share(self, kind: Kind, keys: Int64s, values: NDArray[Any] | None) -> SharedFuture:
        """A call of few keys, which may share a message with others of its kind.

        Parameters
        ----------
        keys
            At most `SMALL_KEYS`; they are copied, as are `values`.
        """
        client = self._client
        with client.lock:
            if client.broken is not None:
                raise client.broken
            now = time.monotonic()
            shared = self._gathered
            if (
                shared is None
                or (shared.kind is not kind and shared.kind != kind)
                or shared.keys + len(keys) > GATHERED_KEYS
            ):
                self.flush()
                shared = self._gathered = Shared(kind, self)
            first = shared.add(keys, values)
            if shared.calls >= self._enough or now - self._latest > PAUSE_S:
                self.flush()
                now = time.monotonic()
            self._latest = now
        return SharedFuture(client, shared, first, shared.keys)

    def _count(self, calls: int) -> None:
        """So many more are under way; how many are worth a message then."""
        self._under_way += calls
        self._deepest = max(self._deepest, self._under_way)
        self._enough = max(FEW_CALLS, self._under_way, self._depth // 2)
        if not self._under_way:
            self._depth, self._deepest = self._deepest, 0
            self._enough = max(1, self._depth // 2)

    def may_grow(self, wanted: Call | None) -> bool:
        """Whether what has been gathered can stay for a moment while somebody waits for `wanted`:
        it is elsewhere, and the server has more to do meanwhile than what would come now."""
        shared = self._gathered
        return shared is not None and shared is not wanted and 2 * shared.calls < self._under_way

    def flush(self) -> None:
        """Send the calls that have been gathered."""
        shared, self._gathered = self._gathered, None
        if shared is None:
            return
        self._count(shared.calls)
        keys, values = shared.rows()
        self._client.submit(shared, self._client.router.small(keys, values, shared.kind.spec))

    def ended(self, shared: Shared) -> None:
        """Every call that shared a message has its answer, or is made on its own.

        A refused message has changed nothing; only one of its calls may be to blame.
        """
        self._count(-shared.calls)
        self._latest = time.monotonic()
        if not isinstance(shared.error, ServerRefused) or shared.calls == 1:
            return
        shared.heeded = True
        (keys, values), out, kind = shared.rows(), shared.out, shared.kind
        firsts = shared.firsts()
        for first, end in pairwise(firsts):
            place = None if out is None else out[first:end]
            call = Call(kind.header, kind.what, kind.spec, place, kind.lease)
            shared.apart[first] = call
            rows = None if values is None else values[first:end]
            self._client.submit(call, self._client.router.small(keys[first:end], rows, kind.spec))
