"""The server's port: connections of workers, their messages, and replies that have to wait.

A peer is read only while its replies leave: one that asks and does not take the answers is not
read any further, so that what is kept for it has a limit. Its pulls are answered one at a time, as
its socket takes the answers: until then they count as not yet come, also those that have waited for
the gate. Other requests do not wait for answers to be taken, and what was asked before them is
answered before them.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections import deque
from dataclasses import dataclass, field

from yarnps.protocol import wire
from yarnps.protocol.stream import Closed, Lent, Memory, Outbox, Reader, tune
from yarnps.protocol.wire import Message, Op, WireError
from yarnps.server.service import Reply, Service

log = logging.getLogger(__name__)

# Replies and requests that wait for one peer; above it the peer is not read.
REPLIES_LIMIT = 64 << 20

# While the socket has not taken so much, the next pull waits: what is gathered for an answer is
# still in the processor's cache when the system copies it.
_AHEAD_BYTES = 256 << 10

# What wait for the socket, with answers that are long.
_PATIENT = frozenset((int(Op.PULL), int(Op.EXPORT_ROWS)))

# A request that waits costs about so much beside its bytes.
_HELD_BYTES = 1 << 10

# Before its HELLO a peer gets this much memory, and this much time.
STRANGER_BYTES = 64 << 10
STRANGER_S = 30.0

# A refused peer may still be sending; its input is dropped for so long, so that the refusal
# reaches it before the connection is reset.
_DRAIN_S = 5.0
_DRAIN_BYTES = 1 << 20

_BACKLOG = 1024
_READ = select.EPOLLIN | select.EPOLLRDHUP


@dataclass(eq=False)
class _Peer:
    name: bytes
    sock: socket.socket
    reader: Reader
    deadline: float  # of its HELLO; when refused, of the rest of its input
    outbox: Outbox = field(default_factory=Outbox)
    held: deque[Message] = field(default_factory=deque)  # requests that wait, in order
    held_bytes: int = 0
    impatient: int = 0  # those that wait behind others only
    known: bool = False
    refused: bool = False
    touched: bool = False
    events: int = _READ

    def hold(self, message: Message) -> None:
        """Let a request wait."""
        self.held.append(message)
        self.held_bytes += _held_bytes(message)
        self.impatient += message.header.op not in _PATIENT

    def release(self) -> Message:
        """The request that has waited for the longest time."""
        message = self.held.popleft()
        self.held_bytes -= _held_bytes(message)
        self.impatient -= message.header.op not in _PATIENT
        return message


def _held_bytes(message: Message) -> int:
    return _HELD_BYTES + wire.sections_length(message.header)


class Port:
    """Listens on an address, and brings a service the messages of all that connect."""

    def __init__(self, service: Service) -> None:
        self._service = service
        service.hand_on = self.hand_on
        self._epoll = select.epoll()
        self._memory = Memory()
        self._peers: dict[bytes, _Peer] = {}
        self._by_fd: dict[int, _Peer] = {}
        self._touched: list[_Peer] = []  # those with new replies
        self._listener: socket.socket | None = None
        self._count = 0

    def watch(self, fd: int) -> None:
        """Let `wait` also return for another file that can be read."""
        self._epoll.register(fd, select.EPOLLIN)

    def listen(self, ip: str) -> str:
        """Bind a free port of an address, or ``ipc://path``; returns the endpoint."""
        if ip.startswith("ipc://"):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(ip.removeprefix("ipc://"))
            endpoint = ip
        else:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.bind((ip, 0))
            host = f"[{ip}]" if ":" in ip else ip
            endpoint = f"tcp://{host}:{listener.getsockname()[1]}"
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        self._listener = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        return endpoint

    def close(self) -> None:
        for peer in list(self._peers.values()):
            self._drop(peer, "this server ends")
        if self._listener is not None:
            self._listener.close()
        self._epoll.close()

    @property
    def peers(self) -> int:
        return len(self._peers)

    # ------------------------------------------------------------------ the loop

    def wait(self, seconds: float) -> list[int]:
        """Serve what has come within `seconds`; returns the watched files that can be read."""
        others = []
        now = 0.0
        for fd, events in self._epoll.poll(seconds):
            peer = self._by_fd.get(fd)
            if peer is not None:
                now = now or time.monotonic()
                self._serve(peer, events, now)
            elif self._listener is not None and fd == self._listener.fileno():
                self._accept(time.monotonic())
            else:
                others.append(fd)
        self.flush()
        return others

    def send(self, reply: Reply) -> None:
        """Leave a reply for its peer; `flush` sends it. Nobody there any more: nothing is sent."""
        peer = self._peers.get(reply.peer)
        if peer is not None:
            self._touch(peer)
            peer.outbox.add(reply.frames)
            if isinstance(reply.frames, Lent):
                self._send_lent(peer, len(reply.frames))

    def hand_on(self, name: bytes, message: Message) -> bool:
        """Take a pull that the gate has let through: from now on it waits for its peer's socket."""
        peer = self._peers.get(name)
        if peer is None:
            return False
        self._touch(peer)
        peer.hold(message)
        return True

    def _touch(self, peer: _Peer) -> None:
        """Look after it with the next `flush`."""
        if not peer.touched:
            peer.touched = True
            self._touched.append(peer)

    def _send_lent(self, peer: _Peer, count: int) -> None:
        """Offer buffers that are a table's to the socket before the table changes."""
        try:
            peer.outbox.flush(peer.sock)
        except Closed:
            peer.outbox.clear()  # whoever reads from it next finds out
        peer.outbox.own(count)

    def flush(self) -> None:
        """Send the replies of this round: all of a peer's in one go."""
        while self._touched:  # who goes on may have answers for others
            touched, self._touched = self._touched, []
            for peer in touched:
                peer.touched = False
                if peer.name in self._peers:
                    self._push_out(peer)

    def expire(self, now: float) -> None:
        """Drop those who have not said HELLO in time."""
        for peer in list(self._peers.values()):
            if not peer.known and now >= peer.deadline:
                self._drop(peer, "it has not said HELLO")

    # ------------------------------------------------------------------ peers

    def _accept(self, now: float) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # out of files, or it has left already
                log.warning("a connection could not be taken: %s", error)
                return
            tune(sock)
            self._count += 1
            name = b"%d" % self._count
            peer = _Peer(name, sock, Reader(self._memory, STRANGER_BYTES), now + STRANGER_S)
            self._peers[name] = self._by_fd[sock.fileno()] = peer
            self._epoll.register(sock.fileno(), _READ)

    def _serve(self, peer: _Peer, events: int, now: float) -> None:
        try:
            if events & select.EPOLLOUT:
                peer.outbox.flush(peer.sock)
                self._go_on(peer, now)
                self._set_events(peer)
            if events & ~select.EPOLLOUT:
                self._read(peer, now)
                if peer.held:  # perhaps nothing is sent, which would look at the limit
                    self._set_events(peer)
        except Closed as closed:
            self._drop(peer, str(closed))

    def _read(self, peer: _Peer, now: float) -> None:
        if peer.refused:
            self._drain(peer, now)
            return
        try:
            for message in peer.reader.read(peer.sock):
                if peer.held or peer.outbox.nbytes > _AHEAD_BYTES:
                    peer.hold(message)
                    self._go_on(peer, now)
                else:
                    self._answer(peer, message, now)
        except WireError as error:
            self.send(self._service.refusal(peer.name, error))
            peer.refused, peer.known, peer.deadline = True, False, now + _DRAIN_S

    def _answer(self, peer: _Peer, message: Message, now: float) -> None:
        for reply in self._service.answer(peer.name, message, now):
            self.send(reply)
        if not peer.known and not peer.refused and self._service.knows(peer.name):
            peer.known = True
            peer.reader.limit = wire.MESSAGE_LIMIT

    def _go_on(self, peer: _Peer, now: float) -> None:
        """Answer what waits. What still does so afterwards has filled the socket, and goes on when
        that can be written to."""
        while peer.held:
            limit = REPLIES_LIMIT if peer.impatient else _AHEAD_BYTES
            if peer.outbox.nbytes > limit:
                peer.outbox.flush(peer.sock)
                if peer.outbox.nbytes > limit:
                    return
            self._answer(peer, peer.release(), now)

    def _drain(self, peer: _Peer, now: float) -> None:
        try:
            if not peer.sock.recv(_DRAIN_BYTES) or now >= peer.deadline:
                raise Closed("it was refused")
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed(str(error)) from error

    def _push_out(self, peer: _Peer) -> None:
        try:
            if peer.held:
                self._go_on(peer, time.monotonic())
            if not peer.held:
                peer.outbox.flush(peer.sock)
            if peer.refused and not peer.outbox:
                peer.sock.shutdown(socket.SHUT_WR)
        except (Closed, OSError) as closed:
            self._drop(peer, str(closed))
            return
        self._set_events(peer)

    def _set_events(self, peer: _Peer) -> None:
        events = 0 if peer.outbox.nbytes + peer.held_bytes > REPLIES_LIMIT else _READ
        if peer.outbox:
            events |= select.EPOLLOUT
        if events != peer.events:
            peer.events = events
            self._epoll.modify(peer.sock.fileno(), events)

    def _drop(self, peer: _Peer, why: str) -> None:
        if self._peers.pop(peer.name, None) is None:
            return
        log.debug("peer %s is gone: %s", os.fsdecode(peer.name), why)
        del self._by_fd[peer.sock.fileno()]
        self._epoll.unregister(peer.sock.fileno())
        peer.outbox.clear()
        peer.held.clear()
        peer.sock.close()
        self._service.forget(peer.name)
