"""A call of a user's program and the requests that it was cut into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import YarnpsError
from yarnps.protocol import codecs
from yarnps.protocol.shards import put_rows
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import DTYPE_OF, Header, Message, Op
from yarnps.worker.leases import Held
from yarnps.worker.routing import Part


@dataclass(eq=False, slots=True)
class Call:
    """One operation, done when all its requests are answered.

    Attributes
    ----------
    header
        What all its requests have in common.
    what
        For messages: "push to table w".
    out
        Where a pull's answer goes: sparse (keys, dim), dense (elements,).
    lease
        The lease of the batch that the call belongs to.
    heeded
        How it ends is known to somebody, or will be.
    """

    header: Header
    what: str
    spec: TableSpec | None = None
    out: NDArray[Any] | None = None
    lease: Held | None = None
    on_reply: Callable[[Message], None] | None = None
    left: int = 0
    error: YarnpsError | None = None
    heeded: bool = False

    @property
    def done(self) -> bool:
        return self.left == 0 or self.error is not None

    def fail(self, error: YarnpsError) -> None:
        if not self.done:
            self.error = error
            self._ended()

    def answered(self, part: Part, message: Message) -> None:
        """One of the requests has its answer."""
        if self.done:
            return
        if self.out is not None and self.header.op in _WITH_VALUES:
            self._place(part, message)
        if self.on_reply is not None:
            self.on_reply(message)
        self.left -= 1
        if self.left == 0:
            self._ended()

    def _ended(self) -> None:
        """It is done or has failed; called once."""

    def place_of(self, part: Part, header: Header) -> memoryview | None:
        """Where a reply's values can be received without a copy: they are one stretch of `out`."""
        out, places = self.out, part.places
        if self.done or out is None or places is None or header.op != Op.OK:
            return None
        if places.ndim != 2 or len(places) != 1:
            return None
        first, end = places[0].tolist()
        stretch = out[first:end]
        if header.dtype != DTYPE_OF[out.dtype.name] or header.value_bytes != stretch.nbytes:
            return None
        return memoryview(stretch.data).cast("B")

    def _place(self, part: Part, message: Message) -> None:
        out, places = self.out, part.places
        assert out is not None and places is not None
        if message.values is None:
            return  # received where it belongs
        header = message.header
        values = np.frombuffer(message.values, codecs.raw(header.dtype) or out.dtype)
        values = codecs.decode(values, header.dtype, header.code, out.dtype)
        if not values.flags.aligned:
            values = values.copy()
        values.flags.writeable = False
        if out.ndim == 2:
            put_rows(values.reshape(-1, out.shape[1]), places, out)
            return
        if places.ndim == 1:  # one number for each key
            out[places] = values
            return
        at = 0
        for first, end in places.tolist():
            out[first:end] = values[at : at + end - first]
            at += end - first


_WITH_VALUES = (Op.PULL, Op.PUSH_PULL, Op.CONTAINS)


@dataclass(eq=False, slots=True)
class Request:
    """A message to one server that has no answer yet."""

    number: int
    call: Call
    part: Part
    since: float  # first sent, or first wanted to be sent
    nbytes: int = 0
    reroute: bool = False  # the shards are elsewhere: waits for newer routes
    keys_name: bytes = b""  # of its list of keys, where that was named or remembered
