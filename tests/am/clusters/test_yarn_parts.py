"""What of the YARN back end can be tried without YARN; the rest is in tests/yarn."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import skein.model

from yarnps._errors import ClusterError
from yarnps.am.clusters import _yarn_web as web
from yarnps.am.clusters import yarn
from yarnps.am.clusters.yarn import YarnCluster, attempt_of

security_of: Any = skein.model.Security  # untyped


@pytest.mark.parametrize(
    ("container", "attempt"),
    [
        ("container_1796039163225_0001_02_000001", 2),
        ("container_e17_1796039163225_0001_11_000001", 11),
        ("", 1),
    ],
)
def test_attempt(container: str, attempt: int) -> None:
    assert attempt_of(container) == attempt


def test_base_of_a_proxied_page() -> None:
    page = "https://rm.example:8090/proxy/application_1_0001/"
    assert web.base_of(page) == "https://rm.example:8090"


def test_a_log_is_taken_out_of_its_frame() -> None:
    framed = (
        "Container: container_1\nLogType:worker.log\nLogLength:12\n"
        "LogContents:\nfirst\nsecond\nEnd of LogType:worker.log\n****\n"
    )
    assert web._without_frame(framed) == "first\nsecond"
    assert web._without_frame("plain") == "plain"


class ResourceManager(http.server.BaseHTTPRequestHandler):
    """Answers in the form of the ResourceManager's REST API."""

    answers: dict[str, Any]

    def do_GET(self) -> None:
        answer = self.answers.get(self.path)
        self.send_response(200 if answer is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def rm() -> Iterator[str]:
    leaf = {"queueName": "ml", "absoluteUsedCapacity": 61.2, "absoluteMaxCapacity": 80.0}
    parent = {"queueName": "teams", "queues": {"queue": [{"queueName": "web"}, leaf]}}
    node = {"nodeHostName": "node-2", "availMemoryMB": 512, "rack": "/r2"}
    ResourceManager.answers = {
        "/ws/v1/cluster/scheduler": {
            "scheduler": {"schedulerInfo": {"queues": {"queue": [parent]}}}
        },
        "/ws/v1/cluster/metrics": {
            "clusterMetrics": {
                "availableMB": 1000,
                "totalMB": 2000,
                "availableVirtualCores": 3,
                "totalVirtualCores": 4,
            }
        },
        "/ws/v1/cluster/nodes?states=RUNNING": {
            "nodes": {"node": [node, {"nodeHostName": "node-1", "availMemoryMB": 488}]}
        },
    }
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ResourceManager)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_state_of_a_queue_below_another(rm: str) -> None:
    assert web.queue_state(rm, "ml") == (
        "queue ml uses 61 % of the cluster (limit 80 %), "
        "the cluster has 1000 of 2000 MiB and 3 of 4 vcores free, at most 512 MiB on one node"
    )
    assert web.nodes(rm) == {"node-1": "", "node-2": "/r2"}


def test_web_services_that_do_not_answer_are_left_out(rm: str) -> None:
    ResourceManager.answers = {}
    for base in (rm, "http://127.0.0.1:1"):
        assert web.queue_state(base, "ml") == ""
        assert web.nodes(base) == {}
        assert web.container_log(base, "container_1", "worker.log") == ""


# skein asks for grpc's version and for the time in outdated ways.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_call_without_an_answer_has_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with an ApplicationMaster of skein that hangs: connected, and silent."""
    usual_s = yarn.CALL_LIMIT_S
    monkeypatch.setattr(yarn, "CALL_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = YarnCluster({"SKEIN_APPLICATION_ID": "application_1_0001"})
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        security = security_of.new_credentials()
        cluster._client = yarn.Client(address, "application_1_0001", security=security)
        began = time.monotonic()
        with pytest.raises(ClusterError, match="YARN could not list containers"):
            await cluster.containers()
        assert time.monotonic() - began < usual_s
        await cluster.close()
