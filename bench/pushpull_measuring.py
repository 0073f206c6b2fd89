"""How bench.pushpull measures, and what is the same for all of its lines."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZES = {"64KB": 64 << 10, "1MB": 1 << 20, "16MB": 16 << 20}
SPARSE = [(10_000, 1), (100_000, 1), (10_000, 16), (100_000, 16)]
ROWS = 1_000_000
OUTSTANDING = 4
SECONDS = 0.4  # of one repetition
REPEATS = 5
SHARDS = 256
LIMIT_S = 120.0


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


def turn(items: list[Any]) -> Any:
    """The next one, round and round."""
    items.append(items.pop(0))
    return items[-1]


def all_keys() -> Any:
    """The keys of a table of `ROWS` rows."""
    return np.unique(np.random.default_rng(0).integers(-(2**62), 2**62, ROWS))


def some_keys(known: Any, count: int) -> list[Any]:
    """Sorted random keys, other ones each time."""
    rng = np.random.default_rng(os.getpid())
    return [np.sort(rng.choice(known, count, replace=False)) for _ in range(20)]


def medians(repetitions: list[Repetition]) -> Repetition:
    """Each figure's median."""
    return Repetition(*(statistics.median(values) for values in zip(*repetitions, strict=True)))
