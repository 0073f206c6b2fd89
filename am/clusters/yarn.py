"""YARN, through skein's ApplicationMaster, in whose container this process runs.

skein's client blocks: each call runs in a thread and has a limit of its own, so that nothing hangs
there either. What skein does not tell (nodes, queues, the output of a container) is asked of the
web services of the ResourceManager and the NodeManagers; where those do not answer, for example
behind SPNEGO, it is left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Literal, TypeVar

import skein.core
import skein.exceptions

from yarnps._errors import ClusterError
from yarnps.am.clusters import _yarn_web as web
from yarnps.am.clusters._lost_requests import LostRequests
from yarnps.am.clusters.base import RETRY_SUFFIX, ContainerInfo, ContainerState, FinalState
from yarnps.spec import AWAKE

log = logging.getLogger(__name__)

CALL_LIMIT_S = 10.0
# Above the limit of a call, for the time that a call may wait for a thread.
WAIT_LIMIT_S = 30.0
THREADS = 4
ROUTE = "yarnps"
# The ResourceManager cuts longer diagnostics, at their end.
DIAGNOSTICS_LIMIT = 30_000

_STATES: dict[str, ContainerState] = {
    "WAITING": "requested",
    "REQUESTED": "requested",
    "RUNNING": "running",
    "SUCCEEDED": "ended",
    "FAILED": "ended",
    "KILLED": "ended",
}

_T = TypeVar("_T")
_ApplicationClient: Any = skein.core.ApplicationClient  # untyped


class Client(_ApplicationClient):  # type: ignore[misc]
    """skein's client, with a limit on every call."""

    def _call(self, method: str, req: Any, timeout: float | None = None) -> Any:
        return super()._call(method, req, timeout=timeout or CALL_LIMIT_S)


class YarnCluster:
    """The back end inside of an application of skein."""

    name: Literal["yarn", "local"] = "yarn"
    poll_s = 1.0

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        env = os.environ if env is None else env
        self.application = env.get("SKEIN_APPLICATION_ID", "")
        self.attempt = attempt_of(env.get("CONTAINER_ID", ""))
        self.user = env.get("USER") or env.get("HADOOP_USER_NAME", "")
        self.queue = ""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="yarn")
        self._client: Any = None
        self._web = ""  # of the ResourceManager
        self._services: dict[str, Any] = {}
        self._lost = LostRequests()
        self._awake = True

    async def open(self) -> None:
        def connect() -> tuple[Any, Any, str]:
            client = Client.from_current()
            return client, client.get_specification(), web.base_of(client.ui.address)

        self._client, spec, self._web = await self._do("reach skein's ApplicationMaster", connect)
        self.queue = spec.queue
        self._services = spec.services

    async def _do(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a blocking call in a thread."""
        loop = asyncio.get_running_loop()
        try:  # skein's own time-out is a TimeoutError, too: it comes first
            return await asyncio.wait_for(loop.run_in_executor(self._threads, call), WAIT_LIMIT_S)
        except (skein.exceptions.SkeinError, ValueError, KeyError) as e:
            raise ClusterError(f"YARN could not {what}: {e}") from e
        except asyncio.TimeoutError:
            raise ClusterError(f"no answer from YARN in {WAIT_LIMIT_S:.0f} s: {what}") from None

    # ------------------------------------------------------------------ containers

    async def request(
        self, role: str, env: Mapping[str, str], *, retry_memory: bool = False
    ) -> str:
        service = role + RETRY_SUFFIX if retry_memory else role
        container = await self._do(
            f"request a container of {service}",
            lambda: self._client.add_container(service, env=dict(env)),
        )
        if self._awake:
            self._awake = False
            await self._take_back_first()
        return str(container.id)

    async def _take_back_first(self) -> None:
        """Our own request keeps skein awake now; the one of its specification has done its work."""
        try:
            await self.release(f"{AWAKE}_0")
        except ClusterError as error:  # an earlier process of this attempt has done it
            log.info("the first request is gone: %s", error.what)

    async def release(self, container: str) -> None:
        await self._do(f"end {container}", lambda: self._client.kill_container(container))

    async def containers(self) -> list[ContainerInfo]:
        found = await self._do(
            "list containers", lambda: self._client.get_containers(states=list(_STATES))
        )
        infos = [self._info(c) for c in found if c.service_name != AWAKE]
        await self._ask_again([info.id for info in infos if info.state == "requested"])
        return infos

    async def _ask_again(self, requested: list[str]) -> None:
        """Take back the requests that skein has lost; see `_lost_requests`."""
        now = time.monotonic()
        if not self._lost.suspects(requested, now):
            return
        pending = await self._do(
            "ask for pending requests", lambda: web.pending(self._web, self.application)
        )
        for container in self._lost.lost(pending, now):
            log.warning("the request for %s has been lost: it is taken back", container)
            await self.release(container)

    def _info(self, container: Any) -> ContainerInfo:
        address = container.yarn_node_http_address
        yarn_id = container.yarn_container_id
        scheme = self._web.partition(":")[0]
        url = f"{scheme}://{address}/node/containerlogs/{yarn_id}/{self.user}"
        return ContainerInfo(
            id=container.id,
            role=container.service_name.removesuffix(RETRY_SUFFIX),
            state=_STATES[str(container.state)],
            node=address.rpartition(":")[0],
            yarn_id=yarn_id,
            exit_message=container.exit_message,
            started=_seconds(container.start_time),
            ended=_seconds(container.finish_time),
            log_url=url if yarn_id else "",
        )

    async def output(self, container: str) -> str:
        infos = {c.id: c for c in await self.containers()}
        if container not in infos or not infos[container].yarn_id:
            return ""
        info = infos[container]
        # skein names the output of a service's script after the service.
        service = container.rpartition("_")[0]
        node = info.log_url.partition("/node/")[0]
        return await self._do(
            f"read the output of {container}",
            lambda: web.container_log(node, info.yarn_id, f"{service}.log"),
        )

    # ------------------------------------------------------------------ the cluster

    async def nodes(self) -> dict[str, str]:
        return await self._do("list nodes", lambda: web.nodes(self._web))

    async def waiting_reason(self) -> str:
        pending = [c.id.rpartition("_")[0] for c in await self.containers() if not c.node]
        asked = ", ".join(
            f"{pending.count(service)} x {service} ({self._size(service)})"
            for service in sorted(set(pending))
        )
        state = await self._do(
            "ask for the queue's state", lambda: web.queue_state(self._web, self.queue)
        )
        return "; ".join(part for part in (f"asked for: {asked}" if asked else "", state) if part)

    def _size(self, service: str) -> str:
        resources = self._services[service].resources
        return f"{resources.memory} MiB, {resources.vcores} vcores"

    # ------------------------------------------------------------------ the application

    async def set_progress(self, fraction: float) -> None:
        value = min(1.0, max(0.0, fraction))
        await self._do("set the progress", lambda: self._client.set_progress(value))

    async def publish(self, key: str, value: str) -> None:
        def put() -> None:
            self._client.kv[key] = value.encode()

        await self._do(f"publish {key}", put)

    async def add_page(self, port: int, prefix: str) -> str:
        def add() -> str:
            # An earlier process of this attempt may have added it, with another port.
            if ROUTE in self._client.ui.get_pages():
                self._client.ui.remove_page(ROUTE)
            target = f"http://127.0.0.1:{port}/{prefix}/"
            return str(self._client.ui.add_page(ROUTE, target, link_name=ROUTE).address)

        return await self._do("add the web page", add)

    async def finish(self, state: FinalState, diagnostics: str) -> None:
        text = diagnostics[:DIAGNOSTICS_LIMIT]
        await self._do("end the application", lambda: self._client.shutdown(state, text))

    async def close(self) -> None:
        if self._client is not None:
            await self._do("close the connection", self._client.close)
        self._threads.shutdown(wait=False, cancel_futures=True)


def attempt_of(container_id: str) -> int:
    """The attempt in a YARN container id (``container_[e17_]1700000000000_0001_02_000001``)."""
    parts = container_id.split("_")
    return int(parts[-2]) if len(parts) >= 5 else 1


def _seconds(at: datetime | None) -> float | None:
    """skein's times are local times without a zone."""
    return None if at is None else at.timestamp()
