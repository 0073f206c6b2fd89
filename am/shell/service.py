"""The gRPC service of the ApplicationMaster: agents' streams, and the calls of clients.

Everything that arrives is handed to the shell; what the shell wants to send to an agent is put
into that agent's `Link`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Protocol

import grpc
import grpc.aio

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.service import CHANNEL_OPTIONS, handlers

logger = logging.getLogger(__name__)

# An agent that does not take its messages is cut off rather than fed without a limit.
LINK_LIMIT = 10_000

# A stream's first message must be there within this time.
REGISTER_LIMIT_S = 30.0


class Link:
    """The way to one agent."""

    def __init__(self, register: pb.Register) -> None:
        self.register = register
        self.queue: asyncio.Queue[pb.ToAgent | None] = asyncio.Queue(LINK_LIMIT)

    def send(self, message: pb.ToAgent) -> bool:
        """Queue a message; False when the agent does not keep up (it is then cut off)."""
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            return False
        return True

    def close(self) -> None:
        """End the stream after what is queued; at once, if an agent does not keep up with that."""
        if self.queue.full():
            logger.warning("link to %s is full; its stream ends at once", self.register.container)
            while not self.queue.empty():
                self.queue.get_nowait()
        self.queue.put_nowait(None)


class AgentHandler(Protocol):
    """Takes what agents say."""

    def came(self, link: Link) -> str | None:
        """A registration; returns the reason of a refusal, or None."""

    def said(self, link: Link, message: pb.FromAgent) -> None:
        """A further message of a registered agent."""

    def went(self, link: Link) -> None:
        """The stream has ended."""


class ClientHandler(Protocol):
    """Answers clients."""

    def status_json(self, events_after: int) -> str:
        """The status document."""

    def kill(self, user: str, reason: str) -> None:
        """A client asks to end the job."""


class Service:
    """The gRPC server with mutual TLS on the application's own certificate pair."""

    def __init__(
        self, agents: AgentHandler, clients: ClientHandler, certificate: bytes, key: bytes
    ) -> None:
        self._agents = agents
        self._clients = clients
        self._credentials = grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=certificate, require_client_auth=True
        )
        self._server: Any = None
        self.port = 0

    async def start(self, wanted_port: int = 0) -> int:
        """Listen on `wanted_port` if that is free, otherwise on any; returns the port."""
        for port in dict.fromkeys((wanted_port, 0)):
            server = grpc.aio.server(options=[*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)])
            server.add_generic_rpc_handlers(
                (handlers(session=self._session, status=self._status, kill=self._kill),)
            )
            try:
                self.port = server.add_secure_port(f"0.0.0.0:{port}", self._credentials)
            except RuntimeError:
                self.port = 0
            if self.port:
                self._server = server
                await server.start()
                return self.port
            logger.warning("port %d is taken; another one is used", port)
        raise OSError("no port can be bound for the control plane")

    async def stop(self, grace_s: float = 1.0) -> None:
        """End all streams and stop listening."""
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _session(
        self, incoming: AsyncIterator[pb.FromAgent], context: Any
    ) -> AsyncIterator[pb.ToAgent]:
        try:
            first = await asyncio.wait_for(anext(aiter(incoming)), REGISTER_LIMIT_S)
        except (asyncio.TimeoutError, StopAsyncIteration):
            logger.info("a stream from %s ended before it had said who it is", context.peer())
            return
        if first.WhichOneof("kind") != "register":
            yield pb.ToAgent(refused=pb.Refused(reason="the first message must be Register"))
            return
        link = Link(first.register)
        reason = self._agents.came(link)
        if reason is not None:
            yield pb.ToAgent(refused=pb.Refused(reason=reason))
            return
        reader = asyncio.create_task(self._read(link, incoming))
        try:
            while (message := await link.queue.get()) is not None:
                yield message
        finally:
            reader.cancel()
            self._agents.went(link)

    async def _read(self, link: Link, incoming: AsyncIterator[pb.FromAgent]) -> None:
        """Pass on what an agent says until its stream ends, then end ours."""
        try:
            async for message in incoming:
                self._agents.said(link, message)
        except grpc.aio.AioRpcError as error:
            logger.info("stream of %s ended: %s", link.register.container, error.code())
        except Exception:
            logger.exception("a message of %s could not be handled", link.register.container)
            raise
        finally:
            link.close()

    async def _status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        return pb.StatusReply(json=self._clients.status_json(int(request.events_after)))

    async def _kill(self, request: pb.KillRequest, context: Any) -> pb.KillReply:
        self._clients.kill(request.user, request.reason)
        return pb.KillReply()
