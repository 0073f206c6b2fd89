"""The resource manager's web service, spoken to over real HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from yarnps._errors import ClusterError
from yarnps.client import hadoop_conf, rm
from yarnps.client.yarn_job import queue_text

GIB = 1 << 30
APP = {
    "id": "application_1_2", "name": "flights", "user": "ada", "queue": "root.default",
    "state": "RUNNING", "finalStatus": "UNDEFINED", "diagnostics": " waits \n", "progress": 25.0,
    "startedTime": 1_700_000_000_000, "finishedTime": 0, "allocatedMB": 2048,
    "allocatedVCores": 3, "runningContainers": 3, "applicationTags": "yarnps,other",
    "trackingUrl": "http://rm/proxy", "memorySeconds": 10, "vcoreSeconds": 20,
}  # fmt: skip
CAPACITY = {
    "type": "capacityScheduler",
    "maximumAllocation": {"memory": 6144, "vCores": 8},
    "queues": {
        "queue": [
            {
                "queueName": "default", "state": "RUNNING",
                "resourcesUsed": {"memory": 1024}, "usedAMResource": {"memory": 512},
                "AMResourceLimit": {"memory": 2048}, "numPendingApplications": 2,
                "capacities": {"queueCapacitiesByPartition": [
                    {"effectiveMaxResource": {"memory": 12288}}]},
            },
            {"queueName": "etl", "state": "STOPPED", "absoluteUsedCapacity": 10.0},
        ]
    },
}  # fmt: skip
FAIR = {
    "type": "fairScheduler",
    "rootQueue": {
        "queueName": "root",
        "childQueues": {"queue": [
            {"queueName": "root.ada", "maxResources": {"memory": 4096},
             "usedResources": {"memory": 100}}]},
    },
}  # fmt: skip


class Answers(BaseHTTPRequestHandler):
    """Answers of one server; `answers` maps a path (without its query) to status and body."""

    answers: dict[str, tuple[int, Any]]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, body = self.answers.get(self.path.split("?")[0], (404, {}))
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Tests print what they want."""


class Web:
    """A web server on a free port."""

    def __init__(self, answers: dict[str, tuple[int, Any]]) -> None:
        self.asked: list[str] = []
        handler = type("Handler", (Answers,), {"answers": answers, "asked": self.asked})
        self._server = HTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def cluster(path: str) -> str:
    return f"/ws/v1/cluster/{path}"


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web(
        {
            cluster("apps/application_1_2"): (200, {"app": APP}),
            cluster("apps"): (200, {"apps": {"app": [APP]}}),
            cluster("scheduler"): (200, {"scheduler": {"schedulerInfo": CAPACITY}}),
        }
    )
    yield server
    server.close()


def dead_address() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_report(web: Web) -> None:
    report = rm.ResourceManager([web.address]).application("application_1_2")
    assert report.diagnostics == "waits"
    assert report.progress == 0.25
    assert report.started == 1_700_000_000.0
    assert report.finished is None
    assert report.memory == 2 * GIB
    assert report.tags == ("yarnps", "other")
    assert not report.ended


def test_our_applications_are_asked_for_by_tag(web: Web) -> None:
    found = rm.ResourceManager([web.address]).applications()
    assert [r.application for r in found] == ["application_1_2"]
    (asked,) = web.asked
    assert "applicationTags=yarnps" in asked
    assert "states=NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING" in asked


def test_an_unknown_application(web: Web) -> None:
    with pytest.raises(KeyError):
        rm.ResourceManager([web.address]).application("application_1_9")


def test_queues_of_the_capacity_scheduler(web: Web) -> None:
    manager = rm.ResourceManager([web.address])
    default, etl = manager.queues()
    assert default == rm.Queue(
        "default", "RUNNING", GIB, 12 * GIB, None, None, GIB // 2, 2 * GIB, 2
    )
    assert etl.state == "STOPPED"
    assert rm.find_queue([default, etl], "root.default") == default
    assert rm.find_queue([default, etl], "nope") is None
    assert queue_text(default) == (
        "queue uses 1.0 GiB of 12.0 GiB, ApplicationMasters 512.0 MiB of 2.0 GiB, "
        "2 applications wait"
    )


def test_queues_of_the_fair_scheduler() -> None:
    server = Web({cluster("scheduler"): (200, {"scheduler": {"schedulerInfo": FAIR}})})
    try:
        (queue,) = rm.ResourceManager([server.address]).queues()
    finally:
        server.close()
    assert (queue.name, queue.max_memory, queue.state) == ("root.ada", 4 * GIB, "RUNNING")
    assert rm.find_queue([queue], "ada") == queue


def test_the_limits_come_from_the_resource_manager(web: Web, tmp_path: Path) -> None:
    limits = rm.ResourceManager([web.address]).limits(hadoop_conf.HadoopConf(tmp_path, {}))
    assert limits == rm.Limits(6 * GIB, 8)


def test_the_active_one_of_two_is_found_and_kept(web: Web) -> None:
    standby = Web({cluster("apps/application_1_2"): (200, "This is standby RM.")})
    try:
        manager = rm.ResourceManager([dead_address(), standby.address, web.address])
        assert manager.application("application_1_2").name == "flights"
        assert manager.addresses[0] == web.address
    finally:
        standby.close()


def test_nobody_answers() -> None:
    address = dead_address()
    with pytest.raises(ClusterError) as caught:
        rm.ResourceManager([address]).nodes()
    assert caught.value.exit_code == 3
    assert address in caught.value.what
    assert "doctor" in caught.value.remedy


def test_a_login_is_wanted() -> None:
    server = Web({cluster("nodes"): (401, {})})
    try:
        with pytest.raises(rm.RmRefused, match="refuses us"):
            rm.ResourceManager([server.address]).nodes()
    finally:
        server.close()


def test_a_proxy_in_the_environment_is_not_asked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", dead_address())
    assert rm.ResourceManager([web.address]).application("application_1_2").user == "ada"


# ---------------------------------------------------------------- configuration


def site(folder: Path, name: str, **values: str) -> None:
    """Write a site file; `__` in a name stands for a dot."""
    rows = "".join(
        f"<property><name>{k.replace('__', '.')}</name><value>{v}</value></property>"
        for k, v in values.items()
    )
    (folder / name).write_text(f"<configuration>{rows}</configuration>")


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def test_values_refer_to_others(conf: Path) -> None:
    site(conf, "yarn-site.xml", base="10.0.0.5", yarn__resourcemanager__hostname="${base}")
    assert hadoop_conf.load().rm_web() == ["http://10.0.0.5:8088"]


def test_two_resource_managers_over_https(conf: Path) -> None:
    (conf / "yarn-site.xml").write_text(
        "<configuration>"
        "<property><name>yarn.http.policy</name><value>HTTPS_ONLY</value></property>"
        "<property><name>yarn.resourcemanager.ha.rm-ids</name><value>a, b</value></property>"
        "<property><name>yarn.resourcemanager.webapp.https.address.a</name>"
        "<value>one:1</value></property>"
        "<property><name>yarn.resourcemanager.hostname.b</name><value>two</value></property>"
        "</configuration>"
    )
    assert hadoop_conf.load().rm_web() == ["https://one:1", "https://two:8090"]


def test_a_broken_file_is_named(conf: Path) -> None:
    (conf / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ClusterError, match=r"cannot be read: .*core-site\.xml"):
        hadoop_conf.load()


def test_the_scheduler_file_is_optional(conf: Path) -> None:
    assert hadoop_conf.scheduler_property("calculator") is None
    site(conf, "capacity-scheduler.xml", calculator="Dominant")
    assert hadoop_conf.scheduler_property("calculator") == "Dominant"
