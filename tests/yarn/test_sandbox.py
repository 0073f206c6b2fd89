"""The shared sandbox is a Hadoop as others know it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import pytest
import skein as untyped_skein
import waiting

from yarnps.client import sandbox as sandboxes
from yarnps.client.main import run
from yarnps.client.sandbox import AlreadyRunning, Sandbox, SandboxInputError
from yarnps.client.sandbox._processes import containers_of

skein: Any = untyped_skein

# skein compares versions with distutils.
pytestmark = pytest.mark.filterwarnings("ignore:distutils Version classes")

LIMIT_S = 60.0

# Without these skein's overview page fails on Java 16 and newer.
OPENED = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.util", "java.lang", "java.util.concurrent")
)


def until(what: str, check: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Poll a cluster that tells nobody when something changes."""
    return waiting.until(check, what, limit_s)


def get(url: str) -> Any:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as a:
        return json.load(a)


def test_every_daemon_and_node_is_up(sandbox: Sandbox) -> None:
    found = sandboxes.status(sandbox.home)
    assert found.running
    assert {daemon.name for daemon in found.daemons if daemon.alive} == {
        "namenode",
        "resourcemanager",
        "datanode-1",
        "datanode-2",
        "nodemanager-1",
        "nodemanager-2",
    }
    assert sorted((n.address, n.state, n.memory_mb, n.vcores) for n in found.nodes) == [
        ("127.0.0.11", "RUNNING", 6144, 8),
        ("127.0.0.12", "RUNNING", 6144, 8),
    ]
    assert found.rm_page == sandbox.rm_page
    assert sandboxes.find_running(sandbox.home) is not None


def test_a_second_start_says_so(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AlreadyRunning, match=sandbox.rm_page):
        sandboxes.start(sandbox.home)
    assert run(["sandbox", "start", "--home", str(sandbox.home)]) == 2
    assert "yarnps sandbox stop" in capsys.readouterr().err


def test_status_as_json(sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "status", "--home", str(sandbox.home), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["running"] is True
    assert found["conf_dir"] == str(sandbox.conf_dir)
    assert {node["state"] for node in found["nodes"]} == {"RUNNING"}


def test_pages_have_their_style(sandbox: Sandbox) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("/cluster", "/static/yarn.css"):
        with opener.open(sandbox.rm_page + path, timeout=20) as answer:
            assert answer.status == 200
            assert len(answer.read()) > 1000


def test_daemons_share_parsed_classes_or_record_them(sandbox: Sandbox) -> None:
    process = sandbox.daemons()["resourcemanager"]
    arguments = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    shared = [a.partition("=")[2] for a in arguments if a.startswith("-XX:SharedArchiveFile=")]
    if shared:
        assert f" {shared[0]}\n" in Path(f"/proc/{process.pid}/maps").read_text()
    else:
        recorded = (sandbox.home / "tmp" / "resourcemanager.classes").read_text()
        assert "\norg/apache/hadoop/yarn/server/resourcemanager/ResourceManager\n" in recorded


def hdfs_dfs(*arguments: str, stdin: bytes | None = None) -> bytes:
    done = subprocess.run(
        ["hdfs", "dfs", *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout


def test_hdfs_by_two_clients(on_sandbox: Sandbox) -> None:
    client = hdfs_native.Client(on_sandbox.fs_default)
    with client.create("/tmp/native", hdfs_native.WriteOptions(overwrite=True)) as writer:
        writer.write(b"from Rust")
    assert hdfs_dfs("-cat", "/tmp/native") == b"from Rust"

    path, size, block = "/tmp/java", 5_000_000, 1 << 20
    content = bytes(range(250)) * (size // 250)
    options = (f"-Ddfs.blocksize={block}", "-Ddfs.replication=1")
    hdfs_dfs(*options, "-put", "-f", "-", path, stdin=content)
    assert client.read(path).read() == content
    answer = get(f"{on_sandbox.name_node_page}/webhdfs/v1{path}?op=GETFILEBLOCKLOCATIONS")
    blocks = answer["BlockLocations"]["BlockLocation"]
    assert [row["length"] for row in blocks] == [block] * 4 + [size - 4 * block]
    hosts = [row["hosts"] for row in blocks]
    assert all(len(names) == 1 and names[0] in on_sandbox.nodes for names in hosts)


def test_the_user_has_a_home_in_hdfs(on_sandbox: Sandbox) -> None:
    done = subprocess.run(
        ["hdfs", "dfs", "-stat", "%F %a %n", "."],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout.split()[:2] == ["directory", "700"]


@pytest.fixture(scope="module")
def client(sandbox: Sandbox) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sandbox.environ().items():
            patch.setenv(name, value)
        with skein.Client(security=skein.Security.new_credentials()) as found:
            yield found


@pytest.fixture
def application(client: Any) -> Iterator[Any]:
    service = {
        "instances": 2,
        "max_restarts": 0,
        "allow_failures": True,
        "resources": {"memory": "128 MiB", "vcores": 1},
        "script": 'echo "hello from $NM_HOST, HOME $HOME"; exec sleep 300',
    }
    # Equal in size to the other: skein can lose a smaller request that follows a bigger one.
    grab = "import signal; kept = b'x' * (400 << 20); signal.pause()"
    fat = {**service, "instances": 0, "script": f'exec {sys.executable} -c "{grab}"'}
    specification = skein.ApplicationSpec.from_dict(
        {
            "name": "sandbox-test",
            "max_attempts": 1,
            "master": {
                "env": {"JDK_JAVA_OPTIONS": OPENED},
                "resources": {"memory": "512 MiB", "vcores": 1},
                "script": "exec sleep 300",
            },
            "services": {"hello": service, "fat": fat},
        }
    )
    identity = client.submit(specification)
    try:
        yield client.connect(identity)
    finally:
        client.kill_application(identity)


def hosts(app: Any) -> list[str]:
    running = app.get_containers(services=["hello"], states=["RUNNING"])
    return sorted(c.yarn_node_http_address.partition(":")[0] for c in running)


def test_containers_memory_limit_page_and_logs(
    on_sandbox: Sandbox, client: Any, application: Any
) -> None:
    until("two containers", lambda: len(hosts(application)) == 2)
    # One container per heartbeat and node: they are spread.
    assert hosts(application) == list(on_sandbox.nodes)

    application.add_container("fat")
    failed = until("the memory limit", lambda: application.get_containers(["fat"], ["FAILED"]))
    assert re.fullmatch(r"[\d.]+ MB of 128 MB physical memory used", failed[0].exit_message)

    page = client.application_report(application.id).tracking_url
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(page, timeout=20) as answer:
        assert answer.status == 200

    application.shutdown("SUCCEEDED")
    until("the end", lambda: client.application_report(application.id).final_status == "SUCCEEDED")

    def logs() -> str:
        done = subprocess.run(
            ["yarn", "logs", "-applicationId", application.id],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout if "hello from 127.0.0.12" in done.stdout else ""

    text = until("aggregated logs", logs)
    assert "hello from 127.0.0.11, HOME /home/\n" in text


def test_a_node_that_loses_its_power_is_lost_soon(on_sandbox: Sandbox, application: Any) -> None:
    until("two containers", lambda: len(hosts(application)) == 2)
    states = {node.address: node.state for node in on_sandbox.yarn_nodes()}
    assert states == {"127.0.0.11": "RUNNING", "127.0.0.12": "RUNNING"}
    until("a process", lambda: containers_of(on_sandbox.home / "nodes" / "2"))
    on_sandbox.kill_node(2)
    try:
        assert containers_of(on_sandbox.home / "nodes" / "2") == []
        assert {"nodemanager-2", "datanode-2"}.isdisjoint(on_sandbox.daemons())
        with pytest.raises(SandboxInputError, match="does not run"):
            on_sandbox.kill("nodemanager-2")
        until(
            "the node is lost, long before YARN's usual 10 minutes",
            lambda: (
                {n.address: n.state for n in on_sandbox.yarn_nodes()}
                == {"127.0.0.11": "RUNNING", "127.0.0.12": "LOST"}
            ),
        )
        bean = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        until(
            "the data node is dead",
            lambda: get(f"{on_sandbox.name_node_page}/{bean}")["beans"][0]["NumDeadDataNodes"] == 1,
        )
    finally:
        on_sandbox.restart("datanode-2")
        on_sandbox.restart("nodemanager-2")
    states = {n.address: n.state for n in on_sandbox.yarn_nodes() if n.state != "LOST"}
    assert states == {"127.0.0.11": "RUNNING", "127.0.0.12": "RUNNING"}


def test_the_resource_manager_comes_back(on_sandbox: Sandbox) -> None:
    on_sandbox.kill("resourcemanager")
    assert on_sandbox.yarn_nodes() == []
    found = sandboxes.status(on_sandbox.home)
    assert [daemon.name for daemon in found.daemons if not daemon.alive] == ["resourcemanager"]
    on_sandbox.restart("resourcemanager")
    until(
        "both nodes are back",
        lambda: [n.state for n in on_sandbox.yarn_nodes()] == ["RUNNING", "RUNNING"],
    )


def test_no_such_daemon(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxInputError, match="no such daemon: nodemanager-3"):
        sandbox.kill("nodemanager-3")
