"""A small program that speaks ps-lite's start, barriers and end, to test the launchers with.

    python ps_program.py [--fail ROLE RANK STATUS | --hang ROLE RANK] [--before] [--say FOLDER]

Every node registers, passes the barrier of the start, does its part and passes that of the end,
all with the scheduler that its environment names. `--before`: it fails, or hangs, before it
registers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import zmq

from yarnps.pslite import wire_pb2 as pb
from yarnps.pslite.wire import EVERYONE, Command, Seat

LIMIT_MS = 60_000
UNKNOWN = 2**31 - 1


class Node:
    """One process of a ps-lite job."""

    def __init__(self) -> None:
        seat = Seat(os.environ["DMLC_ROLE"], int(os.environ["DMLC_TASK_ID"]))
        host = os.environ.get("DMLC_NODE_HOST", "127.0.0.1")
        self._context = zmq.Context()
        self._ear: Any = self._context.socket(zmq.ROUTER)
        self._ear.setsockopt(zmq.RCVTIMEO, LIMIT_MS)
        port = self._ear.bind_to_random_port(f"tcp://{host}")
        self._mouth = self._connect(None)
        self._timestamp = 0
        node = pb.Node(role=int(seat.role == "worker"), id=UNKNOWN, hostname=host, port=port)
        control = pb.Control(cmd=Command.ADD_NODE, node=[node])
        self._mouth.send(pb.Meta(control=control).SerializeToString())
        nodes = self._hear(Command.ADD_NODE).control.node
        mine = next(n for n in nodes if (n.hostname, n.port) == (host, port))
        assert mine.id == seat.id, f"{seat} has become node {mine.id}"
        self._mouth = self._connect(seat.name)

    def _connect(self, identity: bytes | None) -> Any:
        mouth: Any = self._context.socket(zmq.DEALER)
        if identity:
            mouth.setsockopt(zmq.IDENTITY, identity)
        env = os.environ
        mouth.connect(f"tcp://{env['DMLC_PS_ROOT_URI']}:{env['DMLC_PS_ROOT_PORT']}")
        return mouth

    def barrier(self) -> None:
        """Wait for all nodes."""
        self._timestamp += 1
        control = pb.Control(cmd=Command.BARRIER, barrier_group=EVERYONE)
        meta = pb.Meta(control=control, request=True, app_id=0, timestamp=self._timestamp)
        self._mouth.send(meta.SerializeToString())
        self._hear(Command.BARRIER)

    def _hear(self, command: Command) -> pb.Meta:
        while True:
            _, *frames = self._ear.recv_multipart()
            meta = pb.Meta.FromString(frames[0])
            if meta.control.cmd == command:
                return meta


def main(words: list[str]) -> int:
    """Play a node; the words say what goes wrong with whom."""
    me = [os.environ["DMLC_ROLE"], os.environ["DMLC_TASK_ID"]]

    def meant(option: str) -> list[str]:
        """The words after an option's role and rank, if these are this node's."""
        at = words.index(option) if option in words else len(words)
        return words[at + 3 :] or ["yes"] if words[at + 1 : at + 3] == me else []

    if "--say" in words:
        seen = {"env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
        Path(words[words.index("--say") + 1], "-".join(me)).write_text(json.dumps(seen))
    failure, hang = meant("--fail"), meant("--hang")
    if failure and "--before" in words:
        return int(failure[0])
    if hang and "--before" in words:
        signal.pause()
    node = Node()
    node.barrier()
    print("works", flush=True)
    print("complains", file=sys.stderr, flush=True)
    if failure:
        return int(failure[0])
    if hang:
        signal.pause()
    node.barrier()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
