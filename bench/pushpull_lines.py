"""The lines of bench.pushpull, and the worker that measures them.

``python -m bench.pushpull_lines BEGIN LINE…`` is such a worker: it does one repetition for every
line that comes in.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from bench.pushpull_measuring import (
    LIMIT_S,
    OUTSTANDING,
    SIZES,
    SPARSE,
    all_keys,
    rate,
    some_keys,
    turn,
)
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.tables import Add, TableSpec
from yarnps.worker.client import Client
from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable

Once = Callable[[], float]
DEPTHS = (1, 64)


class Line(NamedTuple):
    """Something that is measured.

    Attributes
    ----------
    prepare
        Makes what it needs; what that returns is one repetition, which returns a rate.
    """

    name: str
    unit: str
    prepare: Callable[[Tables], Once]


class Tables:
    """The tables of all lines, each made when the first line asks for it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.known = cache(all_keys)
        self.dense = cache(self._dense)
        self.sparse = cache(self._sparse)
        self.filled = cache(self._filled)

    def _dense(self, size: int) -> DenseTable:
        spec = TableSpec(f"dense {size}", "dense", (size // 4,), optimizer=Add())
        self._client.open(spec)
        return DenseTable(self._client, spec, CurrentBatch())

    def _sparse(self, dim: int) -> SparseTable:
        spec = TableSpec(f"sparse {dim}", "sparse", (dim,), optimizer=Add())
        self._client.open(spec)
        return SparseTable(self._client, spec, CurrentBatch())

    def _filled(self, dim: int) -> SparseTable:
        table = self.sparse(dim)
        for part in np.array_split(self.known(), 10):
            table.push(part, np.ones((len(part), dim), np.float32)).wait()
        return table


def lines() -> list[Line]:
    """All lines, in the order in which they are measured."""
    found = []
    for label, size in SIZES.items():
        found.append(Line(f"push_{label}", "MB/s", _dense_push(size)))
        found.append(Line(f"pull_{label}", "MB/s", _dense_pull(size)))
    for depth in DEPTHS:
        found.append(Line(f"tiny_push_d{depth}", "calls/s", _tiny_push(depth)))
        found.append(Line(f"tiny_pull_d{depth}", "calls/s", _tiny_pull(depth)))
    for count, dim in SPARSE:
        name = f"{count // 1000}k_dim{dim}"
        found.append(Line(f"sparse_push_{name}", "Mkeys/s", _sparse_push(count, dim)))
        found.append(Line(f"sparse_pull_{name}", "Mkeys/s", _sparse_pull(count, dim)))
    return found


def _dense_push(size: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table, values = tables.dense(size), np.ones(size // 4, np.float32)
        return lambda: rate(lambda: table.push(values), size / 1e6, OUTSTANDING)

    return prepare


def _dense_pull(size: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table = tables.dense(size)
        out = [np.empty(size // 4, np.float32) for _ in range(OUTSTANDING + 1)]
        return lambda: rate(lambda: table.pull(out=turn(out)), size / 1e6, OUTSTANDING)

    return prepare


def _tiny_push(depth: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table, key, one = tables.sparse(1), np.array([5], np.int64), np.ones(1, np.float32)
        return lambda: rate(lambda: table.push(key, one), 1, depth)

    return prepare


def _tiny_pull(depth: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table, key = tables.sparse(1), np.array([5], np.int64)
        return lambda: rate(lambda: table.pull(key), 1, depth)

    return prepare


def _sparse_push(count: int, dim: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table, chosen = tables.filled(dim), some_keys(tables.known(), count)
        grads = np.ones((count, dim), np.float32)
        return lambda: rate(lambda: table.push(turn(chosen), grads), count / 1e6, OUTSTANDING)

    return prepare


def _sparse_pull(count: int, dim: int) -> Callable[[Tables], Once]:
    def prepare(tables: Tables) -> Once:
        table, chosen = tables.filled(dim), some_keys(tables.known(), count)
        return lambda: rate(lambda: table.pull(turn(chosen)), count / 1e6, OUTSTANDING)

    return prepare


def wanted(names: list[str]) -> Iterator[Line]:
    """The lines of these names."""
    return (line for line in lines() if line.name in names)


def work(begin: pb.Begin, names: list[str]) -> None:
    """Do one repetition for every line that comes in."""
    client = Client(begin, LIMIT_S)
    tables = Tables(client)
    for name, unit, prepare in wanted(names):
        once = prepare(tables)
        print(name, unit, flush=True)
        for told in sys.stdin:
            if told.strip() == "next":
                break
            print(once(), flush=True)
    print("end", flush=True)
    client.close()


def main(arguments: list[str]) -> None:
    begin = pb.Begin()
    begin.ParseFromString(base64.b64decode(arguments[0]))
    work(begin, arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
