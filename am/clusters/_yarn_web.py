"""The web services of YARN's daemons: nodes, queues, the files of a container. All blocking."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

LIMIT_S = 5.0
TAIL_BYTES = 8192

# Nodes are asked directly: a proxy in the environment is for the world outside.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def base_of(page: str) -> str:
    """``http://host:port`` of a page behind the ResourceManager's proxy."""
    return page.partition("/proxy/")[0].rstrip("/")


def nodes(base: str) -> dict[str, str]:
    """The running nodes with their racks; empty when not to be had."""
    found = _get(f"{base}/ws/v1/cluster/nodes?states=RUNNING")
    rows = _at(found, "nodes", "node") or []
    return {str(n["nodeHostName"]): str(n.get("rack", "")) for n in rows}


def queue_state(base: str, queue: str) -> str:
    """What a queue uses and may use, and what the cluster has free, as a sentence."""
    parts = []
    scheduler = _at(_get(f"{base}/ws/v1/cluster/scheduler"), "scheduler", "schedulerInfo")
    found = _find_queue(scheduler or {}, queue)
    if found is not None:
        used, limit = found.get("absoluteUsedCapacity"), found.get("absoluteMaxCapacity")
        if used is not None and limit is not None:
            parts.append(f"queue {queue} uses {used:.0f} % of the cluster (limit {limit:.0f} %)")
    metrics = _at(_get(f"{base}/ws/v1/cluster/metrics"), "clusterMetrics")
    if metrics:
        parts.append(
            f"the cluster has {metrics['availableMB']} of {metrics['totalMB']} MiB and "
            f"{metrics['availableVirtualCores']} of {metrics['totalVirtualCores']} vcores free"
        )
    running = _at(_get(f"{base}/ws/v1/cluster/nodes?states=RUNNING"), "nodes", "node")
    if running:
        most = max(int(n["availMemoryMB"]) for n in running)
        parts.append(f"at most {most} MiB on one node")
    return ", ".join(parts)


def pending(base: str, application: str) -> int | None:
    """How many containers the ResourceManager knows to be asked for; None when it does not tell."""
    app = _at(_get(f"{base}/ws/v1/cluster/apps/{application}"), "app")
    if app is None:
        return None
    return sum(
        int(asked["numContainers"])
        for asked in app.get("resourceRequests") or []
        if asked.get("resourceName") == "*"
    )


def container_log(node: str, container: str, name: str) -> str:
    """The end of a file in a container's log folder; empty when not to be had."""
    url = f"{node}/ws/v1/node/containerlogs/{container}/{name}?size=-{TAIL_BYTES}"
    try:
        with _OPENER.open(url, timeout=LIMIT_S) as reply:
            text = reply.read(64 * TAIL_BYTES).decode(errors="replace")
    except (OSError, urllib.error.URLError, ValueError):
        return ""
    return _without_frame(text)


def _without_frame(text: str) -> str:
    """A log without the header and footer that the NodeManager puts around it."""
    _, mark, rest = text.partition("\nLogContents:\n")
    body = rest if mark else text
    return body.rpartition("\nEnd of LogType:")[0] or body


def _get(url: str) -> Any:
    """The JSON at an address; None when there is none."""
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    try:
        with _OPENER.open(request, timeout=LIMIT_S) as reply:
            return json.load(reply)
    except (OSError, urllib.error.URLError, ValueError):
        return None


def _at(data: Any, *keys: str) -> Any:
    """Where the keys lead to; None where they do not."""
    for key in keys:
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data


def _find_queue(info: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A queue of the capacity scheduler by its name or path, however deep."""
    for queue in _at(info, "queues", "queue") or []:
        if name in (queue.get("queueName"), queue.get("queuePath")):
            return dict(queue)
        found = _find_queue(queue, name)
        if found is not None:
            return found
    return None
