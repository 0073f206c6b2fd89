"""What the shell sees of the cluster: containers that change, and why some are waited for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from yarnps._errors import YarnpsError
from yarnps.am import inputs as i
from yarnps.am.clusters.base import Cluster, ContainerInfo
from yarnps.am.resources.members import Members

logger = logging.getLogger(__name__)

# A cluster that does not answer a process that has come back is asked again for so long.
RETURN_LIMIT_S = 120.0
AGAIN_S = 1.0
# A node that is lost does not give the output of its containers, and lets each of them be waited
# for: after this, ends are told without their output.
OUTPUTS_LIMIT_S = 10.0


class Lookout:
    """Looks at the cluster and feeds what has changed.

    A cluster that does not answer is no event: what it has is seen at the next look.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        feed: Callable[[i.Input], object],
        members: Callable[[], Members],
    ) -> None:
        self.waiting_reason = ""
        self._cluster = cluster
        self._feed = feed
        self._members = members
        self._known: dict[str, ContainerInfo] = {}

    async def nodes(self) -> dict[str, str]:
        """The nodes and their racks; empty where the cluster does not tell."""
        try:
            return await self._cluster.nodes()
        except YarnpsError as error:
            logger.warning("the cluster does not tell its nodes: %s", error.what)
            return {}

    async def racks(self) -> dict[str, str]:
        """Node to rack, where there is more than one."""
        nodes = await self.nodes()
        return nodes if len(set(nodes.values())) > 1 else {}

    async def look(self) -> None:
        """Look at the containers; what has changed is an event."""
        try:
            containers = await self._cluster.containers()
        except YarnpsError as error:
            logger.warning("the cluster did not answer: %s", error.what)
            return
        changed = [info for info in containers if self._known.get(info.id) != info]
        self._known.update((info.id, info) for info in changed)
        for info in changed:
            if info.state != "ended":
                self._feed(i.Changed(info))
        deadline = time.monotonic() + OUTPUTS_LIMIT_S
        for info in changed:
            if info.state == "ended":
                tail = await self._output_of(info) if time.monotonic() < deadline else ""
                self._feed(i.Changed(info, tail, self._members().peak_of(info.id)))

    async def look_again(self) -> tuple[ContainerInfo, ...]:
        """All that the cluster has, for a process that has come back.

        Raises
        ------
        YarnpsError
            The cluster has not answered within the limit.
        """
        deadline = time.monotonic() + RETURN_LIMIT_S
        while True:
            held = self._members().containers
            try:
                containers = await self._cluster.containers()
            except YarnpsError as error:
                if time.monotonic() > deadline:
                    raise
                logger.warning("the cluster did not answer, it is asked again: %s", error.what)
                await asyncio.sleep(AGAIN_S)
                continue
            # One that was given to us meanwhile need not be in the answer, and is not gone.
            if self._members().containers <= held:
                break
        self._known = {info.id: info for info in containers}
        return tuple(containers)

    async def ask_reason(self) -> None:
        """Find out why containers are waited for, if any are."""
        if not self._members().missing():
            return
        try:
            self.waiting_reason = await self._cluster.waiting_reason()
        except YarnpsError as error:
            logger.warning("the cluster does not say why it lets us wait: %s", error.what)

    async def show_progress(self, fraction: float) -> None:
        """Show progress (0 to 1) where people look at the cluster."""
        try:
            await self._cluster.set_progress(fraction)
        except YarnpsError as error:
            logger.warning("the cluster did not take the progress: %s", error.what)

    async def _output_of(self, info: ContainerInfo) -> str:
        """The last output of a container that has just ended; empty where it cannot be had."""
        try:
            return await self._cluster.output(info.id)
        except YarnpsError as error:
            logger.warning("no output of %s: %s", info.id, error.what)
            return ""
