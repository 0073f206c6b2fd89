"""The agent's one connection to the ApplicationMaster: made again and again until it holds.

Runs in a thread of its own and only tells what happens; all decisions are the agent's.
"""

from __future__ import annotations

import logging
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc

from yarnps.agent import _lookup as lookup
from yarnps.agent._settings import Settings
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.service import CHANNEL_OPTIONS, session_call

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
# A restarted ApplicationMaster has its old port again within a second; ask elsewhere only later.
LOOKUP_AFTER_S = 5.0
CONNECT_LIMIT_MS = 5000

_OPTIONS = [
    *CHANNEL_OPTIONS,
    # These bound how long a connection attempt to a node that is gone takes.
    ("grpc.min_reconnect_backoff_ms", CONNECT_LIMIT_MS),
    ("grpc.initial_reconnect_backoff_ms", CONNECT_LIMIT_MS),
    # Else a new channel would take over the broken connection state of the one before.
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True)
class Said:
    """A message of the ApplicationMaster, on the `connection`-th stream."""

    connection: int
    message: pb.ToAgent


@dataclass(frozen=True)
class Lost:
    """The `connection`-th stream has ended."""

    connection: int
    reason: str


class Ends(NamedTuple):
    """The IP addresses of a connection to the ApplicationMaster."""

    ours: str
    theirs: str


class _Connection:
    """One stream: what goes out is taken from a queue."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.out: queue.SimpleQueue[pb.FromAgent | None] = queue.SimpleQueue()
        self.call: Any = None

    def requests(self) -> Iterator[pb.FromAgent]:
        while (message := self.out.get()) is not None:
            yield message


class Link:
    """Keeps a session with the ApplicationMaster.

    Parameters
    ----------
    tell
        Called with `Said` and `Lost`, from the link's thread.
    register
        Makes the first message of a stream; it is given the addresses of the connection.
    """

    def __init__(
        self,
        settings: Settings,
        register: Callable[[Ends], pb.Register],
        tell: Callable[[Said | Lost], None],
    ) -> None:
        self._settings = settings
        self._register = register
        self._tell = tell
        self._address = settings.am
        self._connection = _Connection(0)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, message: pb.FromAgent) -> None:
        """Give a message to the present stream."""
        self._connection.out.put(message)

    def drop(self, connection: int) -> None:
        """Give up a stream that looks dead; the link makes a new one."""
        present = self._connection
        if present.number == connection and present.call is not None:
            present.call.cancel()

    def close(self, limit_s: float) -> None:
        """Send what is queued and end, within the limit."""
        self._closed.set()
        self._connection.out.put(None)
        self._thread.join(limit_s)

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        lost_at = asked_at = time.monotonic()
        while not self._closed.is_set():
            heard, reason = self._session()
            now = time.monotonic()
            if heard:
                pause, lost_at, asked_at = FIRST_PAUSE_S, now, now
            self._tell(Lost(self._connection.number, reason))
            # Jitter: a thousand agents have lost the same ApplicationMaster at the same moment.
            if self._closed.wait(pause * random.uniform(0.5, 1.5)):
                return
            pause = min(2 * pause, LONGEST_PAUSE_S)
            patience = LOOKUP_AFTER_S * random.uniform(1, 1.5)
            if now - lost_at > LOOKUP_AFTER_S and now - asked_at > patience:
                asked_at = now
                self._ask_for_address()

    def _ask_for_address(self) -> None:
        s = self._settings
        address = lookup.find(s.lookup, s.certificate, s.key)
        if address and address != self._address:
            log.info("the ApplicationMaster is at %s now", address)
            self._address = address

    def _session(self) -> tuple[bool, str]:
        """One stream from connecting to its end: was anything heard, and why did it end."""
        connection = _Connection(self._connection.number + 1)
        s = self._settings
        heard = False
        try:
            ends = ends_of(self._address)
            credentials = grpc.ssl_channel_credentials(s.certificate, s.key, s.certificate)
            with grpc.secure_channel(self._address, credentials, _OPTIONS) as channel:
                connection.out.put(pb.FromAgent(register=self._register(ends)))
                connection.call = session_call(channel)(connection.requests())
                self._connection = connection
                if self._closed.is_set():
                    connection.out.put(None)
                for message in connection.call:
                    heard = True
                    self._tell(Said(connection.number, message))
            return heard, "the ApplicationMaster ended the session"
        except grpc.RpcError as e:
            code, details = (e.code(), e.details()) if isinstance(e, grpc.Call) else ("", str(e))
            return heard, f"{getattr(code, 'name', code)}: {details}"
        except (OSError, ValueError) as e:
            return heard, str(e)
        finally:
            connection.out.put(None)  # else grpc's thread waits for the next message for ever


def ends_of(address: str) -> Ends:
    """The IP addresses by which this machine and ``host:port`` reach each other; sends nothing."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    family, kind, protocol, _, target = found[0]
    with socket.socket(family, kind, protocol) as s:
        s.connect(target)
        return Ends(str(s.getsockname()[0]), str(target[0]))
