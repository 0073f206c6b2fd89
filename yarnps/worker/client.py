"""The worker's side of the data plane: calls in, requests to the servers, answers back.

Whoever waits for a call does the input and output; there is no thread for it. Every method that
touches a socket holds the lock. What a socket does not take at once, and answers that have come,
are looked at whenever a call is made or waited for; in between the system's buffers hold them.

A request is kept until it is answered, and sent again when its connection broke, when its server
has a new incarnation, or when its shards have another server; servers drop what they have applied
already by the push's identity.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import YarnpsError
from yarnps._memory import keep_pages
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Header, Message, Op
from yarnps.worker import refusals
from yarnps.worker.calls import Call, Request
from yarnps.worker.connection import Connection, hello, opening
from yarnps.worker.connections import Connections
from yarnps.worker.gather import GROW_S, Sharing
from yarnps.worker.routing import Part, Router
from yarnps.worker.stopwatch import Stopwatch

log = logging.getLogger(__name__)

# What may be outstanding at one server before a call waits: it bounds the memory of both sides.
WINDOW_BYTES = 64 << 20
WINDOW_REQUESTS = 4096

# A wait looks at limits and revoked leases this often, whatever else happens.
_TICK_S = 0.1

# What must not fail without anybody hearing of it.
_CHANGES = (Op.PUSH, Op.PUSH_PULL, Op.ASSIGN, Op.CLEAR, Op.CALL)
_UNHEEDED = 16  # one of them is told

# A server that is behind (a generation, a route) is asked again after this long.
_RETRY_S = 0.1


class Client:
    """Requests to all servers of a job.

    Parameters
    ----------
    begin
        The job, its token, the routes, and who this worker is.
    request_limit
        Seconds after which a request that is not answered fails its call.
    """

    def __init__(self, begin: pb.Begin, request_limit: float) -> None:
        keep_pages()
        self._job = begin.job
        self._token = begin.data_token
        self._incarnation = begin.incarnation.id
        self._limit = request_limit
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._connections = Connections()
        self._news: pb.Routes | None = None
        self._next_tick = 0.0
        self._tables: dict[str, TableSpec] = {}
        self._delayed: list[tuple[float, Connection, Request]] = []
        self._unheeded: list[Call] = []  # changes that were refused, and nobody has waited for
        self.sharing = Sharing(self)
        self.broken: YarnpsError | None = None
        self.clock: int | None = None
        self.idle = Stopwatch()
        self.on_void: Callable[[str], None] = log.warning  # hears of residuals that are void
        self.generation = 0
        self.router = Router(begin.routes)
        self._follow(begin.routes)

    # ------------------------------------------------------------------ from other threads

    def wake(self) -> None:
        """End the wait of whoever waits, so that it looks around."""
        self._connections.wake()

    def post_routes(self, routes: pb.Routes) -> None:
        """New routes from the ApplicationMaster; followed at once when nobody is at work here."""
        self._news = routes
        self.wake()
        if self.lock.acquire(blocking=False):
            try:
                self._follow_news()
            finally:
                self.lock.release()

    def close(self) -> None:
        with self.lock:
            self._connections.close()

    # ------------------------------------------------------------------ calls

    def header(self, op: Op, **fields: int) -> Header:
        """A header of this worker; the clock says where it is, if it is in the clock."""
        clock = wire.NO_CLOCK if self.clock is None else self.clock
        return Header(
            op=op, job=self._job, incarnation=self._incarnation, **{"clock": clock, **fields}
        )

    def submit(self, call: Call, parts: Iterable[Part]) -> Call:
        """Send a call's requests. It may wait while too much is outstanding."""
        with self.lock:
            self.check()
            self.sharing.flush()
            requests = [
                Request(next(self._numbers), call, part, time.monotonic()) for part in parts
            ]
            call.left = len(requests)
            for request in requests:
                self._place(request)
        return call

    def ask_all(self, header: Header, what: str, **fields: Any) -> Call:
        """A call with one request, without keys, to every server."""
        nothing = np.empty((0, 2), np.uint32)
        return self.submit(
            Call(header, what, **fields),
            [Part(server, nothing, None, None, None) for server in self.router.servers],
        )

    def tell_all(self, call: Call, numbers: NDArray[np.int64] | None) -> Call:
        """Send a call with some numbers, for no shard, to every server."""
        nothing = np.empty((0, 2), np.uint32)
        servers = self.router.servers
        return self.submit(call, [Part(s, nothing, numbers, None, None) for s in servers])

    def open(self, spec: TableSpec) -> None:
        """Make a table known to every server, now and after each restart."""
        with self.lock:
            self._tables[spec.name] = spec
            text = np.frombuffer(spec.to_json().encode(), np.uint8)
            nothing = np.empty((0, 2), np.uint32)
            call = Call(
                self.header(Op.OPEN, table=wire.table_id(spec.name)), f"open table {spec.name}"
            )
            parts = [Part(server, nothing, text, None, None) for server in self.router.servers]
            self.wait(self.submit(call, parts))

    def wait(self, call: Call, timeout: float | None = None) -> None:
        """Return when the call is done.

        Raises
        ------
        TimeoutError
            Not within `timeout` seconds.
        YarnpsError
            What the call failed with.
        """
        call.heeded = True
        if not call.done:
            begun = time.monotonic()
            with self.idle, self.lock:
                while not call.done:
                    left = _TICK_S
                    if timeout is not None:
                        left = min(left, begun + timeout - time.monotonic())
                        if left <= 0:
                            raise TimeoutError(f"{call.what}: not done within {timeout:g} s")
                    self._pump(left, call)
                    self._fail_if_void(call)
        if call.error is not None:
            raise call.error

    def _fail_if_void(self, call: Call) -> None:
        """Wait no more for what cannot come, or must not be waited for by this worker."""
        lease = call.lease
        if lease is None or call.done:
            return
        if lease.revoked:
            self._connections.forget(call)
            call.fail(refusals.revoked(call))
        elif lease.is_early and call.header.op != Op.END_PART:  # servers let that wait for no step
            self._connections.forget(call)
            call.fail(refusals.early(call))

    def settle(self) -> None:
        """Return when all changes are answered, also those that nobody has waited for.

        What was pushed in a batch was waited for by its commit, or is void.

        Raises
        ------
        YarnpsError
            A change was refused, or not answered in time, and nobody has heard of it.
        """
        with self.idle, self.lock:
            self.sharing.flush()
            while any(_is_own_change(request.call) for request in self._connections.pending()):
                self.pump(_TICK_S)
            for call in self._unheeded:
                if not call.heeded and call.error is not None:
                    raise call.error

    def pump(self, seconds: float) -> None:
        """Receive what is there, waiting up to `seconds` for the first."""
        self._pump(seconds, None)

    def _pump(self, seconds: float, wanted: Call | None) -> None:
        seconds = max(0.0, seconds)
        with self.lock:
            self._follow_news()
            if not (self.sharing.may_grow(wanted) and self._receive(min(seconds, GROW_S))):
                self.sharing.flush()
                self._receive(seconds)
            self._follow_news()
            now = time.monotonic()
            if now >= self._next_tick:
                self._next_tick = now + _TICK_S
                self._tick(now)
            self.check()

    def _receive(self, seconds: float) -> bool:
        """Serve the connections that have something within `seconds`; whether any had."""
        ready = self._connections.ready(seconds)
        for connection, events in ready:
            if connection is not None:
                self._serve(connection, events)
        return bool(ready)

    def check(self) -> None:
        """Raise what ended the work of this client, if anything did."""
        if self.broken is not None:
            raise self.broken

    # ------------------------------------------------------------------ sending

    def _place(self, request: Request) -> None:
        """Give a request to its server's connection and send it."""
        connection = self._connections[request.part.server]
        if _is_full(connection):
            with self.idle:
                while _is_full(connection):
                    self.pump(_TICK_S)
                    self._fail_if_void(request.call)
                    if request.call.done:
                        return
        connection.add(request)
        self._send(connection, request)

    def _send(self, connection: Connection, request: Request) -> None:
        lease = request.call.lease
        generation = self.generation
        if lease is not None and lease.generation is not None:
            generation = lease.generation  # what an older model gave must not change a newer one
        connection.send(request, generation, self.router.version)

    # ------------------------------------------------------------------ receiving

    def _serve(self, connection: Connection, events: int) -> None:
        try:
            messages = connection.serve(events)
        except wire.WireError as error:
            self.broken = refusals.unreadable(connection, error)
            return
        for message in messages:
            self._answered(connection, message)

    def _answered(self, connection: Connection, message: Message) -> None:
        header = message.header
        if header.request == 0:
            self._connection_answered(connection, message)
            return
        request = connection.pending.get(header.request)
        if request is None:
            return  # the answer to a request that was sent twice
        if header.op == Op.OK:
            connection.remove(request.number)
            request.call.answered(request.part, message)
        elif header.op == Op.WRONG_ROUTE:
            if self.router.version > header.route:
                self._reroute(connection, request)
            else:
                request.reroute = True
        elif header.op == Op.LATE:
            self._connections.forget(request.call)
            request.call.fail(refusals.late(request.call, header))
        elif header.op == Op.STALE_LEASE or (
            header.op == Op.STALE_GENERATION and request.call.lease is not None
        ):
            self._lease_is_void(request.call)
        elif header.op == Op.KEYS_UNKNOWN:
            connection.lists.drop(request.keys_name)
            self._send(connection, request)
        elif header.op in (Op.NOT_READY, Op.STALE_GENERATION):
            self._delayed.append((time.monotonic() + _RETRY_S, connection, request))
        elif header.op == Op.ERROR and header.code == wire.Code.HELLO_FIRST:
            if self.broken is None:
                self._greet(connection)
                self._send(connection, request)
        elif header.op == Op.ERROR:
            self._fail(request.call, refusals.refused(connection, request.call.what, message))

    def _connection_answered(self, connection: Connection, message: Message) -> None:
        """The answer to HELLO, or to the opening of a table after a restart.

        What was sent behind a refused HELLO is refused for coming before one. That is no reason:
        the first refusal that is one stays.
        """
        header = message.header
        refused = header.op == Op.ERROR and header.code != wire.Code.HELLO_FIRST
        if refused and self.broken is None:
            self.broken = refusals.refused(connection, "hello", message)

    def _fail(self, call: Call, error: YarnpsError) -> None:
        self._connections.forget(call)
        call.fail(error)
        first_ones = len(self._unheeded) < _UNHEEDED
        if first_ones and not call.heeded and _is_own_change(call):
            self._unheeded.append(call)

    def _lease_is_void(self, call: Call) -> None:
        if call.lease is not None:
            call.lease.revoked = True
        self._connections.forget(call)
        call.fail(refusals.revoked(call))

    # ------------------------------------------------------------------ routes

    def _follow_news(self) -> None:
        news, self._news = self._news, None
        if news is not None and (news.generation, news.version) >= (
            self.generation,
            self.router.version,
        ):
            self._follow(news)

    def _follow(self, routes: pb.Routes) -> None:
        """Connect to new incarnations, and send again what their servers may have lost."""
        self.router = Router(routes)
        self.generation = max(self.generation, routes.generation)
        for route in routes.servers:
            connection = self._connections.of(route.server_rank)
            if not connection.is_same(route):
                connection.redirect(route)
                self._dial(connection, time.monotonic())
        for connection in list(self._connections.values()):
            for request in list(connection.pending.values()):
                if request.reroute or not self._is_at_home(connection, request):
                    self._reroute(connection, request)

    def _dial(self, connection: Connection, now: float) -> None:
        """Connect where that is due, and send what may have been lost."""
        if self._connections.dial(connection, now):
            self._greet(connection)
            for request in list(connection.pending.values()):
                self._send(connection, request)

    def _greet(self, connection: Connection) -> None:
        header = self.header(Op.HELLO, generation=self.generation, route=self.router.version)
        connection.write(hello(header, self._token))
        for spec in self._tables.values():
            connection.write(opening(header, spec))

    def _is_at_home(self, connection: Connection, request: Request) -> bool:
        shards = request.part.sections[:, 0].astype(np.int64)
        return bool((self.router.owner[shards] == connection.rank).all())

    def _reroute(self, connection: Connection, request: Request) -> None:
        """Cut a request anew, by the routes as they are now."""
        call = request.call
        connection.remove(request.number)
        if call.spec is None:
            raise AssertionError(f"{call.what} names shards, but no table")
        parts = list(self.router.again(request.part, call.spec))
        call.left += len(parts) - 1
        for part in parts:
            again = Request(next(self._numbers), call, part, request.since)
            target = self._connections[part.server]
            target.add(again)
            self._send(target, again)

    # ------------------------------------------------------------------ limits

    def _tick(self, now: float) -> None:
        due = [entry for entry in self._delayed if entry[0] <= now]
        self._delayed = [entry for entry in self._delayed if entry[0] > now]
        for _, connection, request in due:
            if request.number in connection.pending:
                self._send(connection, request)
        for connection in self._connections.values():
            late = [r for r in connection.pending.values() if now - r.since >= self._limit]
            for request in late:
                self._fail(request.call, refusals.silent(connection, request, now))
            if late and connection.up:
                # What it has not taken would be kept for nobody.
                connection.close("it does not answer")
            self._dial(connection, now)

    @property
    def outstanding(self) -> int:
        """Requests without an answer."""
        return self._connections.outstanding


def _is_own_change(call: Call) -> bool:
    return call.lease is None and call.header.op in _CHANGES


def _is_full(connection: Connection) -> bool:
    return bool(connection.pending) and (
        connection.outstanding > WINDOW_BYTES or len(connection.pending) >= WINDOW_REQUESTS
    )
