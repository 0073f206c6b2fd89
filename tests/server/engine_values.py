"""Messages and sections for tests of the server's parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from yarnps.protocol import wire
from yarnps.protocol.shards import frozen, partition, shard_bits
from yarnps.protocol.tables import Optimizer, Sgd, TableSpec
from yarnps.server.clocks import Clocks
from yarnps.server.service import Service
from yarnps.server.store import Store

SHARDS = 16
JOB = 77
TOKEN = "secret"


def places(owned: list[int] | None = None, shards: int = SHARDS) -> Any:
    found = np.full(shards, -1, np.int64)
    mine = list(range(shards)) if owned is None else owned
    found[mine] = np.arange(len(mine))
    return found


def sorted_by_shard(keys: Any, shards: int = SHARDS) -> tuple[Any, Any, Any]:
    """Keys in the order of their shards, the sections, and the order."""
    position = np.arange(shards, dtype=np.int32)
    parted = partition(np.asarray(keys, np.int64), shard_bits(shards), position)
    counts = np.diff(parted.starts)
    sections = np.stack([np.arange(shards), counts], axis=1).astype(np.uint32)
    return frozen(parted.keys), frozen(sections), parted.order


def sparse(
    name: str = "w", dim: int = 1, optimizer: Optimizer | None = None, **more: Any
) -> TableSpec:
    return TableSpec(name, "sparse", (dim,), optimizer=optimizer or Sgd(), **more)


def service(owned: list[int] | None = None, *, staleness: int | None = None) -> Service:
    mine = list(range(SHARDS)) if owned is None else owned
    return Service(Store(mine, SHARDS), Clocks(staleness), job=JOB, token=TOKEN, generation=1)


class Peer:
    """A worker as a service sees it."""

    def __init__(self, served: Service, incarnation: int = 1, *, hello: bool = True) -> None:
        self.served = served
        self.incarnation = incarnation
        self.identity = b"%d" % incarnation
        self.requests = 0
        self.answers: dict[int, wire.Message] = {}
        if hello:
            assert self.say_hello().header.op == wire.Op.OK

    def header(self, op: int, **fields: Any) -> wire.Header:
        self.requests += 1
        known = {"job": JOB, "generation": 1, "incarnation": self.incarnation}
        return wire.Header(op, request=self.requests, **{**known, **fields})

    def send(self, frames: list[Any], now: float = 0.0) -> wire.Message | None:
        """Send a message; the answer to it, unless it is made to wait."""
        for reply in self.served.handle(self.identity, frames, now):
            message = wire.decode(reply.frames)
            if reply.peer == self.identity:
                self.answers[message.header.request] = message
        return self.answers.get(self.requests)

    def ask(
        self, op: int, *, shards: Any = b"", keys: Any = b"", values: Any = b"", **fields: Any
    ) -> wire.Message:
        found = self.send(
            wire.encode(
                self.header(op, **fields), as_bytes(shards), as_bytes(keys), as_bytes(values)
            )
        )
        assert found is not None
        return found

    def say_hello(self, token: str = TOKEN, **fields: Any) -> wire.Message:
        return self.ask(wire.Op.HELLO, keys=f'{{"token": "{token}"}}'.encode(), **fields)

    def open(self, spec: TableSpec) -> wire.Message:
        return self.ask(wire.Op.OPEN, keys=spec.to_json().encode())

    def push(self, spec: TableSpec, keys: Any, values: Any, **fields: Any) -> wire.Message:
        ordered, sections, order = sorted_by_shard(keys)
        rows = np.asarray(values, spec.dtype).reshape(len(keys), spec.dim)[order]
        return self.ask(
            wire.Op.PUSH, shards=sections, keys=ordered, values=rows, **of(spec), **fields
        )

    def pull(self, spec: TableSpec, keys: Any, **fields: Any) -> Any:
        ordered, sections, order = sorted_by_shard(keys)
        answer = self.ask(wire.Op.PULL, shards=sections, keys=ordered, **of(spec), **fields)
        assert answer.header.op == wire.Op.OK, bytes(answer.values)
        out = np.empty((len(keys), spec.dim), spec.dtype)
        out[order] = np.frombuffer(answer.values, spec.dtype).reshape(-1, spec.dim)
        return out


def of(spec: TableSpec) -> dict[str, int]:
    kind = wire.DType.FLOAT32 if spec.dtype == "float32" else wire.DType.FLOAT64
    return {"table": wire.table_id(spec.name), "dtype": int(kind), "dim": spec.dim}


def as_bytes(section: Any) -> bytes:
    return section if isinstance(section, bytes) else np.ascontiguousarray(section).tobytes()


def text(message: wire.Message) -> str:
    return bytes(message.values).decode()
