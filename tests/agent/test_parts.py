"""Usage, lookup, settings and the tail of an output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
import skein.proto
from harness import Pair, until

from yarnps._errors import InputError
from yarnps.agent import _lookup
from yarnps.agent._role import TAIL_LINES, tail
from yarnps.agent._settings import Settings
from yarnps.agent._usage import Sampler
from yarnps.am.clusters.base import AM_KEY
from yarnps.protocol.identity import incarnation

messages: Any = skein.proto  # untyped

ENV = {
    "YARNPS_AM": "10.0.0.1:5000",
    "YARNPS_APPLICATION": "application_1_0001",
    "YARNPS_NONCE": "secret",
    "YARNPS_ROLE": "server",
    "SKEIN_CONTAINER_ID": "server_4",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".skein.crt").write_bytes(b"certificate")
    (tmp_path / ".skein.pem").write_bytes(b"key")
    return tmp_path


def test_settings_in_a_container_of_skein(folder: Path) -> None:
    env = {
        **ENV,
        "YARNPS_RANK": "3",
        "NM_HOST": "node-5",
        "SKEIN_APPMASTER_ADDRESS": "10.0.0.1:6000",
        "LOG_DIRS": "/disk1/logs,/disk2/logs",
    }
    s = Settings.from_environment(env, folder)
    assert (s.container, s.rank, s.node) == ("server_4", 3, "node-5")
    assert s.lookup == "skein:10.0.0.1:6000"
    assert s.log_dir == Path("/disk1/logs")
    assert (s.certificate, s.key) == (b"certificate", b"key")
    assert "YARNPS_NONCE" not in s.env and s.env["YARNPS_RANK"] == "3"


@pytest.mark.parametrize("name", sorted(ENV))
def test_what_is_missing_is_named(folder: Path, name: str) -> None:
    env = {k: v for k, v in ENV.items() if k != name}
    expected = "YARNPS_CONTAINER" if name == "SKEIN_CONTAINER_ID" else name
    with pytest.raises(InputError, match=expected):
        Settings.from_environment(env, folder)


def test_missing_certificate(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"certificate cannot be read: .*\.skein\.crt"):
        Settings.from_environment(ENV, tmp_path)


def test_tail_is_of_whole_lines_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d \xff\n" % n for n in range(10_000)))
    lines = tail(path).split("\n")
    assert len(lines) == TAIL_LINES
    assert lines[-1] == "line 9999 \ufffd"
    path.write_bytes(b"x" * 100_000 + b"\n" + b"y" * 5000)
    assert tail(path) == "y" * 5000
    path.write_bytes(b"")
    assert tail(path) == ""
    assert "cannot be read" in tail(tmp_path / "none")


CHILDREN = """
import subprocess, sys
block = bytearray(60 << 20)
child = subprocess.Popen([sys.executable, "-c", "b = bytearray(60 << 20); print(1, flush=True); input()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
while True: pass
"""  # noqa: E501


def test_usage_counts_children(tmp_path: Path) -> None:
    role = subprocess.Popen(
        [sys.executable, "-c", CHILDREN], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert role.stdout is not None
        role.stdout.readline()
        sampler = Sampler()
        first = sampler.sample([role.pid])[role.pid]
        assert first.cpu_percent == 0
        assert 120 << 20 < first.memory < 220 << 20
        assert first.peak >= first.memory
        until(lambda: sampler.sample([role.pid])[role.pid].cpu_percent > 20)
    finally:
        os.killpg(role.pid, signal.SIGKILL)
        role.communicate()
    until(lambda: sampler.sample([role.pid]) == {})


def test_incarnations_differ_and_are_known_to_all() -> None:
    first = incarnation("application_1_0001", "worker_0", 0, 0)
    others = [
        incarnation("application_1_0001", "worker_0", 0, 1),
        incarnation("application_1_0001", "worker_0", 1, 0),
        incarnation("application_1_0001", "worker_1", 0, 0),
        incarnation("application_1_0002", "worker_0", 0, 0),
    ]
    assert len({i.id for i in [first, *others]}) == 5
    assert first.id == 0x39DC25DE81CC7545


# ---------------------------------------------------------------- lookup


def test_lookup_uses_the_key_that_the_am_publishes() -> None:
    assert _lookup.KEY == AM_KEY


def test_lookup_in_a_file(tmp_path: Path) -> None:
    assert _lookup.find(f"file:{tmp_path}", b"", b"") == ""
    (tmp_path / AM_KEY).write_text("10.0.0.1:1\n")
    assert _lookup.find(f"file:{tmp_path}", b"", b"") == "10.0.0.1:1"
    assert _lookup.find("", b"", b"") == ""


class Store:
    """Answers as skein's AppMaster does, with skein's own messages."""

    def __init__(self, pair: Pair) -> None:
        self.values: dict[str, bytes] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        method = grpc.unary_unary_rpc_method_handler(
            self._get_range,
            request_deserializer=messages.GetRangeRequest.FromString,
            response_serializer=messages.GetRangeResponse.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("skein.AppMaster", {"GetRange": method}),)
        )
        credentials = grpc.ssl_server_credentials(
            [(pair.key, pair.certificate)],
            root_certificates=pair.certificate,
            require_client_auth=True,
        )
        self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()

    def _get_range(self, request: Any, context: Any) -> Any:
        found = [(k, v) for k, v in self.values.items() if request.start <= k < request.end]
        return messages.GetRangeResponse(
            count=len(found),
            result_type=messages.GetRangeRequest.ITEMS,
            result=[messages.KeyValue(key=k, value=v) for k, v in found],
        )

    def stop(self) -> None:
        self._server.stop(0).wait(10)


@pytest.fixture
def store(pair: Pair) -> Iterator[Store]:
    store = Store(pair)
    yield store
    store.stop()


def test_lookup_in_skeins_store(store: Store, pair: Pair) -> None:
    where = f"skein:127.0.0.1:{store.port}"
    assert _lookup.find(where, pair.certificate, pair.key) == ""
    store.values = {"yarnps.al": b"no", AM_KEY: b"10.0.0.1:" + b"9" * 200, AM_KEY + "x": b"no"}
    assert _lookup.find(where, pair.certificate, pair.key) == "10.0.0.1:" + "9" * 200


def test_lookup_where_nobody_is(store: Store, pair: Pair) -> None:
    store.stop()
    assert _lookup.find(f"skein:127.0.0.1:{store.port}", pair.certificate, pair.key) == ""


@pytest.mark.parametrize("reply", [b"\x1a", b"\x1a\x05\x12", b"\xff\xff", b"\x0d1234"])
def test_lookup_does_not_trip_over_garbage(reply: bytes) -> None:
    try:
        assert _lookup.parse_range(reply) == ""
    except ValueError as e:
        assert "skein" in str(e)
