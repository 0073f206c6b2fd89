"""Reading and writing ps-lite's messages: the head of each, which is all a scheduler ever sees."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from yarnps.pslite import wire_pb2 as pb

SCHEDULER_ID = 1
SCHEDULER_NAME = b"ps1"

# Groups are sums of these three.
SCHEDULER_GROUP, SERVER_GROUP, WORKER_GROUP = 1, 2, 4
EVERYONE = SCHEDULER_GROUP + SERVER_GROUP + WORKER_GROUP

_UNKNOWN = 2**31 - 1  # what ps-lite writes, or computes with, where a number is not known
_SCHEDULER_ROLE = 2
_ROLES = {"server": 0, "worker": 1}


class Command(IntEnum):
    """What a control message is about."""

    EMPTY = 0
    TERMINATE = 1
    ADD_NODE = 2
    BARRIER = 3
    ACK = 4
    HEARTBEAT = 5


_BARRIER = int(Command.BARRIER)


class Seat(NamedTuple):
    """A place in the job that a process takes; after its death the next one takes it."""

    role: str  # "server" or "worker"
    rank: int

    @property
    def id(self) -> int:
        """Its node id."""
        return 8 + 2 * self.rank + _ROLES[self.role]

    @property
    def name(self) -> bytes:
        """The zmq identity of a node that knows its id."""
        return b"ps%d" % self.id

    def __str__(self) -> str:
        return f"{self.role} {self.rank}"


# Where nodes speak once they know each other: a port of all. See `Scheduler`.
HALL = Seat("hall", 0)


class Address(NamedTuple):
    """Where a node, or the scheduler, listens. `host` is numeric."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Listed(NamedTuple):
    """An entry of the list that every node is sent."""

    seat: Seat
    address: Address
    recovered: bool = False


def parse(message: bytes) -> pb.Meta | None:
    """The head of a message; None when it is none."""
    try:
        return pb.Meta.FromString(message)
    except DecodeError:
        return None


def barrier_asked(message: bytes) -> int:
    """The group at whose barrier the sender of a message waits; 0: it is about something else."""
    try:
        meta = pb.Meta.FromString(message)
    except DecodeError:
        return 0
    control = meta.control
    return control.barrier_group if control.cmd == _BARRIER and meta.request else 0


def is_heartbeat(message: bytes) -> bool:
    """Whether a message changes nothing but the time."""
    meta = parse(message)
    return meta is not None and meta.control.cmd == Command.HEARTBEAT


def role_of(node: pb.Node) -> str:
    """The role that a node says it has."""
    return next((name for name, number in _ROLES.items() if number == node.role), "scheduler")


def node_list(nodes: Iterable[Listed], scheduler: Address, timestamp: int) -> bytes:
    """ADD_NODE as a scheduler sends it: all nodes, and itself where the receiver finds it."""
    control = pb.Control(cmd=Command.ADD_NODE)
    for seat, address, recovered in nodes:
        control.node.add(
            role=_ROLES[seat.role],
            id=seat.id,
            hostname=address.host,
            port=address.port,
            is_recovery=recovered,
            customer_id=0,
        )
    control.node.append(_scheduler_node(scheduler))
    return _packed(pb.Meta(control=control, timestamp=timestamp))


def barrier_over(group: int, timestamp: int) -> bytes:
    """The answer to everyone who has waited at a barrier."""
    control = pb.Control(cmd=Command.BARRIER, barrier_group=group)
    return _packed(pb.Meta(control=control, request=False, app_id=0, timestamp=timestamp))


def heartbeat_answer(scheduler: Address, timestamp: int) -> bytes:
    """The answer to a heartbeat."""
    control = pb.Control(cmd=Command.HEARTBEAT, node=[_scheduler_node(scheduler)])
    return _packed(pb.Meta(control=control, timestamp=timestamp))


def acknowledgement(meta: pb.Meta, sender: int) -> bytes:
    """The answer that a node with PS_RESEND waits for; else it sends `meta` again."""
    app = meta.app_id if meta.HasField("app_id") else _UNKNOWN
    signature = (app & 0xFFFF) << 48 | (sender & 0xFF) << 40 | SCHEDULER_ID << 32
    signature |= (meta.timestamp << 1 & 0xFFFFFFFF) | meta.request
    return _packed(pb.Meta(control=pb.Control(cmd=Command.ACK, msg_sig=signature)))


def _scheduler_node(address: Address) -> pb.Node:
    return pb.Node(
        role=_SCHEDULER_ROLE,
        id=SCHEDULER_ID,
        hostname=address.host,
        port=address.port,
        is_recovery=False,
        customer_id=0,
    )


def _packed(meta: pb.Meta) -> bytes:
    """With the fields that ps-lite always writes."""
    meta.head = 0
    meta.push = meta.simple_app = meta.pull = False
    meta.request = meta.request
    meta.priority = meta.customer_id = meta.data_size = 0
    return meta.SerializeToString()
