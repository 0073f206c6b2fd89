"""Why a call has failed, as its caller reads it."""

from __future__ import annotations

import time

from yarnps._errors import ClusterError, EarlyBatch, LateBatch, LeaseRevoked, ServerRefused
from yarnps.protocol.wire import Code, Header, Message, WireError
from yarnps.worker.calls import Call, Request
from yarnps.worker.connection import Connection

# Settings of the job, and not of the moment: a worker that starts again meets the same.
_CERTAIN = {Code.TABLE_FULL, Code.TABLE_DIFFERS}


def refused(connection: Connection, what: str, message: Message) -> ServerRefused:
    """A server's refusal, in its own words."""
    text = bytes(message.values).decode(errors="replace")
    return ServerRefused(
        f"server {connection.rank} refused: {what}: {text}",
        certain=message.header.code in _CERTAIN,
    )


def unreadable(connection: Connection, error: WireError) -> ServerRefused:
    """A server answers what is no message."""
    return ServerRefused(
        f"what server {connection.rank} answers cannot be read: {error}",
        "is it of the same version of yarnps as this worker?",
    )


def silent(connection: Connection, request: Request, now: float) -> ClusterError:
    """A server has not answered within the limit."""
    waited = now - request.since
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - waited))
    where = connection.address or "not started again yet"
    trouble = f" ({connection.trouble})" if connection.trouble else ""
    return ClusterError(
        f"server {connection.rank} ({where}) has not answered since {since}, for "
        f"{waited:.0f} s: {request.call.what}{trouble}",
        "see that server's log; server.request_limit in the job file is the time to wait",
    )


def late(call: Call, header: Header) -> LateBatch:
    """A BSP step was closed before the batch had pushed all that it has for it."""
    return LateBatch(
        f"step {call.header.clock} was closed without it: {call.what}",
        "data() gives the batch out again",
        step=header.clock,
    )


def early(call: Call) -> EarlyBatch:
    """Nobody but this worker can close the step that the call waits for."""
    return EarlyBatch(
        f"a part of an earlier step than {call.header.clock} has come to this worker: {call.what}",
        "data() gives the batch out again, after that part",
    )


def revoked(call: Call) -> LeaseRevoked:
    """The lease of the call's batch is void."""
    lease = call.lease
    assert lease is not None
    return LeaseRevoked(
        f"the lease of split {lease.split.id} in epoch {lease.epoch} is void: {call.what}",
        "data() goes on with another one by itself",
    )
