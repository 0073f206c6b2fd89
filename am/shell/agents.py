"""The agents' streams: who is connected, what they say, and what they are told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Refuse
from yarnps.am.resources.members import Members
from yarnps.am.shell.service import Link
from yarnps.am.shell.telemetry import Telemetry
from yarnps.protocol import control_pb2 as pb

logger = logging.getLogger(__name__)


class Agents:
    """Hands what agents say to the state machine, and messages to their links.

    Parameters
    ----------
    heartbeat_s
        The period of their heartbeats, which the answer to each tells again.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        heartbeat_s: float,
        *,
        feed: Callable[[i.Input], list[Action]],
        members: Callable[[], Members],
    ) -> None:
        self._telemetry = telemetry
        self._period = pb.ToAgent(period=pb.HeartbeatPeriod(seconds=heartbeat_s))
        self._feed = feed
        self._members = members
        self._links: dict[str, Link] = {}

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, container: str) -> bool:
        return container in self._links

    def tell(self, container: str, message: pb.ToAgent) -> None:
        """Send a message to the agent of a container, if it is connected."""
        link = self._links.get(container)
        if link is None:
            return  # it says hello again when it is back
        if not link.send(message):
            logger.warning("%s does not take its messages; its stream is cut", container)
            link.close()

    # ------------------------------------------------------------ what the service calls

    def came(self, link: Link) -> str | None:
        """A registration; returns the reason of a refusal, or None."""
        container = link.register.container
        old = self._links.get(container)
        self._links[container] = link
        actions = self._feed(i.AgentCame(link.register))
        refusal = next((a.reason for a in actions if isinstance(a, Refuse)), None)
        if refusal is None:
            if old is not None:
                old.close()
            return None
        if old is not None:
            self._links[container] = old
        else:
            del self._links[container]
        return refusal

    def said(self, link: Link, message: pb.FromAgent) -> None:
        """A further message of a registered agent."""
        container, now = link.register.container, time.time()
        if self._links.get(container) is not link:
            return
        kind = message.WhichOneof("kind")
        if kind == "heartbeat":
            self._members().heard(container, now, message.heartbeat)
            # An agent that hears nothing for long takes this process for gone.
            link.send(self._period)
            return
        self._members().heard(container, now)
        if kind == "role":
            self._telemetry.spoke(message.role.incarnation.id, now)
            if message.role.message.HasField("stats"):
                self._telemetry.stats(message.role.incarnation.id, message.role.message.stats)
        peak = self._members().peak_of(container) if kind == "role_exited" else None
        self._feed(i.AgentSaid(container, message, peak))

    def went(self, link: Link) -> None:
        """The stream has ended."""
        container = link.register.container
        if self._links.get(container) is link:
            del self._links[container]
            self._feed(i.AgentWent(container))
