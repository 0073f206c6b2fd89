from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from yarnps._errors import ClusterError, InputError
from yarnps.files import BlockHosts, default_fs, open_files, read_conf
from yarnps.files._hadoop import HadoopConf
from yarnps.files._hdfs import CALL_S
from yarnps.files._limits import within
from yarnps.files._webhdfs import BlockLocations

Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Write a Hadoop configuration and point HADOOP_CONF_DIR at it."""

    def write(core: dict[str, str], hdfs: dict[str, str] | None = None) -> Path:
        for name, values in (("core-site.xml", core), ("hdfs-site.xml", hdfs or {})):
            entries = "".join(
                f"<property><name>{key}</name><value>{value}</value></property>"
                for key, value in values.items()
            )
            (tmp_path / name).write_text(f"<configuration>{entries}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        return tmp_path

    return write


HA = {
    "dfs.nameservices": "cluster, other",
    "dfs.ha.namenodes.cluster": "nn1,nn2",
    "dfs.namenode.rpc-address.cluster.nn1": "host1:9000",
    "dfs.namenode.rpc-address.cluster.nn2": "host2",
    "dfs.namenode.http-address.cluster.nn1": "host1:50070",
}


def test_bare_paths_belong_to_the_default_file_system(configure: Configure) -> None:
    configure({"fs.defaultFS": "hdfs://nn.example:9000/", "hadoop.user": "x"})
    assert default_fs() == "hdfs://nn.example:9000"
    for address in ("/data/x", "hdfs:///data/x", "hdfs://nn.example:9000/data/x"):
        files, path = open_files(address)
        assert files.address(path) == "hdfs://nn.example:9000/data/x"
    files, path = open_files("x/y")
    assert files.address(path) == f"hdfs://nn.example:9000{files.home()}/x/y"
    files, path = open_files("file:///tmp/x")
    assert files.address(path) == "file:///tmp/x"
    files, path = open_files("hdfs:///data/what?[ab]#1/{x,y}*")
    assert path == "/data/what?[ab]#1/{x,y}*"


def test_high_availability(configure: Configure) -> None:
    folder = configure({"fs.defaultFS": "hdfs://cluster"}, HA)
    conf = read_conf(folder)
    assert conf.is_name_service("cluster")
    assert not conf.is_name_service("other")
    assert conf.rpc_addresses("cluster", None) == [("host1", 9000), ("host2", 8020)]
    assert conf.http_addresses("cluster") == ["http://host1:50070", "http://cluster:9870"]
    files, path = open_files("/x")
    assert files.address(path) == "hdfs://cluster/x"


def test_values_in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_HOST", "h")
    conf = HadoopConf(
        {"fs.defaultFS": "hdfs://${env.SOME_HOST}:${port}", "port": "1${zero}", "zero": "0"}
    )
    assert conf.default_fs == "hdfs://h:10"
    assert HadoopConf({"a": "${a}"}).get("a") == "${a}"  # a circle ends


def test_wrong_configurations_are_named(configure: Configure) -> None:
    folder = configure({})
    with pytest.raises(InputError, match="names no name node: hdfs:///x"):
        open_files("hdfs:///x")
    (folder / "core-site.xml").write_text("<configuration>")
    with pytest.raises(InputError, match=r"cannot read Hadoop's configuration: .*core-site\.xml"):
        open_files("/x")


def test_a_name_node_that_is_down_is_named_at_once(configure: Configure) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configure({"fs.defaultFS": f"hdfs://127.0.0.1:{port}"})
    files, path = open_files("/x")
    started = time.monotonic()
    with pytest.raises(ClusterError, match=rf"hdfs://127\.0\.0\.1:{port}: .*refused") as caught:
        files.info(path)
    assert time.monotonic() - started < CALL_S  # the client itself would try for minutes
    assert "HADOOP_CONF_DIR is" in caught.value.remedy


def test_a_name_node_that_takes_connections_and_says_nothing(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.files._hdfs.CALL_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure({"fs.defaultFS": f"hdfs://127.0.0.1:{silent.getsockname()[1]}"})
        files, path = open_files("/x")
        with pytest.raises(ClusterError, match=r"no answer within 0\.5 s: HDFS cannot be reached"):
            files.info(path)


def test_within_hands_on_answers_and_errors() -> None:
    assert within(10, lambda: 7, what="w", remedy="r") == 7
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 // 0, what="w", remedy="r")
    never = threading.Event()
    with pytest.raises(ClusterError, match=r"no answer within 0\.05 s: w"):
        within(0.05, lambda: never.wait(10), what="w", remedy="r")
    never.set()


class _NameNode(BaseHTTPRequestHandler):
    """Answers like WebHDFS; a standby refuses."""

    standby = False
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        block = {"offset": 0, "length": 9, "hosts": ["n1", "n2"], "names": ["1.2.3.4:1"]}
        body = json.dumps({"BlockLocations": {"BlockLocation": [block]}}).encode()
        self.send_response(403 if self.standby else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """The test's output stays clean."""


@pytest.fixture
def name_nodes() -> Iterator[tuple[HadoopConf, list[str], list[str]]]:
    """A standby and an active name node's web services, and what each was asked."""
    values = {"dfs.nameservices": "cluster", "dfs.ha.namenodes.cluster": "nn1,nn2"}
    servers, asked = [], ([], [])  # type: ignore[var-annotated]
    for number, standby in ((1, True), (2, False)):
        kind = type("Handler", (_NameNode,), {"standby": standby, "asked": asked[number - 1]})
        server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        address = f"127.0.0.1:{server.server_address[1]}"
        values[f"dfs.namenode.http-address.cluster.nn{number}"] = address
    yield HadoopConf(values), asked[0], asked[1]
    for server in servers:
        server.shutdown()
        server.server_close()


def test_hosts_come_from_the_active_name_node(
    name_nodes: tuple[HadoopConf, list[str], list[str]],
) -> None:
    conf, standby, active = name_nodes
    notes: list[str] = []
    locations = BlockLocations(conf, "cluster", "alice", notes)
    for _ in range(3):
        assert locations.blocks("/a b", 9) == [BlockHosts(0, 9, ("n1", "n2"))]
    assert len(standby) == 1
    assert active[0] == (
        "/webhdfs/v1/a%20b?op=GETFILEBLOCKLOCATIONS&offset=0&length=9&user.name=alice"
    )
    assert notes == []


def test_without_webhdfs_hosts_are_unknown_and_that_is_said_once(
    name_nodes: tuple[HadoopConf, list[str], list[str]],
) -> None:
    conf, standby, _ = name_nodes
    only_standby = HadoopConf({**conf.values, "dfs.ha.namenodes.cluster": "nn1"})
    notes: list[str] = []
    locations = BlockLocations(only_standby, "cluster", "", notes)
    assert locations.blocks("/a", 9) == []
    assert locations.blocks("/b", 9) == []
    assert len(standby) == 1
    assert len(notes) == 1
    assert "WebHDFS did not answer" in notes[0]
    assert "403" in notes[0]
