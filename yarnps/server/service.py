"""How a server process answers messages. No sockets and no clock: messages and the time go in."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import keylists, wire
from yarnps.protocol.keylists import KeyLists
from yarnps.protocol.stream import Lent, owned
from yarnps.protocol.wire import Code, Flag, Header, Message, Op, WireError
from yarnps.server import functions, step_messages
from yarnps.server.calls import Answer, OwnFunctions, Waiting
from yarnps.server.clocks import Clocks
from yarnps.server.operations import (
    DONE,
    OPERATIONS,
    Counts,
    Operation,
    Result,
    function_result,
    routed,
)
from yarnps.server.parking import Parked, ParkedPulls
from yarnps.server.steps import READS, Steps, Verdict
from yarnps.server.store import Store

log = logging.getLogger(__name__)

# Numbers: an enum's own operations take microseconds.
_LEASED, _KNOWN_KEYS, _EARLY = int(Flag.LEASED), int(Flag.KNOWN_KEYS), int(Flag.EARLY)
_STEP = int(Flag.STEP)
_LISTED = int(Flag.KEEP_KEYS | Flag.KNOWN_KEYS)

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
    hand_on
        Takes a peer's pull that need not wait for the gate any more, and brings it again when the
        peer's socket can take the answer; False: it is to be answered at once.
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
    hand_on: Callable[[bytes, Message], bool] = field(default=lambda peer, message: False)

    def __post_init__(self) -> None:
        self._known: dict[bytes, int] = {}  # peers that said HELLO, and their incarnations
        self._parked = ParkedPulls()
        self._key_lists: dict[bytes, KeyLists] = {}
        self._gate_moved = False
        self.own_functions = OwnFunctions(lambda: self.store)
        self._operations: dict[int, Operation] = {
            **OPERATIONS,
            Op.JOIN: self._join,
            Op.LEAVE: self._leave,
            Op.ANNOUNCE: _nothing,  # outside of a step there is nothing to announce
            Op.END_PART: _nothing,
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
        self._parked.forget(peer)

    def _answer(self, peer: bytes, message: Message, now: float) -> Frames | None:
        header = message.header
        try:
            if header.job != self.job:
                raise WireError(Code.JOB, f"this server belongs to job {self.job:016x}")
            if header.op == Op.HELLO:
                return self._hello(peer, message)
            if peer not in self._known:
                raise WireError(Code.HELLO_FIRST, "the first message must be HELLO")
            operation = self._operations.get(header.op)
            if operation is None:
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
                return self._answer_in_step(peer, message, operation, now)
            if header.clock != wire.NO_CLOCK and header.op != Op.JOIN:
                if not header.flags & _EARLY:
                    self._gate_moved |= self.clocks.advance(header.incarnation, header.clock)
                if header.op in (Op.PULL, Op.PUSH_PULL) and not self.clocks.is_open(header.clock):
                    self._parked.add(peer, message, now)
                    return None
            if header.op == Op.CALL and self._is_put_off(peer, message):
                return None
            return self._framed(header, operation(self.store, self.counts, message))
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
        self, peer: bytes, message: Message, operation: Operation, now: float
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
            self._parked.add(peer, message, now)
            return None
        if taken and header.op in READS:
            return self._framed(header, operation(self.store, self.counts, message))
        return self._reply(header, _ANSWERS[verdict])

    def close_steps(self) -> None:
        """Close the steps that have all their parts, when it was no message that completed them."""
        self._gate_moved |= self.steps is not None and step_messages.close(self.steps)

    # ------------------------------------------------------------------ the gate

    def open_gate(self) -> list[Reply]:
        """Answer the pulls that no longer have to wait."""
        replies = []
        self._gate_moved = True
        while self._gate_moved:  # who goes on may close a step, and so let others go on
            self._gate_moved = False
            for parked in self._parked.take(self._may_go_on):
                if self._can_be_later(parked) and self.hand_on(parked.peer, parked.message):
                    continue
                answer = self._answer(parked.peer, parked.message, parked.since)
                if answer is not None:
                    replies.append(Reply(parked.peer, owned(answer)))
        return replies

    def _may_go_on(self, parked: Parked) -> bool:
        """Whether it is worth looking again; a message of a step may have to wait once more."""
        header = parked.message.header
        return bool(header.flags & _STEP) or self.clocks.is_open(header.clock)

    def _can_be_later(self, parked: Parked) -> bool:
        """Whether nobody waits for it but its peer, and it will not have to wait once more."""
        header = parked.message.header
        steps = self.steps if header.flags & _STEP else None
        return header.op == Op.PULL and (steps is None or steps.is_open(header))

    def moved(self) -> list[Reply]:
        """Answers that a step has brought which was not closed by a message."""
        return self.open_gate() if self._gate_moved else []

    def expire(self, now: float) -> list[Reply]:
        """Refuse the pulls that have waited for too long."""
        replies = []
        for parked in self._parked.take(lambda one: now - one.since >= self.request_limit):
            header = parked.message.header
            stepwise = self.steps if header.flags & _STEP else None
            missing = (stepwise or self.clocks).who_is_missing()
            text = f"waited {now - parked.since:.0f} s for its turn: {missing}"
            replies.append(Reply(parked.peer, self._refuse(header, Code.GATE, text)))
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
        op: int = Op.OK,
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

    def _framed(self, header: Header, result: Result) -> Frames:
        """The answer to a message."""
        if result is DONE:
            return wire.acknowledgement(header, self.job, self.generation, self.route, self.clock)
        op, keys, values, dtype, dim, code, lent = result
        frames = self._reply(header, op, keys=keys, values=values, dtype=dtype, dim=dim, code=code)
        return Lent(frames) if lent else frames

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

    def _is_put_off(self, peer: bytes, message: Message) -> bool:
        """Whether it is a function of the job's own, whose answer comes from `step_functions`."""
        call = functions.asked(message)
        sections = routed(self.store, message) if call.is_own else None
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
            frames = self._framed(header, function_result(done.results))
        except WireError as error:
            frames = self._refuse(header, error.code, str(error))
        return Reply(done.waiting.peer, frames)

    # ------------------------------------------------------------------ the clock's members

    def _join(self, store: Store, counts: Counts, message: Message) -> Result:
        header = message.header
        clock = None if header.clock == wire.NO_CLOCK else header.clock
        # The reply's clock is the lowest live one; a joiner among members starts there.
        self.clocks.join(header.incarnation, clock)
        self._gate_moved = True
        return DONE

    def _leave(self, store: Store, counts: Counts, message: Message) -> Result:
        self.clocks.leave(message.header.incarnation)
        self._gate_moved = True
        return DONE

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


def _nothing(store: Store, counts: Counts, message: Message) -> Result:
    return DONE
