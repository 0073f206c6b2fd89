"""What the state machine of a job wants to be done. The shell does it and tells how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yarnps.protocol import control_pb2 as pb
from yarnps.status import Outcome


@dataclass(frozen=True)
class Ask:
    """Request a container; answered by `inputs.Placed` or `inputs.NotPlaced`."""

    role: str
    nonce: str
    env: dict[str, str]
    retry_memory: bool = False


@dataclass(frozen=True)
class GiveBack:
    """Release a container. `polite`: its agent is told to exit first."""

    container: str
    reason: str
    polite: bool = False


@dataclass(frozen=True)
class Tell:
    """Send a message to the agent of a container."""

    container: str
    message: pb.ToAgent


@dataclass(frozen=True)
class Refuse:
    """The registration that was just handed in is refused."""

    reason: str


@dataclass(frozen=True)
class WriteManifest:
    """Write a cut's manifest; answered by `inputs.ManifestWritten`."""

    cut: int
    manifest: dict[str, Any]


@dataclass(frozen=True)
class DeleteCuts:
    """Remove the files of cuts that are no longer needed."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Publish:
    """Put an exported model in its place; answered by `inputs.Published`."""

    kind: str  # "best" or "final"
    source: str  # address of the folder that the servers wrote into
    manifest: dict[str, Any]


@dataclass(frozen=True)
class StartTracker:
    """Start a tracker for XGBoost's workers; answered by `inputs.TrackerUp` or `TrackerDown`.

    `host`: the address that it tells the workers; `limit_s`: how long they may take to come.
    """

    round: int
    workers: int
    host: str
    limit_s: float


@dataclass(frozen=True)
class StopTracker:
    """The tracker is not needed any more."""

    round: int


@dataclass(frozen=True)
class Log:
    """An event for the event log."""

    kind: str
    text: str
    role: str = ""
    rank: int | None = None
    container: str = ""
    incarnation: int | None = None
    node: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpenPort:
    """Listen for the next ps-lite node of a rank, or for all; answered by `inputs.PortOpened`."""

    role: str
    rank: int


@dataclass(frozen=True)
class ClosePort:
    """A ps-lite node is gone: neither listen nor send to it any more."""

    role: str
    rank: int


class SendNode(NamedTuple):
    """Send a message to a ps-lite node, which listens at `host` and `port`."""

    role: str
    rank: int
    host: str
    port: int
    message: bytes


@dataclass(frozen=True)
class End:
    """The job has ended."""

    outcome: Outcome


Action = (
    Ask
    | GiveBack
    | Tell
    | Refuse
    | WriteManifest
    | DeleteCuts
    | Publish
    | OpenPort
    | ClosePort
    | SendNode
    | StartTracker
    | StopTracker
    | Log
    | End
)


def tell_role(container: str, process: int, message: pb.ToRole) -> Tell:
    """A message to a role process."""
    return Tell(container, pb.ToAgent(role=pb.ToRoleOf(process=process, message=message)))
