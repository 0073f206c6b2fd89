"""Whether a daemon does its work yet, asked of its own web service."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple, cast

from yarnps.client.sandbox._daemons import index_of, kind_of
from yarnps.client.sandbox._state import (
    DATANODE,
    MASTER,
    NAMENODE,
    RESOURCEMANAGER,
    Ports,
    node_address,
)

ANSWER_LIMIT_S = 5.0

# A proxy in the environment must not be asked for loopback addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class YarnNode(NamedTuple):
    """A node manager as the resource manager sees it."""

    address: str
    state: str  # RUNNING, LOST, UNHEALTHY, …
    http: str
    memory_mb: int
    memory_used_mb: int
    vcores: int
    vcores_used: int
    containers: int
    updated_ms: int  # last heartbeat, milliseconds since 1970


def get_json(url: str, *, method: str = "GET") -> Any:
    """Return the JSON answer, None where there is none (yet)."""
    request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})
    try:
        with _opener.open(request, timeout=ANSWER_LIMIT_S) as answer:
            return json.load(answer)
    except (OSError, ValueError, http.client.HTTPException):
        return None


def yarn_nodes(ports: Ports) -> list[YarnNode]:
    """Return the nodes that the resource manager knows, none while it does not answer."""
    answer = get_json(f"http://{MASTER}:{ports.rm_http}/ws/v1/cluster/nodes")
    rows = ((answer or {}).get("nodes") or {}).get("node") or []
    return [
        YarnNode(
            address=row["nodeHostName"],
            state=row["state"],
            http=row.get("nodeHTTPAddress", ""),
            memory_mb=row["usedMemoryMB"] + row["availMemoryMB"],
            memory_used_mb=row["usedMemoryMB"],
            vcores=row["usedVirtualCores"] + row["availableVirtualCores"],
            vcores_used=row["usedVirtualCores"],
            containers=row["numContainers"],
            updated_ms=row["lastHealthUpdate"],
        )
        for row in rows
    ]


def is_ready(ports: Ports, daemon: str, *, since_ms: int = 0) -> bool:
    """Whether a daemon works; a node manager must have been heard after `since_ms`."""
    kind = kind_of(daemon)
    if kind == NAMENODE:
        state = _bean(f"{MASTER}:{ports.name_http}", "NameNode,name=FSNamesystemState")
        return bool(state) and state.get("FSState") == "Operational"
    if kind == RESOURCEMANAGER:
        info = get_json(f"http://{MASTER}:{ports.rm_http}/ws/v1/cluster/info")
        return bool(info) and info["clusterInfo"]["state"] == "STARTED"
    address = node_address(index_of(daemon))
    if kind == DATANODE:
        http_port = ports.nodes[index_of(daemon) - 1].data_http
        info = _bean(f"{address}:{http_port}", "DataNode,name=DataNodeInfo")
        actors = json.loads(info.get("BPServiceActorInfo") or "[]")
        return any(actor.get("ActorState") == "RUNNING" for actor in actors) and _heard(
            ports, address
        )
    return any(
        node.address == address and node.state == "RUNNING" and node.updated_ms >= since_ms
        for node in yarn_nodes(ports)
    )


def _heard(ports: Ports, address: str) -> bool:
    info = _bean(f"{MASTER}:{ports.name_http}", "NameNode,name=NameNodeInfo")
    live = json.loads(info.get("LiveNodes") or "{}")
    return any(name.partition(":")[0] == address for name in live)


def _bean(host: str, name: str) -> dict[str, Any]:
    answer = get_json(f"http://{host}/jmx?qry=Hadoop:service={name}")
    beans = (answer or {}).get("beans") or [{}]
    return cast("dict[str, Any]", beans[0])


class HdfsRefused(Exception):
    """The name node did not do what was asked; the message is its own."""


def make_hdfs_folder(ports: Ports, path: str, *, user: str, mode: str) -> None:
    """Make a folder in HDFS through WebHDFS, where it is not there yet."""
    base = f"http://{MASTER}:{ports.name_http}/webhdfs/v1{path}?user.name={user}&permission={mode}"
    for operation in ("MKDIRS", "SETPERMISSION"):  # MKDIRS applies the umask
        request = urllib.request.Request(f"{base}&op={operation}", method="PUT")
        try:
            with _opener.open(request, timeout=4 * ANSWER_LIMIT_S):
                pass
        except urllib.error.HTTPError as error:
            with error:
                answer = error.read().decode(errors="replace")
            raise HdfsRefused(f"{operation} {path}: {answer.strip()}") from None
        except (OSError, http.client.HTTPException) as error:
            raise HdfsRefused(f"{operation} {path}: {error}") from None
