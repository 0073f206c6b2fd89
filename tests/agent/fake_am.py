"""The ApplicationMaster's end of agents' sessions, for tests: says what a test wants it to say."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.service import CHANNEL_OPTIONS, handlers

LIMIT_S = 20.0


class Session:
    """One agent's stream."""

    def __init__(self, register: pb.Register) -> None:
        self.register = register
        self.said: list[pb.FromAgent] = []
        self.ended = threading.Event()
        self._arrived = threading.Condition()
        self._out: queue.SimpleQueue[pb.ToAgent | None] = queue.SimpleQueue()

    def send(self, **kind: Any) -> None:
        self._out.put(pb.ToAgent(**kind))

    def end(self) -> None:
        self._out.put(None)

    def wait(self, condition: Callable[[pb.FromAgent], bool], nth: int = 1) -> pb.FromAgent:
        """The n-th message of which the condition holds."""
        deadline = time.monotonic() + LIMIT_S
        with self._arrived:
            while True:
                found = [m for m in self.said if condition(m)]
                if len(found) >= nth:
                    return found[nth - 1]
                left = deadline - time.monotonic()
                if left <= 0 or not self._arrived.wait(left):
                    raise AssertionError(f"not said in {LIMIT_S} s; said: {self.said}")

    def started(self, nth: int = 1) -> pb.RoleStarted:
        return self.wait(lambda m: m.HasField("role_started"), nth).role_started

    def exited(self, nth: int = 1) -> pb.RoleExited:
        return self.wait(lambda m: m.HasField("role_exited"), nth).role_exited

    def heartbeat(self, nth: int = 1) -> pb.Heartbeat:
        return self.wait(lambda m: m.HasField("heartbeat"), nth).heartbeat

    def role_said(self, kind: str, nth: int = 1) -> pb.RoleSays:
        return self.wait(lambda m: m.role.message.HasField(kind), nth).role

    def to_role(self, *, process: int = 0, **kind: Any) -> None:
        self.send(role=pb.ToRoleOf(process=process, message=pb.ToRole(**kind)))

    def begin(self, of: pb.Incarnation) -> None:
        self.to_role(process=of.process, begin=pb.Begin(incarnation=of))

    # ------------------------------------------------------------------ the stream itself

    def read(self, incoming: Iterator[pb.FromAgent]) -> None:
        try:
            for message in incoming:
                with self._arrived:
                    self.said.append(message)
                    self._arrived.notify_all()
        except grpc.RpcError:
            pass  # the agent is gone: that is an end, too
        self.ended.set()
        self.end()

    def outgoing(self) -> Iterator[pb.ToAgent]:
        while (message := self._out.get()) is not None:
            yield message


class FakeAM:
    """A gRPC server with one application's certificate pair."""

    def __init__(
        self,
        certificate: bytes,
        key: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        welcome: pb.Welcome | None = None,
        refuse: str = "",
    ) -> None:
        self._host = host
        self._welcome = welcome or pb.Welcome(heartbeat_s=0.1, am_silence_s=60, attempt=1)
        self._refuse = refuse
        self._sessions: queue.Queue[Session] = queue.Queue()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(8), options=[*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)]
        )
        self._server.add_generic_rpc_handlers(
            (handlers(session=self._session, status=_no_call, kill=_no_call),)
        )
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=certificate, require_client_auth=True
        )
        self.port = self._server.add_secure_port(f"{host}:{port}", credentials)
        self._server.start()

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    def session(self, limit_s: float = LIMIT_S) -> Session:
        """The next stream that an agent makes."""
        return self._sessions.get(timeout=limit_s)

    def stop(self) -> None:
        """Go away at once, as if killed."""
        self._server.stop(grace=0).wait(LIMIT_S)

    def _session(self, incoming: Iterator[pb.FromAgent], context: Any) -> Iterator[pb.ToAgent]:
        register = next(incoming).register
        if self._refuse:
            yield pb.ToAgent(refused=pb.Refused(reason=self._refuse))
            return
        session = Session(register)
        context.add_callback(session.end)
        threading.Thread(target=session.read, args=(incoming,), daemon=True).start()
        yield pb.ToAgent(welcome=self._welcome)
        self._sessions.put(session)
        yield from session.outgoing()


def _no_call(request: Any, context: Any) -> None:
    raise NotImplementedError
