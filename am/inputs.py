"""What reaches the state machine of a job, as records that the journal can hold.

`encode` and `decode` turn an input into JSON-ready data and back: protobuf messages as base64 of
their bytes, other records by their fields.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from binascii import b2a_base64
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import Expiry
from yarnps.protocol import control_pb2 as pb


@dataclass(frozen=True)
class Started:
    """The AM has started for the first time in this attempt."""

    nodes: int


@dataclass(frozen=True)
class Listed:
    """The input has been listed.

    `resume`: the cuts of earlier attempts, if there were any. `racks`: node to rack, where there is
    more than one.
    """

    train: tuple[pb.SplitInfo, ...]
    test: tuple[pb.SplitInfo, ...]
    notes: tuple[str, ...] = ()
    resume: dict[str, Any] | None = None
    racks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """Something that concerns the whole job went wrong outside the state machine."""

    cause: str
    text: str
    traceback: str = ""


@dataclass(frozen=True)
class Placed:
    """The cluster has taken a request."""

    nonce: str
    container: str


@dataclass(frozen=True)
class NotPlaced:
    """The cluster has not taken a request."""

    nonce: str
    error: str


@dataclass(frozen=True)
class Changed:
    """A container's state has changed.

    `tail`: its last output, where it could be had; `peak`: the most memory that was seen in it.
    """

    info: ContainerInfo
    tail: str = ""
    peak: int | None = None


@dataclass(frozen=True)
class Reconciled:
    """After a restart of the AM's process: what the cluster has."""

    containers: tuple[ContainerInfo, ...]


@dataclass(frozen=True)
class AgentCame:
    """An agent registers."""

    register: pb.Register


@dataclass(frozen=True)
class AgentSaid:
    """A message of a registered agent, other than a heartbeat. `peak`: of memory, in bytes."""

    container: str
    message: pb.FromAgent
    peak: int | None = None


@dataclass(frozen=True)
class AgentWent:
    """An agent's stream has ended."""

    container: str


@dataclass(frozen=True)
class Expired:
    """A limit of a container has run out. `reason`: why the cluster lets requests wait."""

    expiry: Expiry
    reason: str = ""


@dataclass(frozen=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True)
class ManifestWritten:
    """The manifest of a cut is in place, or could not be written."""

    cut: int
    error: str = ""


@dataclass(frozen=True)
class Published:
    """A model is in place, or could not be put there."""

    kind: str
    path: str
    error: str = ""


@dataclass(frozen=True)
class KillOrdered:
    """Somebody asks to end the job."""

    user: str
    reason: str


@dataclass(frozen=True)
class PortOpened:
    """A port for the next ps-lite node of a rank is open."""

    role: str
    rank: int
    port: int


@dataclass(frozen=True)
class PortLost:
    """The port that a running ps-lite node was told of cannot be opened again."""

    role: str
    rank: int
    error: str


@dataclass(frozen=True)
class TrackerUp:
    """A tracker for XGBoost's workers listens. `pid`, `started`: its process."""

    round: int
    port: int
    pid: int
    started: int


@dataclass(frozen=True)
class TrackerDown:
    """A tracker has ended: well when there is no `error`. `no_package`: there is no XGBoost."""

    round: int
    error: str = ""
    no_package: bool = False


@dataclass(frozen=True)
class NodeSaid:
    """A message has come to the port of a ps-lite node. `sender`: the node's zmq identity."""

    role: str
    rank: int
    sender: bytes
    message: bytes


Input = (
    Started
    | Listed
    | Broken
    | Placed
    | NotPlaced
    | Changed
    | Reconciled
    | AgentCame
    | AgentSaid
    | AgentWent
    | Expired
    | Ticked
    | ManifestWritten
    | Published
    | KillOrdered
    | PortOpened
    | PortLost
    | NodeSaid
    | TrackerUp
    | TrackerDown
)

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Started,
        Listed,
        Broken,
        Placed,
        NotPlaced,
        Changed,
        Reconciled,
        AgentCame,
        AgentSaid,
        AgentWent,
        Expired,
        Ticked,
        ManifestWritten,
        Published,
        KillOrdered,
        PortOpened,
        PortLost,
        NodeSaid,
        TrackerUp,
        TrackerDown,
        ContainerInfo,
        Expiry,
    )
}


def encode(value: Any) -> Any:
    """`value` (an input or a part of one) as JSON-ready data."""
    if isinstance(value, Message):
        data = base64.b64encode(value.SerializeToString()).decode()
        return {"pb": type(value).__name__, "data": data}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Expiry):
        return {"is": "Expiry", **value._asdict()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {"dict": value}  # its keys are others' words, and mean nothing to `decode`
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    return value


def record(event: Input, now: float) -> bytes:
    """A line of the journal: an input and its time.

    What nodes of ps-lite say comes in bursts that somebody waits for the end of, so it is written
    without the general machinery.
    """
    if isinstance(event, NodeSaid):
        return (
            b'{"now":%a,"event":{"is":"NodeSaid","role":"%b","rank":%d,'
            b'"sender":{"bytes":"%b"},"message":{"bytes":"%b"}}}'
        ) % (
            now,
            event.role.encode(),
            event.rank,
            b2a_base64(event.sender, newline=False),
            b2a_base64(event.message, newline=False),
        )
    return json.dumps({"now": now, "event": encode(event)}, separators=(",", ":")).encode()


def decode(data: Any) -> Any:
    """The inverse of `encode`."""
    if not isinstance(data, dict):
        return data
    if "dict" in data:
        return data["dict"]
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "pb" in data:
        return getattr(pb, data["pb"]).FromString(base64.b64decode(data["data"]))
    if "tuple" in data:
        return tuple(decode(item) for item in data["tuple"])
    if "is" in data:
        kind = _KINDS[data["is"]]
        return kind(**{name: decode(v) for name, v in data.items() if name != "is"})
    return data
