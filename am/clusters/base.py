"""What the ApplicationMaster asks of a cluster: one interface, several back ends.

Everything here is asynchronous and returns soon: a back end does its blocking work in threads and
gives every call a limit, so that the ApplicationMaster's loop never waits for a cluster that hangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

ContainerState = Literal["requested", "running", "ended"]
FinalState = Literal["SUCCEEDED", "FAILED", "KILLED"]

# Under this key the ApplicationMaster publishes "host:port" of its control service; an agent that
# has lost it asks for this key.
AM_KEY = "yarnps.am"

# A role's second service, with more memory, for a container that died of the memory limit.
RETRY_SUFFIX = "-retry"


@dataclass(frozen=True)
class ContainerInfo:
    """What a cluster knows about one container.

    Attributes
    ----------
    id
        The name that `request` returned, such as ``worker_3``; never used twice in an attempt.
    role
        ``server`` or ``worker``, also for a container of the role's retry service; the name of
        the service for others.
    node
        Name of its node; empty as long as it is only requested.
    yarn_id
        YARN's own id (``container_…``); locally the same as `id`.
    exit_message
        The cluster's words about its end, verbatim: skein's sentence, or what YARN says. For a
        positive exit status on YARN that is no more than "failed".
    started, ended
        Seconds since the epoch.
    """

    id: str
    role: str
    state: ContainerState
    node: str = ""
    yarn_id: str = ""
    exit_message: str = ""
    started: float | None = None
    ended: float | None = None
    log_url: str = ""


class Cluster(Protocol):
    """A place that containers can be had from. Failed calls raise ``ClusterError``."""

    name: Literal["yarn", "local"]
    application: str
    attempt: int
    user: str
    queue: str
    poll_s: float
    """How often asking for `containers` is worth it."""

    async def open(self) -> None:
        """Connect, and find the containers that an earlier ApplicationMaster process had."""

    async def request(
        self, role: str, env: Mapping[str, str], *, retry_memory: bool = False
    ) -> str:
        """Ask for one more container of `role`, with `env` on top of the role's own; its id.

        ``YARNPS_CONTAINER`` and, where the back end knows it, ``YARNPS_NODE`` are added by the back
        end or, on YARN, found out by the agent.
        """

    async def release(self, container: str) -> None:
        """End a container (or take the request back). Known and ended already: nothing happens."""

    async def containers(self) -> list[ContainerInfo]:
        """All containers of this attempt, also those that have ended, and of other services."""

    async def output(self, container: str) -> str:
        """The last lines that a container's own script wrote; empty when not to be had.

        For a container that ended before its agent could say why (no interpreter, say).
        """

    async def nodes(self) -> dict[str, str]:
        """The nodes that can run containers, and the rack of each; empty where it is not told."""

    async def waiting_reason(self) -> str:
        """Why requests may be waiting: queue and cluster, used and free. Empty: not known."""

    async def set_progress(self, fraction: float) -> None:
        """Show progress (0 to 1) where the cluster shows such a thing."""

    async def publish(self, key: str, value: str) -> None:
        """Put `value` where agents and clients of this application find it, see `AM_KEY`."""

    async def add_page(self, port: int, prefix: str) -> str:
        """Make ``http://127.0.0.1:<port>/<prefix>/`` reachable; returns the address for people."""

    async def finish(self, state: FinalState, diagnostics: str) -> None:
        """End all containers and the application, for good. The last thing to do.

        On YARN skein kills this process within a tenth of a second: whatever is to be written or
        deleted must be so before.

        On YARN a final failure may start the next attempt of the ApplicationMaster: it is for the
        caller to leave the outcome in the job directory first, and to look for one at its start.
        """

    async def close(self) -> None:
        """Let go of connections and threads; containers run on."""
