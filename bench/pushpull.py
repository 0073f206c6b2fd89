"""Push and pull of the engine, beside its peers and the limits of the machine, in one run.

``python -m bench.pushpull --servers 1 --workers 1 [--transport tcp|ipc] [--peers]``

Prints lines ``name value unit``: medians of the repetitions, then their spread (highest over
lowest). Every push is acknowledged; 4 calls are outstanding; the server adds into its table. With
``--peers`` the same is done with MXNet's kvstore, with raw pyzmq frames and no work on the server,
with the kernels alone in one process, and with memcpy: repetition by repetition in turn, so that
whatever else this machine does meets all of them. Ratios, ours over theirs, come last.

Lines ``cpu_…`` are the processor time of all processes together, per MB, call or million keys. On
a machine that others use they say more than the clock does: a ratio of theirs over ours above 1
is less work than the peer's.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, Decoder, frame

SIZES = {"64KB": 64 << 10, "1MB": 1 << 20, "16MB": 16 << 20}
SPARSE = [(10_000, 1), (100_000, 1), (10_000, 16), (100_000, 16)]
ROWS = 1_000_000
OUTSTANDING = 4
SECONDS = 0.4  # of one repetition
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

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def show(self) -> None:
        spread = max(self.values) / max(min(self.values), 1e-12)
        print(f"{self.name} {self.median:.4g} {self.unit} x{spread:.2f}", flush=True)


class Peer(NamedTuple):
    """Something that does the work of a line.

    Attributes
    ----------
    once
        One repetition; returns a rate.
    pids
        The processes that do it.
    """

    name: str
    once: Callable[[], float]
    pids: list[int]


class Repetition(NamedTuple):
    """A rate, and processor microseconds for one unit of it."""

    rate: float
    cpu_us: float


def measured(peer: Peer) -> Repetition:
    """One repetition with the processor time that it took."""
    before, begun = sum(map(cpu_us, peer.pids)), time.perf_counter()
    found = peer.once()
    amount = found * (time.perf_counter() - begun)
    return Repetition(found, (sum(map(cpu_us, peer.pids)) - before) / amount)


def cpu_us(pid: int) -> float:
    """Processor time of a process so far, all its threads that live."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def rate(call: Callable[[], Any], amount: float, outstanding: int) -> float:
    """Amount per second of a call that returns a future, all of them done."""
    begun = time.perf_counter()
    under_way: deque[Any] = deque(call() for _ in range(outstanding))
    done = outstanding
    while time.perf_counter() - begun < SECONDS:
        under_way.popleft().wait()
        under_way.append(call())
        done += 1
    for future in under_way:
        future.wait()
    return done * amount / (time.perf_counter() - begun)


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
                lambda: t.pull(out=turn(o)), o[0].nbytes / 1e6, OUTSTANDING
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
                lambda: r.push(turn(c), g), len(g) / 1e6, OUTSTANDING
            ),
        )
        yield (
            f"sparse_pull_{name}",
            "Mkeys/s",
            lambda r=rows, c=chosen, g=grads: rate(  # type: ignore[misc]
                lambda: r.pull(turn(c)), len(g) / 1e6, OUTSTANDING
            ),
        )


def turn(items: list[Any]) -> Any:
    """The next one, round and round."""
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
    """The workers' processes; each repetition is run by all at once."""

    def __init__(self, stack: ExitStack, begin: pb.Begin, count: int) -> None:
        self._processes = []
        for rank in range(count):
            begin.incarnation.id = 1000 + rank
            text = base64.b64encode(begin.SerializeToString()).decode()
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.pushpull", "--begin", text],
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


def run(workers: Workers, servers: list[int], peers: dict[str, list[Peer]]) -> None:
    """All lines, each with its peers, then the ratios."""
    ratios = []
    for name, unit in workers.lines():
        ours = Peer(name, workers.once, workers.pids + servers)
        runners = [ours, *peers.get(name, [])]
        found: dict[str, list[Repetition]] = {runner.name: [] for runner in runners}
        for _ in range(1 + REPEATS):
            for runner in runners:
                found[runner.name].append(measured(runner))
        for repetitions in found.values():
            del repetitions[0]  # memory and kernels are warm from then on
        per = unit.partition("/")[0].removesuffix("s")
        for runner in runners:
            Figure(runner.name, [r.rate for r in found[runner.name]], unit).show()
            Figure(f"cpu_{runner.name}", [r.cpu_us for r in found[runner.name]], f"us/{per}").show()
        mine = _medians(found[name])
        for runner in runners[1:]:
            theirs = _medians(found[runner.name])
            ratios.append((f"ratio_{name}_to_{runner.name}", mine.rate / theirs.rate))
            ratios.append((f"cpu_ratio_{name}_to_{runner.name}", theirs.cpu_us / mine.cpu_us))
    for name, ratio in ratios:
        print(f"{name} {ratio:.3g} x", flush=True)


def _medians(repetitions: list[Repetition]) -> Repetition:
    return Repetition(*(statistics.median(values) for values in zip(*repetitions, strict=True)))


@contextmanager
def peers_of(transport: str, folder: Path) -> Iterator[dict[str, list[Peer]]]:
    """Every peer that there is, by the name of our line."""
    from bench.mxnet_store import mxnet
    from bench.pushpull_peers import kernels_alone, memcpy, raw_zmq

    found: dict[str, list[Peer]] = {}
    with ExitStack() as stack:
        sources = [
            stack.enter_context(mxnet(folder)),
            stack.enter_context(raw_zmq(transport)),
            kernels_alone(),
            memcpy(),
        ]
        for source in sources:
            for line, peer in source:
                found.setdefault(line, []).append(peer)
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--transport", choices=["tcp", "ipc"], default="tcp")
    parser.add_argument("--peers", action="store_true", help="MXNet, pyzmq, kernels, memcpy")
    parser.add_argument("--data", type=Path, default=Path(".data"), help="where peers live")
    parser.add_argument("--begin", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.begin:
        begin = pb.Begin()
        begin.ParseFromString(base64.b64decode(arguments.begin))
        worker(begin)
        return
    with ExitStack() as stack:
        peers: dict[str, list[Peer]] = {}
        if arguments.peers:
            peers = stack.enter_context(peers_of(arguments.transport, arguments.data))
        servers: list[int] = []
        begin = start_servers(stack, arguments.servers, arguments.transport, servers)
        run(Workers(stack, begin, arguments.workers), servers, peers)


if __name__ == "__main__":
    main()
