"""How a server process answers messages. No sockets and no clock: messages and the time go in."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from yarnps._errors import InputError
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import keylists, wire
from yarnps.protocol.codecs import encode
from yarnps.protocol.keylists import KeyLists
from yarnps.protocol.shards import Sections
from yarnps.protocol.stream import Lent, owned
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Code, Flag, Header, Message, Op, WireError
from yarnps.server import functions, step_messages
from yarnps.server.calls import Answer, OwnFunctions, Waiting
from yarnps.server.clocks import Clocks
from yarnps.server.steps import READS, Steps, Verdict
from yarnps.server.store import Results, Store

log = logging.getLogger(__name__)

# Numbers: an enum's own operations take microseconds.
_LEASED, _KNOWN_KEYS, _EARLY = int(Flag.LEASED), int(Flag.KNOWN_KEYS), int(Flag.EARLY)
_STEP = int(Flag.STEP)
_LISTED = int(Flag.KEEP_KEYS | Flag.KNOWN_KEYS)

# A dense table's weights are sent from where they are if they are so many; fewer are copied, and
# share a call of the system with other answers.
_LENT_BYTES = 256 << 10

Frames = list[Any]

_ANSWERS = {
    Verdict.TAKE: Op.OK,
    Verdict.REPEATED: Op.OK,
    Verdict.LATE: Op.LATE,
    Verdict.STALE: Op.STALE_LEASE,
    Verdict.ELSEWHERE: Op.WRONG_ROUTE,
}


class Reply(NamedTuple):
    """A message for a peer, as buffers that are sent one after another."""

    peer: bytes
    frames: Frames


class _Parked(NamedTuple):
    """A pull that waits for the gate."""

    peer: bytes
    message: Message
    since: float


@dataclass
class Counts:
    """What the server has done so far."""

    pushes: int = 0
    pulls: int = 0
    refused: int = 0


@dataclass
class Service:
    """Requests in, replies out.

    Attributes
    ----------
    job, token
        Of HELLO; messages of other jobs are refused.
    generation, route
        Current ones; the process sets them when the ApplicationMaster says so.
    request_limit
        Seconds that a gated pull may wait.
    """

    store: Store
    clocks: Clocks
    steps: Steps | None = field(default=None, kw_only=True)
    job: int
    token: str
    generation: int = 0
    route: int = 0
    request_limit: float = 600.0
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._known: dict[bytes, int] = {}  # peers that said HELLO, and their incarnations
        self._parked: dict[tuple[bytes, int], _Parked] = {}
        self._key_lists: dict[bytes, KeyLists] = {}
        self._gate_moved = False
        self.own_functions = OwnFunctions(self.store)
        self._handlers: dict[int, Callable[[Message], Frames]] = {
            Op.OPEN: self._open,
            Op.PULL: self._pull,
            Op.PUSH: self._push,
            Op.PUSH_PULL: self._push_pull,
            Op.ASSIGN: self._assign,
            Op.CONTAINS: self._contains,
            Op.SIZE: self._size,
            Op.CLEAR: self._clear,
            Op.EXPORT_ROWS: self._export_rows,
            Op.CALL: self._built_in,
            Op.JOIN: self._join,
            Op.LEAVE: self._leave,
            Op.ANNOUNCE: self._reply_only,
            Op.END_PART: self._reply_only,
        }

    # ------------------------------------------------------------------ in

    def handle(self, peer: bytes, frames: Frames, now: float) -> list[Reply]:
        """Answer one message that is still in the buffers it came in."""
        try:
            message = wire.decode(frames)
        except WireError as error:
            return [self.refusal(peer, error)]
        return self.answer(peer, message, now)

    def answer(self, peer: bytes, message: Message, now: float) -> list[Reply]:
        """Answer one message; a reply may be for another peer whose pull has waited.

        Parameters
        ----------
        peer
            Names the connection. Messages of one are not read before its HELLO.
        now
            Seconds of a clock that never goes back.
        """
        answer = self._answer(peer, message, now)
        if not self._gate_moved:
            return [] if answer is None else [Reply(peer, answer)]
        replies = [] if answer is None else [Reply(peer, owned(answer))]
        return replies + self.open_gate()

    def refusal(self, peer: bytes, error: WireError) -> Reply:
        """The reply to something that is no message."""
        header = Header(op=0, request=error.request)
        return Reply(peer, self._refuse(header, error.code, str(error)))

    def knows(self, peer: bytes) -> bool:
        """Whether its HELLO was accepted."""
        return peer in self._known

    def forget(self, peer: bytes) -> None:
        """The connection is gone, and with it whoever waited at its other end."""
        self._known.pop(peer, None)
        self._key_lists.pop(peer, None)
        for key in [key for key in self._parked if key[0] == peer]:
            del self._parked[key]

    def _answer(self, peer: bytes, message: Message, now: float) -> Frames | None:
        header = message.header
        try:
            if header.job != self.job:
                raise WireError(Code.JOB, f"this server belongs to job {self.job:016x}")
            if header.op == Op.HELLO:
                return self._hello(peer, message)
            if peer not in self._known:
                raise WireError(Code.HELLO_FIRST, "the first message must be HELLO")
            handler = self._handlers.get(header.op)
            if handler is None:
                raise WireError(Code.UNSUPPORTED, f"operation {header.op} is not known here")
            if header.generation != self.generation:
                return self._reply(
                    header,
                    Op.STALE_GENERATION if header.generation < self.generation else Op.NOT_READY,
                )
            if header.flags & _LISTED:
                if (keys := self._listed_keys(peer, message)) is None:
                    return self._reply(header, Op.KEYS_UNKNOWN)
                # It may have to wait, and comes here again: with its keys, and no list's name.
                header = header._replace(flags=header.flags & ~_LISTED)
                message = message._replace(header=header, keys=keys)
            if header.flags & _STEP:
                return self._answer_in_step(peer, message, handler, now)
            if header.clock != wire.NO_CLOCK and header.op != Op.JOIN:
                if not header.flags & _EARLY:
                    self._gate_moved |= self.clocks.advance(header.incarnation, header.clock)
                if header.op in (Op.PULL, Op.PUSH_PULL) and not self.clocks.is_open(header.clock):
                    self._park(peer, message, now)
                    return None
            if header.op == Op.CALL and self._is_put_off(peer, message):
                return None
            return handler(message)
        except WireError as error:
            return self._refuse(header, error.code, str(error))
        except Exception as error:  # one bad request must not end the server
            log.exception("request %s of %s", header, peer.hex())
            return self._refuse(header, Code.INTERNAL, f"{type(error).__name__}: {error}")

    def _listed_keys(self, peer: bytes, message: Message) -> bytes | None:
        """The keys of a message whose list is to be remembered, or is; None: it is not."""
        lists = self._key_lists.setdefault(peer, KeyLists(keylists.SERVER_BYTES))
        if message.header.flags & _KNOWN_KEYS:
            return lists.find(bytes(message.keys))
        keys = bytes(message.keys)
        lists.keep(keylists.name_of(keys), len(keys), keys)
        return keys

    # ------------------------------------------------------------------ steps

    def _answer_in_step(
        self, peer: bytes, message: Message, handler: Callable[[Message], Frames], now: float
    ) -> Frames | None:
        """Answer a message of a BSP step, or make it wait."""
        header, steps = message.header, self.steps
        if steps is None:
            raise WireError(Code.UNSUPPORTED, "this job has no steps: its sync.mode is not bsp")
        verdict = step_messages.take(steps, self.store, message)
        self.counts.pushes += header.op == Op.PUSH
        taken = verdict is Verdict.TAKE
        # It may have been the last word of a step, or of an epoch.
        self._gate_moved |= step_messages.close(steps) or (taken and header.op == Op.END_PART)
        if verdict is Verdict.WAIT:
            self._park(peer, message, now)
            return None
        if taken and header.op in READS:
            return handler(message)
        return self._reply(header, _ANSWERS[verdict])

    def close_steps(self) -> None:
        """Close the steps that have all their parts, when it was no message that completed them."""
        self._gate_moved |= self.steps is not None and step_messages.close(self.steps)

    # ------------------------------------------------------------------ the gate

    def _park(self, peer: bytes, message: Message, now: float) -> None:
        key = (peer, message.header.request)
        since = self._parked[key].since if key in self._parked else now
        self._parked[key] = _Parked(peer, message, since)

    def open_gate(self) -> list[Reply]:
        """Answer the pulls that no longer have to wait."""
        replies = []
        self._gate_moved = True
        while self._gate_moved:  # who goes on may close a step, and so let others go on
            self._gate_moved = False
            for key, parked in list(self._parked.items()):
                header = parked.message.header
                if header.flags & _STEP or self.clocks.is_open(header.clock):
                    del self._parked[key]
                    answer = self._answer(parked.peer, parked.message, parked.since)
                    if answer is not None:
                        replies.append(Reply(parked.peer, owned(answer)))
        return replies

    def moved(self) -> list[Reply]:
        """Answers that a step has brought which was not closed by a message."""
        return self.open_gate() if self._gate_moved else []

    def expire(self, now: float) -> list[Reply]:
        """Refuse the pulls that have waited for too long."""
        replies = []
        for key, parked in list(self._parked.items()):
            waited = now - parked.since
            if waited >= self.request_limit:
                del self._parked[key]
                stepwise = self.steps if parked.message.header.flags & Flag.STEP else None
                missing = (stepwise or self.clocks).who_is_missing()
                text = f"waited {waited:.0f} s for its turn: {missing}"
                replies.append(
                    Reply(parked.peer, self._refuse(parked.message.header, Code.GATE, text))
                )
        return replies

    def set_members(self, inside: list[int], outside: list[int]) -> list[Reply]:
        """Forget workers that are gone; whoever waited for them goes on."""
        for incarnation in self.clocks.set_members(inside, outside):
            self.store.forget(incarnation)
            for peer in [peer for peer, who in self._known.items() if who == incarnation]:
                self.forget(peer)
        return self.open_gate()

    # ------------------------------------------------------------------ out

    def _reply(
        self,
        header: Header,
        op: Op = Op.OK,
        *,
        keys: Any = b"",
        values: Any = b"",
        dtype: int = 0,
        dim: int = 0,
        code: int = 0,
    ) -> Frames:
        reply = Header(
            op=op,
            job=self.job,
            request=header.request,
            generation=self.generation,
            route=self.route,
            clock=self.clock,
            table=header.table,
            dtype=dtype,
            dim=dim,
            code=code,
        )
        return wire.encode(reply, b"", keys, values)

    def _done(self, header: Header) -> Frames:
        return wire.acknowledgement(header, self.job, self.generation, self.route, self.clock)

    def _refuse(self, header: Header, code: Code, text: str) -> Frames:
        self.counts.refused += 1
        return self._reply(header, Op.ERROR, values=text.encode(), code=code)

    # ------------------------------------------------------------------ operations

    def _hello(self, peer: bytes, message: Message) -> Frames:
        """Keys: JSON with the token. The clock: where the worker is, if it is in the clock."""
        header = message.header
        try:
            token = json.loads(bytes(message.keys))["token"]
        except (ValueError, KeyError, TypeError) as error:
            raise WireError(Code.BAD_MESSAGE, f"HELLO cannot be read: {error!r}") from error
        if not hmac.compare_digest(str(token).encode(), self.token.encode()):
            raise WireError(Code.TOKEN, "HELLO has another token than this job's")
        self._known[peer] = header.incarnation
        if header.clock == wire.NO_CLOCK:
            self.clocks.heard(header.incarnation)
        else:
            self.clocks.join(header.incarnation, header.clock)
        self._gate_moved = True
        return self._reply(header)

    def _open(self, message: Message) -> Frames:
        try:
            spec = TableSpec.from_json(bytes(message.keys).decode())
        except (InputError, UnicodeDecodeError) as error:
            raise WireError(Code.BAD_MESSAGE, str(error)) from error
        self.store.open(spec)
        return self._reply(message.header)

    def _routed(self, message: Message) -> Sections | None:
        """The sections, or None when a shard of them is another server's."""
        sections = self.store.sections(message)
        return sections if self.store.owns(sections) else None

    def _pull(self, message: Message) -> Frames:
        sections = self._routed(message)
        if sections is None:
            return self._reply(message.header, Op.WRONG_ROUTE)
        self.counts.pulls += 1
        values = self.store.pull(message, sections)
        encoded = encode(values, self.store.table(message.header).spec.wire.pull)
        frames = self._reply(
            message.header,
            values=_bytes_of(encoded.values),
            dtype=encoded.dtype,
            dim=values.shape[1] if values.ndim == 2 else 1,
            code=encoded.code,
        )
        lent = encoded.values is values and not values.flags.owndata
        return Lent(frames) if lent and values.nbytes >= _LENT_BYTES else frames

    def _values(self, header: Header, values: Any, keys: Any = b"") -> Frames:
        kind = wire.DTYPE_OF[values.dtype.name]
        dim = values.shape[1] if values.ndim == 2 else 1
        return self._reply(
            header,
            keys=keys,
            values=_bytes_of(values),
            dtype=kind,
            dim=dim,
        )

    def _change(
        self, message: Message, apply: Callable[[Message, Sections], None]
    ) -> Frames | None:
        """Apply a push or an assignment. None: done; otherwise the reply that refuses it."""
        header = message.header
        sections = self._routed(message)
        if sections is None:
            return self._reply(header, Op.WRONG_ROUTE)
        leased = header.flags & _LEASED
        if leased and self.store.marks.token_is_stale(header.epoch, header.split, header.token):
            return self._reply(header, Op.STALE_LEASE)
        self.counts.pushes += 1
        apply(message, sections)
        return None

    def _push(self, message: Message) -> Frames:
        return self._change(message, self.store.push) or self._done(message.header)

    def _assign(self, message: Message) -> Frames:
        return self._change(message, self.store.assign) or self._done(message.header)

    def _push_pull(self, message: Message) -> Frames:
        return self._change(message, self.store.push) or self._pull(message)

    def _contains(self, message: Message) -> Frames:
        sections = self._routed(message)
        if sections is None:
            return self._reply(message.header, Op.WRONG_ROUTE)
        return self._values(message.header, self.store.contains(message, sections))

    def _size(self, message: Message) -> Frames:
        rows = self.store.table(message.header).rows
        return self._reply(message.header, values=np.int64(rows).tobytes())

    def _clear(self, message: Message) -> Frames:
        self.store.clear(message.header)
        return self._reply(message.header)

    def _export_rows(self, message: Message) -> Frames:
        sections = self._routed(message)
        if sections is None:
            return self._reply(message.header, Op.WRONG_ROUTE)
        keys, values = self.store.rows_of(message.header, sections)
        return self._values(message.header, values, keys.tobytes())

    # ------------------------------------------------------------------ functions

    def _built_in(self, message: Message) -> Frames:
        """Run a built-in function; its results for each shard."""
        header, call = message.header, functions.asked(message)
        found: Results = []

        def apply(message: Message, sections: Sections) -> None:
            found.extend(self.store.call(message, sections, call))

        if call.changes:
            refusal = self._change(message, apply)
            if refusal is not None:
                return refusal
        else:
            sections = self._routed(message)
            if sections is None:
                return self._reply(header, Op.WRONG_ROUTE)
            apply(message, sections)
        return self._results(header, found)

    def _is_put_off(self, peer: bytes, message: Message) -> bool:
        """Whether it is a function of the job's own, whose answer comes from `step_functions`."""
        call = functions.asked(message)
        sections = self._routed(message) if call.is_own else None
        if sections is None:
            return False
        self.own_functions.ask(Waiting(peer, message.header, sections[:, 0].tolist(), call))
        return True

    def step_functions(self) -> list[Reply]:
        """Go on with the job's own functions; to be called often while they are `busy`."""
        return [self._late_reply(done) for done in self.own_functions.step()]

    def _late_reply(self, done: Answer) -> Reply:
        header = done.waiting.header
        try:
            if done.error is not None:
                raise done.error
            frames = self._results(header, done.results)
        except WireError as error:
            frames = self._refuse(header, error.code, str(error))
        return Reply(done.waiting.peer, frames)

    def _results(self, header: Header, results: Results) -> Frames:
        text, data = functions.answer(results)
        return self._reply(header, keys=text, values=data)

    def _join(self, message: Message) -> Frames:
        header = message.header
        clock = None if header.clock == wire.NO_CLOCK else header.clock
        # The reply's clock is the lowest live one; a joiner among members starts there.
        self.clocks.join(header.incarnation, clock)
        self._gate_moved = True
        return self._reply(header)

    def _reply_only(self, message: Message) -> Frames:
        """Outside of a step there is nothing to announce."""
        return self._reply(message.header)

    def _leave(self, message: Message) -> Frames:
        self.clocks.leave(message.header.incarnation)
        self._gate_moved = True
        return self._reply(message.header)

    # ------------------------------------------------------------------ what is going on

    @property
    def clock(self) -> int:
        """The lowest live clock; in BSP the step that is open."""
        return self.clocks.lowest() if self.steps is None else self.steps.closed

    @property
    def waiting(self) -> int:
        """Pulls that wait for the gate."""
        return len(self._parked)

    def table_stats(self) -> list[pb.TableStats]:
        """What there is to say about every table."""
        return [
            pb.TableStats(
                name=table.spec.name,
                rows=table.rows,
                bytes=table.nbytes,
                ignored=table.losses.ignored,
                evicted=table.losses.evicted,
                expired=table.losses.expired,
                waiting=table.waiting,
                nonfinite=table.nonfinite,
            )
            for table in self.store.tables.values()
        ]


def _bytes_of(values: Any) -> Any:
    return memoryview(values).cast("B") if values.size else b""
