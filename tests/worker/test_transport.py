"""What a client does when a server stands still, a connection breaks, or answers make no sense."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_harness import playing, write_input

from yarnps._errors import ClusterError, ServerRefused
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.tables import Add, TableSpec
from yarnps.worker import client as client_module
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable


@pytest.fixture
def silent() -> Iterator[tuple[pb.Begin, socket.socket]]:
    """A server that takes connections and never reads: it was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin = pb.Begin(job=1, data_token="t")
        begin.incarnation.id = 7
        begin.routes.version = begin.routes.generation = 1
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        begin.routes.servers.add(server_rank=0, address=address, incarnation=8)
        begin.routes.owner.extend([0] * 16)
        yield begin, listener


def test_a_server_that_stands_still_costs_a_worker_no_more_than_the_window(
    silent: tuple[pb.Begin, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "WINDOW_BYTES", 4 << 20)
    begin, _ = silent
    client = Client(begin, request_limit=1.0)
    spec = TableSpec("d", "dense", (1 << 18,), optimizer=Add())
    table = DenseTable(client, spec, CurrentBatch())
    values = np.ones(1 << 18, np.float32)  # 1 MB
    (connection,) = client._connections.values()
    begun, futures, most, waiting = time.monotonic(), [], 0, 0
    for _ in range(20):
        futures.append(table.push(values))
        most = max(most, connection.outstanding)
        waiting = max(waiting, connection._outbox.nbytes)
    assert time.monotonic() - begun > 0.9  # the caller has waited
    assert 4 << 20 <= most <= 6 << 20
    assert waiting <= most
    with pytest.raises(ClusterError, match=r"server 0 \(tcp://.*\) has not answered since .* push"):
        futures[0].wait()
    client.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a message of yarnps"),
        (b"YPS1\x09\x00" + bytes(98), "protocol version 9 is not known here"),
    ],
    ids=["http", "another version"],
)
def test_an_answer_that_is_none_is_an_error_with_a_remedy(
    silent: tuple[pb.Begin, socket.socket], answer: bytes, words: str
) -> None:
    begin, listener = silent
    client = Client(begin, request_limit=20.0)
    accepted, _ = listener.accept()
    accepted.sendall(answer)
    table = SparseTable(client, TableSpec("w", "sparse", (1,)), CurrentBatch())
    with pytest.raises(ServerRefused, match="server 0 answers cannot be read") as raised:
        table.pull([1]).wait()
    assert words in str(raised.value) and "version" in raised.value.remedy
    client.close()
    accepted.close()


def test_calls_survive_connections_that_break_and_are_applied_once(tmp_path: Path) -> None:
    block = {"data": {"train": write_input(tmp_path / "in", 1, 1)}}
    with (
        playing(tmp_path, block, "", servers=2, start=False) as player,
        ExitStack() as stack,
    ):
        for rank in range(2):
            player.start_server(rank)
        player.wait(lambda: all(s.address for s in player._routes.servers), "ready")
        begin = player._begin(player.of("server", 0))
        begin.incarnation.id = 4711
        client = Client(begin, request_limit=30.0)
        stack.callback(client.close)
        spec = TableSpec("w", "sparse", (16,), "float64", Add())
        client.open(spec)
        table = SparseTable(client, spec, CurrentBatch())
        keys = np.arange(5000)
        ones = np.ones((len(keys), 16))
        futures: list[Any] = []
        for number in range(30):
            futures.append(table.push(keys, ones))
            if number % 5 == 4:
                for connection in client._connections.values():
                    if connection.up:
                        # What has come and is not read yet is lost with the connection.
                        assert select.select([connection.fileno], [], [], 20)[0]
                        connection.close("broken by the test")
        for future in futures:
            future.wait()
        assert (table.pull(keys).wait() == 30).all()

        def repeated() -> int:
            stats = [m.stats for p in player.alive("server") for m in p.said if m.HasField("stats")]
            return max((s.duplicates for s in stats), default=0)

        player.wait(lambda: repeated() > 0, "some were sent twice")


def test_a_call_that_fails_leaves_the_callers_array_alone() -> None:
    """Its answer may be half received into it."""
    out = np.zeros(1 << 20, np.float32)
    call = Call(client_module.Header(client_module.Op.PULL), "pull", out=out, left=1)
    part = client_module.Part(
        0, np.zeros((0, 2), np.uint32), None, None, np.array([[0, len(out)]], np.int64)
    )
    header = client_module.Header(client_module.Op.OK, dtype=1, value_bytes=out.nbytes)
    place = call.place_of(part, header)
    assert place is not None and place.nbytes == out.nbytes
    call.fail(ClusterError("lost", ""))
    assert call.place_of(part, header) is None
