"""The scheduler of a ps-lite job as a state machine: ids, barriers, recovery. No I/O, no clock.

What nodes say goes in (`heard`), and so does what only the owner of the processes knows: that a
process is started in a seat (`opened`), and that it has ended (`ended`). What comes out is
`Send`, for the sockets, and the other effects, for whoever runs the job.

Three things are other than in ps-lite's own scheduler, and each was a hang there:

- Barriers are sets of seats, and not counts: a node that restarts or repeats itself counts once,
  and one that has ended well counts as present.
- Deaths are told by the owner of the processes, and not guessed from heartbeats.
- A seat is known by the port that its process was given, and not by its host: so ranks are stable.

A port for each is much to listen on while all are at work. So there is one more, the hall: the list
that makes nodes known to each other names it as the scheduler's address, and from then on they
speak there, by the names that the list gives them. Who comes later, in the place of one that has
died, stays at its own port: in the hall nobody could tell the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from yarnps.pslite import wire
from yarnps.pslite import wire_pb2 as pb
from yarnps.pslite.barriers import Barriers, Over, Passed, Waiting
from yarnps.pslite.node import Node
from yarnps.pslite.wire import HALL, Address, Command, Listed, Seat

# So many refusals are told for one seat; who sends garbage sends a lot of it.
REFUSALS_TOLD = 5


class Send(NamedTuple):
    """A message to the node of a seat."""

    seat: Seat
    to: Address
    message: bytes


class Joined(NamedTuple):
    """A node has registered. `again`: in the place of one that died."""

    seat: Seat
    address: Address
    again: bool


class Complete(NamedTuple):
    """All nodes have registered and know each other."""


class Round(NamedTuple):
    """A barrier with nothing out of the ordinary.

    `ports`: on which port (`HALL`, or a seat's own) each node speaks that comes to it, by the
    node's name. `over`: what ends it for all `nodes`.
    """

    ports: dict[bytes, Seat]
    nodes: dict[Seat, Address]
    over: bytes


class Refused(NamedTuple):
    """A message that was not heeded, and why. `seat`: None if it may have been anybody's."""

    seat: Seat | None
    text: str


Effect = Send | Joined | Complete | Passed | Refused


class Scheduler:
    """See the module's text.

    Parameters
    ----------
    workers, servers
        How many there are of each, for the job's life.
    resend
        The nodes run with PS_RESEND: their messages are acknowledged.
    """

    def __init__(self, workers: int, servers: int, *, resend: bool = False) -> None:
        self._resend = resend
        seats = [Seat("server", rank) for rank in range(servers)]
        seats += [Seat("worker", rank) for rank in range(workers)]
        self._nodes = {seat: Node() for seat in seats}
        self._by_name = {seat.name: seat for seat in seats}
        self._hall: int | None = None  # its port
        self._strangers = 0  # refusals in the hall
        self._barriers = Barriers(seats)
        self._timestamp = 0
        self._rounds: dict[int, Round] = {}  # of groups, while nothing is out of the ordinary
        self.complete = False

    # ------------------------------------------------------------ what the owner tells

    def hall_opened(self, port: int) -> None:
        """There is a port for all; before anybody is sent the list."""
        self._hall = port

    def hall_lost(self) -> list[Seat]:
        """The port for all is lost; who speaks there, and will be heard no more."""
        if self.complete:
            return [seat for role in ("server", "worker") for seat in self.at_work(role)]
        self._hall = None  # nobody has been told of it: they stay at their own
        return []

    def opened(self, seat: Seat, here: Address, host: str = "") -> None:
        """A process is started for `seat`; it finds the scheduler `here`.

        Parameters
        ----------
        host
            The only address that it may have; empty: any.
        """
        old = self._nodes[seat]
        self._rounds.clear()
        self._barriers.leave(seat)
        # Before its first barrier of everyone it is as good as new. MXNet's workers wait for one
        # another once more, when they make their first key, and one that is told that it is a
        # recovery leaves that out: so it is one only when it has been there before.
        again = self.complete and (old.everyone > 0 or old.again)
        recovered = again and (old.workers > 0 or old.recovered)
        self._nodes[seat] = Node(
            here, host, apart=self.complete, again=again, recovered=recovered, alone=again
        )

    def ended(self, seat: Seat, *, well: bool, now: float) -> list[Effect]:
        """The process of `seat` has ended; `well`: with success, so that it is not to come back."""
        node = self._nodes[seat]
        self._rounds.clear()
        if well:
            node.ended_well = True
            return self._told(self._barriers.ended_well(seat))
        node.here = node.address = None
        self._barriers.leave(seat)
        return []

    def resumed(self) -> list[Effect]:
        """The scheduler's process is back: what it sent last may not have arrived.

        Who has not said anything since it registered may still wait for the list. Twice the same
        does no harm. The end of a barrier is not told again: that would let a node through the
        next one.
        """
        if not self.complete:
            return []
        return [
            self._send_list(seat, self._nodes)
            for seat, node in self._nodes.items()
            if node.address is not None and not node.ended_well and not node.seen
        ]

    # ------------------------------------------------------------ what the nodes say

    def heard(self, seat: Seat, sender: bytes, message: bytes, now: float) -> list[Effect]:
        """A message has come to the port of `seat`, or of all; `sender` is its zmq identity.

        Of a connection that was not ZeroMQ's, both are empty.
        """
        if seat == HALL:
            known = self._by_name.get(sender)
            if known is None:
                return self._refuse_stranger(sender, message)
            if self._nodes[known].apart:
                return self._refuse(known, "an earlier process of it has spoken on the port of all")
            seat = known
        meta = wire.parse(message)
        if meta is None or not meta.HasField("control"):
            what = repr(message[:40]) if message else "nothing that ZeroMQ can read"
            return self._refuse(seat, f"what came to its port is no message of ps-lite: {what}")
        control = meta.control
        command = control.cmd
        if command == Command.ADD_NODE:
            self._rounds.clear()
            return self._register(seat, meta)
        if sender != seat.name:
            return self._refuse(seat, f"a node that calls itself {sender!r} has spoken on its port")
        node = self._nodes[seat]
        if node.address is None or node.here is None:
            return self._refuse(seat, "it has spoken before it registered")
        out: list[Effect] = []
        if self._resend and command != Command.ACK:
            out.append(Send(seat, node.address, wire.acknowledgement(meta, seat.id)))
        if command == Command.HEARTBEAT:
            answer = wire.heartbeat_answer(self._here(node), self._next_timestamp())
            return [*out, Send(seat, node.address, answer)]
        if command == Command.BARRIER and meta.request and node.is_new(meta.timestamp):
            self._rounds.pop(control.barrier_group, None)
            out += self._at_barrier(seat, control.barrier_group, now)
        return out

    def _register(self, seat: Seat, meta: pb.Meta) -> list[Effect]:
        node = self._nodes[seat]
        said = meta.control.node[0] if meta.control.node else pb.Node()
        address = Address(said.hostname, said.port)
        reason = self._objection(seat, node, said, address)
        if reason:
            return self._refuse(seat, reason)
        if node.address is not None:
            # A second customer of the process (MXNet: another KVStore) needs no answer.
            return [] if said.customer_id else self._refuse(seat, f"{address} has registered again")
        node.address = address
        out: list[Effect] = [Joined(seat, address, node.again)]
        if self.complete:
            return out + self._introduce(seat)
        if all(other.address is not None for other in self._nodes.values()):
            self.complete = True
            out += [self._send_list(other, self._nodes) for other in self._nodes]
            out.append(Complete())
        return out

    def _objection(self, seat: Seat, node: Node, said: pb.Node, address: Address) -> str:
        """Why a registration is not that of the seat's own process; empty: it is."""
        role = wire.role_of(said)
        if node.here is None:
            return f"{address} has registered as a {role}, and no process of this job runs there"
        if role != seat.role:
            return f"{address} has registered as a {role} on the port of a {seat.role}"
        if node.host and address.host != node.host:
            return f"{address} has registered, and this job's process is on {node.host}"
        if node.address not in (None, address):
            return f"{address} has registered, and {node.address} has that place already"
        taken = [other for other, n in self._nodes.items() if n.address == address]
        if taken and taken != [seat]:
            return f"{address} has registered, and is {taken[0]} already"
        return ""

    def _introduce(self, seat: Seat) -> list[Effect]:
        """One that comes back is sent the list, and the others are told of it."""
        out: list[Effect] = [self._send_list(seat, self._nodes)]
        for other, node in self._nodes.items():
            if other != seat and node.address is not None and not node.ended_well:
                out.append(self._send_list(other, [seat], recovered=True))
        return out

    def _send_list(self, to: Seat, seats: Collection[Seat], *, recovered: bool = False) -> Send:
        receiver = self._nodes[to]
        assert receiver.address is not None
        listed = [
            Listed(seat, node.address, node.recovered or recovered)
            for seat in seats
            if (node := self._nodes[seat]).address is not None
        ]
        message = wire.node_list(listed, self._here(receiver), self._next_timestamp())
        return Send(to, receiver.address, message)

    def _here(self, node: Node) -> Address:
        """Where a node that has the list finds the scheduler."""
        assert node.here is not None
        if self._hall is None or node.apart:
            return node.here
        return node.here._replace(port=self._hall)

    def _port_of(self, seat: Seat) -> Seat:
        """The port on which a node that has the list speaks."""
        return seat if self._hall is None or self._nodes[seat].apart else HALL

    # ------------------------------------------------------------ barriers

    def round(self, group: int) -> Round | None:
        """What the next barrier of a group is, if all who are in it come with nothing in between.

        It leaves no trace: nobody waits before it, and nobody after it. So whoever has got the
        words of all its nodes can end it, and has no need to tell. None: every word is to be
        `heard`, for somebody waits there, has come, has gone or has ended since the group's last
        barrier, or it is never usual. May be asked in any thread.
        """
        return self._rounds.get(group)

    def _find_round(self, group: int) -> None:
        """A barrier of the group has just ended, and the next one may be like it.

        One of everyone is the start or the end of programs. With resending, words may come twice.
        """
        seats = self._barriers.members(group)
        gone = any(self._nodes[seat].ended_well for seat in seats)
        if group != wire.EVERYONE and not self._resend and not gone:
            self._rounds[group] = self._round_of(seats, group)

    def _round_of(self, seats: Iterable[Seat], group: int) -> Round:
        ports = {seat.name: self._port_of(seat) for seat in seats}
        nodes = {seat: n.address for seat in seats if (n := self._nodes[seat]).address}
        return Round(ports, nodes, wire.barrier_over(group, self._timestamp))

    def _at_barrier(self, seat: Seat, group: int, now: float) -> list[Effect]:
        if seat not in self._barriers.members(group):
            return self._refuse(seat, f"it waits at a barrier of group {group}, and is not in it")
        node = self._nodes[seat]
        if group == wire.EVERYONE and node.alone:
            # The one of its start, which the others have passed long ago; or that of its end,
            # which it may leave first.
            node.alone = False
            node.everyone += 1
            return [self._send(seat, wire.barrier_over(group, self._next_timestamp()))]
        return self._told(self._barriers.come(seat, group, now))

    def _told(self, over: Iterable[Over]) -> list[Effect]:
        """Let those go on whose barriers are over."""
        out: list[Effect] = []
        for passed, present in over:
            message = wire.barrier_over(passed.group, self._next_timestamp())
            out += [self._send(seat, message) for seat in present]
            for seat in present:
                self._nodes[seat].has_passed(passed.group)
            out.append(passed)
            self._find_round(passed.group)
        return out

    def _send(self, seat: Seat, message: bytes) -> Send:
        address = self._nodes[seat].address
        assert address is not None
        return Send(seat, address, message)

    # ------------------------------------------------------------ what it knows

    @property
    def seats(self) -> list[Seat]:
        """All of the job."""
        return list(self._nodes)

    def homes(self) -> list[tuple[Seat, int]]:
        """The ports at which the processes that have been started find the scheduler."""
        nodes = self._nodes.items()
        found = [(s, n.here.port) for s, n in nodes if n.here is not None and not n.ended_well]
        return found if self._hall is None else [(HALL, self._hall), *found]

    def unregistered(self) -> list[Seat]:
        """Whose process has been started and has not registered."""
        nodes = self._nodes.items()
        return [s for s, n in nodes if n.here is not None and n.address is None]

    def at_work(self, role: str) -> list[Seat]:
        """Who has registered and has not ended well."""
        nodes = self._nodes.items()
        return [s for s, n in nodes if s.role == role and n.address and not n.ended_well]

    def has_joined(self, seat: Seat) -> bool:
        """Whether the seat's process has registered."""
        return self._nodes[seat].address is not None

    def may_leave(self, seat: Seat) -> bool:
        """Whether nobody needs the seat's process any more: it has passed the last barrier.

        The first barrier of everyone is that of the start, any later one may be that of the end.
        """
        return self._nodes[seat].everyone >= 2

    def waiting(self) -> list[Waiting]:
        """The barriers that are not over."""
        return self._barriers.waiting()

    def _refuse_stranger(self, sender: bytes, message: bytes) -> list[Effect]:
        what = f"{sender!r} has said {message[:40]!r}" if message else "nothing ZeroMQ can read"
        self._strangers += 1
        if self._strangers > REFUSALS_TOLD:
            return []
        more = " (more of this is not told)" if self._strangers == REFUSALS_TOLD else ""
        return [Refused(None, f"what came to the port of all is of none of them: {what}{more}")]

    def _refuse(self, seat: Seat, text: str) -> list[Effect]:
        node = self._nodes[seat]
        node.refusals += 1
        if node.refusals > REFUSALS_TOLD:
            return []
        if node.refusals == REFUSALS_TOLD:
            text += " (more of this is not told)"
        return [Refused(seat, f"{seat}: {text}")]

    def _next_timestamp(self) -> int:
        self._timestamp += 1
        return self._timestamp

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "nodes": [[*seat, asdict(node)] for seat, node in self._nodes.items()],
            "barriers": self._barriers.snapshot(),
            "timestamp": self._timestamp,
            "hall": self._hall,
            "strangers": self._strangers,
            "complete": self.complete,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over the state of a snapshot."""
        self._nodes = {Seat(role, rank): Node.restored(node) for role, rank, node in data["nodes"]}
        ended_well = [seat for seat, node in self._nodes.items() if node.ended_well]
        self._barriers.restore(data["barriers"], ended_well)
        self._timestamp, self.complete = data["timestamp"], data["complete"]
        self._hall, self._strangers = data["hall"], data["strangers"]
        self._rounds.clear()
