"""Push and pull of the engine, beside the limits of the machine, in one run.

``python -m bench.pushpull --servers 1 --workers 1 [--transport tcp|ipc] [--peers]``

Prints lines ``name value unit``: medians of the repetitions, then their spread (highest over
lowest). Every push is acknowledged; 4 calls are outstanding; the server adds into its table. With
``--peers`` the same is done with raw pyzmq frames without any work on the server, with the kernels
alone in one process, and with memcpy.
"""

from __future__ import annotations

import argparse
import base64
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, Decoder, frame

SIZES = {"64KB": 64 << 10, "1MB": 1 << 20, "16MB": 16 << 20}
SPARSE = [(10_000, 1), (100_000, 1), (10_000, 16), (100_000, 16)]
ROWS = 1_000_000
OUTSTANDING = 4
SECONDS = 0.5  # of one repetition
REPEATS = 5
SHARDS = 256
JOB = 1
LIMIT_S = 120.0
# 16 GiB: the tables of all lines together must fit.
JOB_FILE = """
name: pushpull
services:
  server: {instances: 1, resources: {memory: 16 GiB, vcores: 1}}
  worker: {instances: 1, resources: {memory: 1 GiB, vcores: 1}, script: "true"}
yarnps: {data: {train: none}, sync: {mode: asp}}
"""


class Figure(NamedTuple):
    """One line of the output, from several repetitions."""

    name: str
    values: list[float]
    unit: str

    def show(self) -> None:
        spread = max(self.values) / max(min(self.values), 1e-12)
        print(f"{self.name} {statistics.median(self.values):.4g} {self.unit} x{spread:.2f}")
        sys.stdout.flush()


def rate(call: Callable[[], Any], amount: float, outstanding: int) -> float:
    """Amount per second of a call that returns a future."""
    under_way: deque[Any] = deque(call() for _ in range(outstanding))
    done = 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        under_way.popleft().wait()
        under_way.append(call())
        done += 1
    seconds = time.perf_counter() - begun
    for future in under_way:
        future.wait()
    return done * amount / seconds


# ---------------------------------------------------------------------- a worker


def measures(client: Any) -> Iterator[tuple[str, str, Callable[[], float]]]:
    """Name, unit and one repetition of everything that is measured."""
    from yarnps.protocol.tables import Add, TableSpec
    from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable

    def dense(size: int) -> DenseTable:
        spec = TableSpec(f"dense {size}", "dense", (size // 4,), optimizer=Add())
        client.open(spec)
        return DenseTable(client, spec, CurrentBatch())

    def sparse(dim: int) -> SparseTable:
        spec = TableSpec(f"sparse {dim}", "sparse", (dim,), optimizer=Add())
        client.open(spec)
        return SparseTable(client, spec, CurrentBatch())

    for label, size in SIZES.items():
        table, values = dense(size), np.ones(size // 4, np.float32)
        out = [np.empty(size // 4, np.float32) for _ in range(OUTSTANDING + 1)]
        yield (
            f"push_{label}",
            "MB/s",
            lambda t=table, v=values: rate(  # type: ignore[misc]
                lambda: t.push(v), v.nbytes / 1e6, OUTSTANDING
            ),
        )
        yield (
            f"pull_{label}",
            "MB/s",
            lambda t=table, o=out: rate(  # type: ignore[misc]
                lambda: t.pull(out=_turn(o)), o[0].nbytes / 1e6, OUTSTANDING
            ),
        )
    tiny, key, one = sparse(1), np.array([5], np.int64), np.ones(1, np.float32)
    for depth in (1, 64):
        yield (
            f"tiny_push_d{depth}",
            "calls/s",
            lambda d=depth: rate(  # type: ignore[misc]
                lambda: tiny.push(key, one), 1, d
            ),
        )
        yield (
            f"tiny_pull_d{depth}",
            "calls/s",
            lambda d=depth: rate(  # type: ignore[misc]
                lambda: tiny.pull(key), 1, d
            ),
        )
    known = all_keys()
    for count, dim in SPARSE:
        rows = sparse(dim)
        fill(rows, known, dim)
        chosen = some_keys(known, count)
        grads = np.ones((count, dim), np.float32)
        name = f"{count // 1000}k_dim{dim}"
        yield (
            f"sparse_push_{name}",
            "Mkeys/s",
            lambda r=rows, c=chosen, g=grads: rate(  # type: ignore[misc]
                lambda: r.push(_turn(c), g), len(g) / 1e6, OUTSTANDING
            ),
        )
        yield (
            f"sparse_pull_{name}",
            "Mkeys/s",
            lambda r=rows, c=chosen, g=grads: rate(  # type: ignore[misc]
                lambda: r.pull(_turn(c)), len(g) / 1e6, OUTSTANDING
            ),
        )


def _turn(items: list[Any]) -> Any:
    items.append(items.pop(0))
    return items[-1]


def all_keys() -> Any:
    return np.unique(np.random.default_rng(0).integers(-(2**62), 2**62, ROWS))


def some_keys(known: Any, count: int) -> list[Any]:
    """Sorted random keys, other ones each time."""
    rng = np.random.default_rng(os.getpid())
    return [np.sort(rng.choice(known, count, replace=False)) for _ in range(20)]


def fill(table: Any, known: Any, dim: int) -> None:
    for part in np.array_split(known, 10):
        table.push(part, np.ones((len(part), dim), np.float32)).wait()


def worker(begin: pb.Begin) -> None:
    """Do one repetition for every line that comes in."""
    from yarnps.worker.client import Client

    client = Client(begin, LIMIT_S)
    for name, unit, measure in measures(client):
        print(name, unit, flush=True)
        for line in sys.stdin:
            if line.strip() == "next":
                break
            print(measure(), flush=True)
    print("end", flush=True)
    client.close()


# ---------------------------------------------------------------------- servers and workers


def start_servers(stack: ExitStack, count: int, transport: str) -> pb.Begin:
    """Start server processes; what a worker must be told comes back."""
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


def run_workers(begin: pb.Begin, count: int) -> Iterator[Figure]:
    """The figures of all workers together: each repetition is run by all at once."""
    processes = []
    for rank in range(count):
        begin.incarnation.id = 1000 + rank
        text = base64.b64encode(begin.SerializeToString()).decode()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "bench.pushpull", "--begin", text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def tell(line: str) -> None:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def hear() -> list[str]:
        return [process.stdout.readline().strip() for process in processes if process.stdout]

    while (heading := hear()[0]) not in ("end", ""):
        name, unit = heading.split()
        values = []
        for _ in range(REPEATS):
            tell("again")
            values.append(sum(float(value) for value in hear()))
        tell("next")
        yield Figure(name, values, unit)
    for process in processes:
        process.wait(30)


# ---------------------------------------------------------------------- peers


def raw_zmq(transport: str) -> Iterator[Figure]:
    """The same frames through pyzmq, and nothing done with them."""
    import threading

    import zmq

    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.SNDHWM, 0)
    folder = tempfile.mkdtemp()
    router.bind("tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{folder}/raw")
    address = str(router.getsockopt_string(zmq.LAST_ENDPOINT))

    def serve() -> None:
        replies: dict[int, Any] = {}
        while True:
            identity, body = router.recv_multipart(copy=False)
            if len(body) == 1:
                return
            wanted = int.from_bytes(bytes(body.buffer[:8]), "little")
            reply = replies.setdefault(wanted, np.ones(max(wanted, 8), np.uint8))
            router.send_multipart([identity, reply], copy=wanted < 65536)

    thread = threading.Thread(target=serve)
    thread.start()
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.SNDHWM, 0)
    dealer.connect(address)

    class Answer:
        def wait(self) -> None:
            dealer.recv(copy=False)

    def ask(body: Any) -> Answer:
        dealer.send(body, copy=body.nbytes < 65536)
        return Answer()

    def message(size: int, wanted: int) -> Any:
        body = np.zeros(size, np.uint8)
        body[:8].view(np.int64)[0] = wanted
        return body

    for label, size in SIZES.items():
        for name, body in (("push", message(size, 0)), ("pull", message(8, size))):
            values = [
                rate(lambda b=body: ask(b), size / 1e6, OUTSTANDING)  # type: ignore[misc]
                for _ in range(REPEATS)
            ]
            yield Figure(f"raw_zmq_{name}_{label}", values, "MB/s")
    for depth in (1, 64):
        body = message(112, 0)
        values = [rate(lambda b=body: ask(b), 1, depth) for _ in range(REPEATS)]  # type: ignore[misc]
        yield Figure(f"raw_zmq_tiny_d{depth}", values, "calls/s")
    dealer.send(b"x")
    thread.join(LIMIT_S)
    context.destroy(linger=0)


def kernels_alone() -> Iterator[Figure]:
    """The table of one server, called in this process; keys are in the order of shards."""
    from yarnps.protocol.shards import frozen, partition
    from yarnps.protocol.tables import Add, TableSpec
    from yarnps.server.sparse import SparseTable

    position = np.arange(SHARDS, dtype=np.int32)

    def ordered(keys: Any) -> tuple[Any, Any]:
        parted = partition(keys, 8, position)
        sections = np.stack([position, np.diff(parted.starts)], axis=1).astype(np.uint32)
        return frozen(parted.keys), frozen(sections)

    known = all_keys()
    for count, dim in SPARSE:
        table = SparseTable(
            TableSpec("w", "sparse", (dim,), optimizer=Add()), np.arange(SHARDS, dtype=np.int64)
        )
        for part in np.array_split(known, 10):
            table.push(*ordered(part), frozen(np.ones((len(part), dim), np.float32)))
        chosen = [ordered(keys) for keys in some_keys(known, count)]
        grads = frozen(np.ones((count, dim), np.float32))
        for name, call in (
            ("push", lambda t=table, c=chosen, g=grads: t.push(*_turn(c), g)),
            ("pull", lambda t=table, c=chosen: t.pull(*_turn(c))),
        ):
            values = [alone(call, count / 1e6) for _ in range(REPEATS)]
            yield Figure(f"kernel_{name}_{count // 1000}k_dim{dim}", values, "Mkeys/s")


def alone(call: Callable[[], Any], amount: float) -> float:
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        call()
        done += 1
    return done * amount / (time.perf_counter() - begun)


def memcpy() -> Iterator[Figure]:
    for label, size in SIZES.items():
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        values = [
            alone(lambda s=source, t=target: np.copyto(t, s), size / 1e6)  # type: ignore[misc]
            for _ in range(REPEATS)
        ]
        yield Figure(f"memcpy_{label}", values, "MB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--transport", choices=["tcp", "ipc"], default="tcp")
    parser.add_argument("--peers", action="store_true", help="raw pyzmq, kernels alone, memcpy")
    parser.add_argument("--begin", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.begin:
        begin = pb.Begin()
        begin.ParseFromString(base64.b64decode(arguments.begin))
        worker(begin)
        return
    with ExitStack() as stack:
        begin = start_servers(stack, arguments.servers, arguments.transport)
        for figure in run_workers(begin, arguments.workers):
            figure.show()
    if arguments.peers:
        for source in (raw_zmq(arguments.transport), kernels_alone(), memcpy()):
            for figure in source:
                figure.show()


if __name__ == "__main__":
    main()
