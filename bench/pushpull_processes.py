"""The processes of bench.pushpull: servers without a cluster, and workers that are told when."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.pushpull_measuring import LIMIT_S, SHARDS
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, Decoder, frame

JOB = 1
# 16 GiB: the tables of all lines together must fit.
JOB_FILE = """
name: pushpull
services:
  server: {instances: 1, resources: {memory: 16 GiB, vcores: 1}}
  worker: {instances: 1, resources: {memory: 1 GiB, vcores: 1}, script: "true"}
yarnps: {data: {train: none}, sync: {mode: asp}}
"""


def start_servers(
    stack: ExitStack, count: int, transport: str, pids: list[int] | None = None
) -> pb.Begin:
    """Start server processes; what a worker must be told comes back. Their ids go to `pids`."""
    from yarnps.spec import load

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    path = Path(folder) / "job.yaml"
    path.write_text(JOB_FILE)
    begin = pb.Begin(
        job=JOB, job_json=load(path, site=[]).to_json(), data_token="bench", servers=count
    )
    begin.load.cut = -1
    begin.routes.version = begin.routes.generation = 1
    for rank in range(count):
        begin.routes.servers.add(server_rank=rank)
    begin.routes.owner.extend(shard * count // SHARDS for shard in range(SHARDS))
    for rank in range(count):
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "yarnps.server"],
            env={**os.environ, CHANNEL_FD: str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        if pids is not None:
            pids.append(process.pid)
        stack.callback(process.wait, 30)
        stack.callback(ours.close)
        own = pb.Begin()
        own.CopyFrom(begin)
        own.server_rank = rank
        own.incarnation.id = 100 + rank
        own.bind_address = "127.0.0.1" if transport == "tcp" else f"ipc://{folder}/server-{rank}"
        ours.sendall(frame(pb.ToRole(begin=own)))
        begin.routes.servers[rank].address = _ready(ours)
        begin.routes.servers[rank].incarnation = 100 + rank
    return begin


def _ready(channel: socket.socket) -> str:
    decoder = Decoder(pb.FromRole)
    channel.settimeout(LIMIT_S)
    while data := channel.recv(65536):
        for message in decoder.feed(data):
            if message.HasField("server_ready"):
                return message.server_ready.address
    raise RuntimeError("a server process ended before it was ready: see its output above")


class Workers:
    """The workers' processes; each repetition of one of `lines` is run by all at once."""

    def __init__(self, stack: ExitStack, begin: pb.Begin, count: int, lines: list[str]) -> None:
        self._processes = []
        for rank in range(count):
            begin.incarnation.id = 1000 + rank
            text = base64.b64encode(begin.SerializeToString()).decode()
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.pushpull_lines", text, *lines],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait, 30)
            self._processes.append(process)
        self.pids = [process.pid for process in self._processes]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Name and unit of each line; `once` is about the latest."""
        while (heading := self._hear()[0]) not in ("end", ""):
            name, unit = heading.split()
            yield name, unit
            self._tell("next")

    def once(self) -> float:
        """One repetition: the sum over all workers."""
        self._tell("again")
        return sum(float(value) for value in self._hear())

    def _tell(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _hear(self) -> list[str]:
        return [p.stdout.readline().strip() for p in self._processes if p.stdout]
