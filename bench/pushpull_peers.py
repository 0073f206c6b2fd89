"""What bench.pushpull compares with on this machine: pyzmq, the kernels alone, memcpy.

``python -m bench.pushpull_peers ENDPOINT`` is the server of the raw pyzmq messages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bench.pushpull_measuring import (
    LIMIT_S,
    OUTSTANDING,
    SECONDS,
    SHARDS,
    SIZES,
    SPARSE,
    Peer,
    all_keys,
    rate,
    some_keys,
    turn,
)

Named = tuple[str, Peer]

# Bytes of our message with one key and one number.
TINY_BYTES = 128


def alone(call: Callable[[], Any], amount: float) -> float:
    """Amount per second of a call in this process."""
    call()
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        call()
        done += 1
    return done * amount / (time.perf_counter() - begun)


# ---------------------------------------------------------------------- raw pyzmq


def serve(endpoint: str) -> None:
    """Answer each message with as many bytes as it asks for; one byte ends it."""
    import zmq

    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.SNDHWM, 0)
    router.bind(endpoint)
    print(router.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)
    replies: dict[int, Any] = {}
    while True:
        identity, body = router.recv_multipart(copy=False)
        if len(body) == 1:
            break
        wanted = int.from_bytes(bytes(body.buffer[:8]), "little")
        reply = replies.setdefault(wanted, np.ones(max(wanted, 8), np.uint8))
        router.send_multipart([identity, reply], copy=wanted < 65536)
    context.destroy(linger=0)


@contextmanager
def raw_zmq(transport: str) -> Iterator[list[Named]]:
    """Frames of our sizes between two processes, and nothing done with them."""
    import zmq

    with tempfile.TemporaryDirectory() as folder:
        endpoint = "tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{folder}/raw"
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.pushpull_peers", endpoint],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        context = zmq.Context()
        dealer = context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.SNDHWM, 0)
        dealer.connect(process.stdout.readline().strip())
        try:
            yield _raw_measures(dealer, [os.getpid(), process.pid])
        finally:
            dealer.send(b"x")
            process.wait(LIMIT_S)
            process.stdout.close()
            context.destroy(linger=0)


def _raw_measures(dealer: Any, pids: list[int]) -> list[Named]:
    class Answer:
        def wait(self) -> None:
            dealer.recv(copy=False)

    def asking(size: int, wanted: int) -> Callable[[], Answer]:
        body = np.zeros(size, np.uint8)
        body[:8].view(np.int64)[0] = wanted

        def ask() -> Answer:
            dealer.send(body, copy=size < 65536)
            return Answer()

        return ask

    found = []
    for label, size in SIZES.items():
        for what, ask in (("push", asking(size, 0)), ("pull", asking(8, size))):
            once = _rated(ask, size / 1e6, OUTSTANDING)
            found.append((f"{what}_{label}", Peer(f"raw_zmq_{what}_{label}", once, pids)))
    for depth in (1, 64):
        once = _rated(asking(TINY_BYTES, 0), 1, depth)
        for what in ("push", "pull"):
            found.append((f"tiny_{what}_d{depth}", Peer(f"raw_zmq_tiny_d{depth}", once, pids)))
    return found


def _rated(call: Callable[[], Any], amount: float, depth: int) -> Callable[[], float]:
    return lambda: rate(call, amount, depth)


# ---------------------------------------------------------------------- the kernels alone, memcpy


def kernels_alone(wanted: list[str]) -> list[Named]:
    """The table of one server, called in this process; keys are in the order of shards.

    `wanted` are the names of our lines: tables are made for those only.
    """
    from yarnps.protocol.shards import frozen, partition
    from yarnps.protocol.tables import Add, TableSpec
    from yarnps.server.sparse import SparseTable

    position = np.arange(SHARDS, dtype=np.int32)

    def ordered(keys: Any) -> tuple[Any, Any]:
        parted = partition(keys, 8, position)
        sections = np.stack([position, np.diff(parted.starts)], axis=1).astype(np.uint32)
        return frozen(parted.keys), frozen(sections)

    known = all_keys()
    found: list[Named] = []
    for count, dim in SPARSE:
        shape = f"{count // 1000}k_dim{dim}"
        if not {f"sparse_push_{shape}", f"sparse_pull_{shape}"} & set(wanted):
            continue
        table = SparseTable(
            TableSpec("w", "sparse", (dim,), optimizer=Add()), np.arange(SHARDS, dtype=np.int64)
        )
        for part in np.array_split(known, 10):
            table.push(*ordered(part), frozen(np.ones((len(part), dim), np.float32)))
        chosen = [ordered(keys) for keys in some_keys(known, count)]
        grads = frozen(np.ones((count, dim), np.float32))

        def push(table: Any = table, chosen: Any = chosen, grads: Any = grads) -> None:
            table.push(*turn(chosen), grads)

        def pull(table: Any = table, chosen: Any = chosen) -> None:
            table.pull(*turn(chosen))

        for what, call in (("push", push), ("pull", pull)):
            name = f"{what}_{shape}"
            found.append(
                (f"sparse_{name}", Peer(f"kernel_{name}", _alone(call, count / 1e6), [os.getpid()]))
            )
    return found


def memcpy() -> list[Named]:
    """Copying an array of the size."""
    found = []
    for label, size in SIZES.items():
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)

        def copy(source: Any = source, target: Any = target) -> None:
            np.copyto(target, source)

        found.append(
            (f"pull_{label}", Peer(f"memcpy_{label}", _alone(copy, size / 1e6), [os.getpid()]))
        )
    return found


def _alone(call: Callable[[], Any], amount: float) -> Callable[[], float]:
    return lambda: alone(call, amount)


if __name__ == "__main__":
    serve(sys.argv[1])
