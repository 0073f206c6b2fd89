"""Sparse tables without the wire: memory while they grow, the longest request, speed of kernels.

``python -m bench.tables [--rows 10000000] [--dims 1 16] [--batch 10000]``

Prints lines ``name value unit``. Each dim has a process of its own, which pushes new random keys
until the table has all rows. From 1 M rows on, after every push: resident memory that the process
has gained, and the table's own account of it, over the rows' own bytes,
``n * (8 + itemsize * dim * (1 + states))`` (states: numbers kept beside a weight); the highest
of all is shown. A push's time is that on the clock without the time that its thread had to wait
for a processor, which others used (`interrupted`: with it). Then kernels, at 1 M rows: keys of a
request are in the order of their shards, as they come from a worker.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from yarnps.protocol.shards import frozen, partition, shard_bits
from yarnps.protocol.tables import Adam, Ftrl, Optimizer, Sgd, TableSpec
from yarnps.server.memory import resident
from yarnps.server.sparse import SparseTable

SHARDS = 256
FROM_ROWS = 1_000_000
KERNEL_KEYS = 100_000
REPEATS = 40
OPTIMIZERS: tuple[Optimizer, ...] = (Sgd(0.1), Ftrl(l1=0.5), Adam(0.1))


def show(name: str, value: float, unit: str) -> None:
    print(f"{name} {value:.4g} {unit}", flush=True)


def opened(dim: int, optimizer: Optimizer) -> SparseTable:
    table = SparseTable(
        TableSpec("w", "sparse", (dim,), optimizer=optimizer), np.arange(SHARDS, dtype=np.int64)
    )
    table.warm()
    return table


def ordered(keys: Any) -> tuple[Any, Any]:
    """Keys and sections of a message."""
    parted = partition(keys, shard_bits(SHARDS), np.arange(SHARDS, dtype=np.int32))
    sections = np.stack([np.arange(SHARDS), np.diff(parted.starts)], axis=1)
    return frozen(parted.keys), frozen(sections.astype(np.uint32))


def queued() -> float:
    """Seconds that this thread could have run and another one did."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def grow(dim: int, rows: int, batch: int) -> None:
    """Memory and times while a table of SGD grows."""
    table, own = opened(dim, Sgd(0.1)), 8 + 4 * dim
    grads = frozen(np.ones((batch, dim), np.float32))
    rng = np.random.default_rng(dim)
    table.push(*ordered(rng.integers(-(2**63), 2**63 - 1, batch)), grads)
    before = resident() - table.nbytes  # the buffers of a request are not the table's
    highest = accounted = 0.0
    wall, cpu, waited = [], [], []
    while table.rows < rows:
        keys, sections = ordered(rng.integers(-(2**63), 2**63 - 1, batch))
        waited.append(-queued())
        begun, used = time.perf_counter(), time.thread_time()
        table.push(keys, sections, grads)
        cpu.append(time.thread_time() - used)
        wall.append(time.perf_counter() - begun)
        waited[-1] += queued()
        if table.rows >= FROM_ROWS:
            highest = max(highest, (resident() - before) / (table.rows * own))
            accounted = max(accounted, table.nbytes / (table.rows * own))
    name = f"dim{dim}"
    alone = np.subtract(wall, waited)
    show(f"memory_{name}", highest, "x_own_bytes")
    show(f"memory_accounted_{name}", accounted, "x_own_bytes")
    show(f"longest_push_{name}", max(alone) * 1e3, "ms")
    show(f"longest_push_cpu_{name}", max(cpu) * 1e3, "ms")
    show(f"median_push_{name}", statistics.median(alone) * 1e3, "ms")
    show(f"longest_push_interrupted_{name}", max(wall) * 1e3, "ms")


def kernels(dim: int) -> None:
    """Speed of one request of many keys, in a table that has all of them."""
    for optimizer in OPTIMIZERS:
        table, rng = opened(dim, optimizer), np.random.default_rng(1)
        universe = np.unique(rng.integers(-(2**63), 2**63 - 1, FROM_ROWS))
        grads = frozen(np.ones((len(universe), dim), np.float32))
        table.push(*ordered(universe), grads)
        requests = [
            ordered(rng.choice(universe, KERNEL_KEYS, replace=False)) for _ in range(REPEATS)
        ]
        few = frozen(grads[:KERNEL_KEYS])

        def push(keys: Any, sections: Any, table: Any = table, few: Any = few) -> None:
            table.push(keys, sections, few)

        for what, call in (("push", push), ("pull", table.pull)):
            speed = KERNEL_KEYS / 1e6 / statistics.median(_times(call, requests))
            show(f"table_{what}_{optimizer.name}_dim{dim}", speed, "Mkeys/cpu_s")


def _times(call: Callable[[Any, Any], Any], requests: list[Any]) -> list[float]:
    found = []
    for keys, sections in requests:
        begun = time.thread_time()
        call(keys, sections)
        found.append(time.thread_time() - begun)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--batch", type=int, default=10_000, help="new keys of a push")
    parser.add_argument("--one", action="store_true", help="in this process (one dim)")
    asked = parser.parse_args()
    if asked.one:
        grow(asked.dims[0], asked.rows, asked.batch)
        kernels(asked.dims[0])
        return
    for dim in asked.dims:  # apart, so that one's memory is not the other's
        command = [sys.executable, "-m", "bench.tables", "--one", "--dims", str(dim)]
        command += ["--rows", str(asked.rows), "--batch", str(asked.batch)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
