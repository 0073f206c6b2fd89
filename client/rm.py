"""The resource manager (RM) and node managers through their web services: quick, and no Java.

On a cluster with Kerberos these services may refuse us (SPNEGO); then `RmRefused` is raised and the
caller falls back to skein's driver.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yarnps._errors import ClusterError
from yarnps.client.hadoop_conf import HadoopConf

LIMIT_S = 10.0
TAG = "yarnps"
ACTIVE = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
MIB = 1 << 20

# Proxies are for the world outside, never for the cluster's own services.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RmRefused(ClusterError):
    """The web service wants a login that we do not have."""


@dataclass(frozen=True)
class Report:
    """The RM's view of one application."""

    application: str
    name: str
    user: str
    queue: str
    state: str
    final_status: str
    diagnostics: str
    progress: float  # 0 to 1
    started: float | None
    finished: float | None
    url: str = ""
    containers: int = 0
    memory: int = 0  # bytes allocated
    vcores: int = 0
    tags: tuple[str, ...] = ()
    memory_seconds: float = 0.0  # bytes x seconds, of all its containers till now
    vcore_seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether the RM is through with it."""
        return self.state in ("FINISHED", "FAILED", "KILLED")


@dataclass(frozen=True)
class Queue:
    """What a queue has and gives. Numbers are None where the scheduler does not tell."""

    name: str
    state: str
    used_memory: int | None = None
    max_memory: int | None = None
    used_percent: float | None = None
    max_percent: float | None = None
    am_used_memory: int | None = None
    am_limit_memory: int | None = None
    pending_applications: int | None = None


@dataclass(frozen=True)
class Node:
    """One node manager."""

    id: str
    web: str
    state: str
    memory: int
    vcores: int
    free_memory: int
    free_vcores: int


@dataclass(frozen=True)
class Limits:
    """What one container may ask for."""

    max_memory: int
    max_vcores: int


def get_json(url: str, limit_s: float = LIMIT_S) -> Any:
    """The parsed JSON behind `url`."""
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with _opener.open(request, timeout=limit_s) as reply:
        return json.loads(reply.read())


def get_text(url: str, limit_s: float = LIMIT_S) -> str:
    """The text behind `url`."""
    with _opener.open(url, timeout=limit_s) as reply:
        return str(reply.read().decode(errors="replace"))


class ResourceManager:
    """Asks whichever RM is active.

    Parameters
    ----------
    addresses
        Base addresses of the RMs' web services.
    """

    def __init__(self, addresses: Sequence[str], limit_s: float = LIMIT_S) -> None:
        self.addresses = list(addresses)
        self._limit_s = limit_s

    @classmethod
    def of(cls, conf: HadoopConf) -> ResourceManager:
        """The one that the configuration names."""
        return cls(conf.rm_web())

    def get(self, path: str) -> Any:
        """``/ws/v1/cluster/<path>``.

        Raises
        ------
        ClusterError
            No RM answers.
        RmRefused
            It wants a login.
        KeyError
            There is no such thing (404).
        """
        reasons = []
        for index, address in enumerate(self.addresses):
            try:
                answer = get_json(f"{address}/ws/v1/cluster/{path}", self._limit_s)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403):
                    raise RmRefused(
                        f"the resource manager's web service refuses us: {address} ({error.code})",
                        "Get a Kerberos ticket with kinit.",
                    ) from error
                if error.code == 404:
                    raise KeyError(path) from error
                reasons.append(f"{address}: {error}")
            except (OSError, ValueError) as error:  # a standby answers with plain text
                reasons.append(f"{address}: {getattr(error, 'reason', error)}")
            else:
                # The active one is asked first from now on.
                self.addresses.insert(0, self.addresses.pop(index))
                return answer
        raise ClusterError(
            "the resource manager cannot be reached: " + "; ".join(reasons or ["no address known"]),
            "Look whether YARN is up and HADOOP_CONF_DIR is this cluster's: yarnps doctor.",
        )

    def application(self, application: str) -> Report:
        """One application; KeyError when the RM does not know it."""
        return _report(self.get(f"apps/{application}")["app"])

    def applications(self, *, all_states: bool = False, user: str | None = None) -> list[Report]:
        """The applications that carry our tag, oldest first."""
        query = f"applicationTags={TAG}"
        if not all_states:
            query += "&states=" + ",".join(ACTIVE)
        if user:
            query += f"&user={user}"
        found = (self.get(f"apps?{query}").get("apps") or {}).get("app", [])
        return sorted((_report(a) for a in found), key=lambda r: r.application)

    def am_container(self, application: str) -> tuple[str, str]:
        """YARN id and node (host:port of its web service) of the newest AM container."""
        attempts = self.get(f"apps/{application}/appattempts")["appAttempts"]["appAttempt"]
        newest = max(attempts, key=lambda a: int(a["id"]))
        return str(newest.get("containerId", "")), str(newest.get("nodeHttpAddress", ""))

    def nodes(self) -> list[Node]:
        """The nodes that run."""
        found = (self.get("nodes").get("nodes") or {}).get("node", [])
        return [
            Node(
                id=n["id"],
                web=n.get("nodeHTTPAddress", ""),
                state=n["state"],
                memory=(n["usedMemoryMB"] + n["availMemoryMB"]) * MIB,
                vcores=n["usedVirtualCores"] + n["availableVirtualCores"],
                free_memory=n["availMemoryMB"] * MIB,
                free_vcores=n["availableVirtualCores"],
            )
            for n in found
            if n["state"] == "RUNNING"
        ]

    def queues(self) -> list[Queue]:
        """The queues that applications can be put into."""
        return _leaves(self.get("scheduler")["scheduler"]["schedulerInfo"])

    def limits(self, conf: HadoopConf) -> Limits:
        """What one container may have, by the RM where it tells, else by the configuration."""
        info = self.get("scheduler")["scheduler"]["schedulerInfo"]
        most = info.get("maximumAllocation") or {}
        memory = int(most.get("memory") or conf.get("yarn.scheduler.maximum-allocation-mb"))
        vcores = int(most.get("vCores") or conf.get("yarn.scheduler.maximum-allocation-vcores"))
        return Limits(memory * MIB, vcores)


def _report(app: dict[str, Any]) -> Report:
    started, finished = app.get("startedTime") or 0, app.get("finishedTime") or 0
    return Report(
        application=app["id"],
        name=app.get("name", ""),
        user=app.get("user", ""),
        queue=app.get("queue", ""),
        state=app.get("state", ""),
        final_status=app.get("finalStatus", ""),
        diagnostics=(app.get("diagnostics") or "").strip(),
        progress=float(app.get("progress") or 0) / 100,
        started=started / 1000 or None,
        finished=finished / 1000 or None,
        url=app.get("trackingUrl", "") or "",
        containers=max(0, int(app.get("runningContainers") or 0)),
        memory=max(0, int(app.get("allocatedMB") or 0)) * MIB,
        vcores=max(0, int(app.get("allocatedVCores") or 0)),
        tags=tuple(t for t in str(app.get("applicationTags") or "").split(",") if t),
        memory_seconds=float(app.get("memorySeconds") or 0) * MIB,
        vcore_seconds=float(app.get("vcoreSeconds") or 0),
    )


def _leaves(info: dict[str, Any]) -> list[Queue]:
    """Leaf queues below a scheduler info of any of Hadoop's three schedulers."""
    if "rootQueue" in info:
        info = info["rootQueue"]
    below = info.get("queues") or info.get("childQueues") or {}
    children = below.get("queue", []) if isinstance(below, dict) else below
    if children:
        return [leaf for child in children for leaf in _leaves(child)]
    parts = (info.get("capacities") or {}).get("queueCapacitiesByPartition") or [{}]
    largest = (parts[0].get("effectiveMaxResource") or info.get("maxResources") or {}).get("memory")
    used = (info.get("resourcesUsed") or info.get("usedResources") or {}).get("memory")
    am_used, am_limit = (
        (info.get(key) or {}).get("memory") for key in ("usedAMResource", "AMResourceLimit")
    )
    return [
        Queue(
            name=str(info.get("queueName", "")),
            state=str(info.get("state", "RUNNING")),
            used_memory=_bytes(used),
            max_memory=_bytes(largest),
            used_percent=info.get("absoluteUsedCapacity"),
            max_percent=info.get("absoluteMaxCapacity"),
            am_used_memory=_bytes(am_used),
            am_limit_memory=_bytes(am_limit),
            pending_applications=info.get("numPendingApplications"),
        )
    ]


def _bytes(mib: Any) -> int | None:
    return None if mib is None else int(mib) * MIB


def find_queue(queues: Sequence[Queue], name: str) -> Queue | None:
    """The queue with this name; a path such as ``root.a.b`` names its last part."""
    last = name.rsplit(".", 1)[-1]
    return next((q for q in queues if q.name.rsplit(".", 1)[-1] == last), None)
