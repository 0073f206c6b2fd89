"""Writing tables out while requests are served: cuts for recovery, and models.

The serving thread copies one shard of all tables at a time, with its marks, between two requests.
A thread of the task's own collects the copies in local files and uploads them at the end, so that
memory holds a few shards only, however large the tables are.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.files import open_files
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.tables import TableSpec, Zeros
from yarnps.server.admission import Candidates
from yarnps.server.dense import DenseTable
from yarnps.server.marks import Key, ShardMark
from yarnps.server.sparse import ShardRows, SparseTable
from yarnps.server.steps import Steps
from yarnps.server.store import Store
from yarnps.server.tensors import TensorWriter

log = logging.getLogger(__name__)

CUT_FORMAT = "yarnps-cut-1"
MODEL_FORMAT = "yarnps-model-1"

# Copied shards that may wait for the local disk.
_AHEAD = 4


class ShardCopy(NamedTuple):
    """One shard of all tables, as it is between two requests."""

    shard: int
    sparse: list[tuple[SparseTable, ShardRows]]
    dense: list[tuple[DenseTable, NDArray[Any], int]]  # states, and pushes applied
    marks: list[ShardMark]


class _Total:
    """What was written of a table."""

    def __init__(self) -> None:
        self.rows = 0
        self.sum = 0.0


class Task(ABC):
    """Work beside the requests: `step` in the serving thread, the rest in its own."""

    def __init__(self, store: Store, folder: str, tables: list[SparseTable | DenseTable]) -> None:
        self.folder = folder
        self._store = store
        self._tables = tables
        self._left = list(reversed(store.owned))
        self._copies: queue.Queue[ShardCopy | None] = queue.Queue(_AHEAD + 1)
        self._started = time.monotonic()
        self._writer = TensorWriter()
        self._totals = {table.spec.name: _Total() for table in tables}
        self.files: list[pb.SavedFile] = []
        self.error = ""
        self._abandoned = False
        self._thread = threading.Thread(target=self._work, name="save", daemon=True)
        self._thread.start()

    @property
    def can_step(self) -> bool:
        return bool(self._left) and self._copies.qsize() < _AHEAD and self._thread.is_alive()

    @property
    def copied(self) -> bool:
        """Whether the shards may change again."""
        return not self._left

    def abandon(self) -> None:
        """What is written will not be needed."""
        self._abandoned = True
        self._left.clear()
        self._copies.put(None)

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def step(self) -> None:
        """Copy the next shard."""
        shard = self._left.pop()
        self._copies.put_nowait(
            ShardCopy(
                shard,
                [(t, t.copy_shard(shard)) for t in self._tables if isinstance(t, SparseTable)],
                [
                    (t, t.copy_shard(shard), t.steps_of(shard))
                    for t in self._tables
                    if isinstance(t, DenseTable)
                ],
                self._store.marks.of_shard(shard),
            )
        )
        if not self._left:
            self._last_step()
            self._copies.put_nowait(None)

    def _last_step(self) -> None:  # noqa: B027 (a hook: nothing to do is right for most)
        """In the serving thread, after the last shard."""

    def _work(self) -> None:
        try:
            while (copy := self._copies.get()) is not None:
                if not self._abandoned:
                    self._collect(copy)
            if not self._abandoned:
                self._upload()
        except Exception as error:  # reported; the server goes on
            log.exception("saving failed")
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._writer.close()

    def _write(self, folder: str, name: str, metadata: dict[str, Any]) -> None:
        files, path = open_files(folder)
        files.mkdirs(path)
        with files.open(f"{path.rstrip('/')}/{name}", "wb") as file:
            size = self._writer.write(file, {"yarnps": json.dumps(metadata)})
        for table, total in self._totals.items():
            self.files.append(
                pb.SavedFile(name=name, bytes=size, rows=total.rows, table=table, sum=total.sum)
            )
        if not self._totals:
            self.files.append(pb.SavedFile(name=name, bytes=size))

    def _count(self, name: str, rows: int, weights: NDArray[Any]) -> None:
        self._totals[name].rows += rows
        self._totals[name].sum += float(weights.sum(dtype=np.float64))

    @abstractmethod
    def _collect(self, copy: ShardCopy) -> None: ...

    @abstractmethod
    def _upload(self) -> None: ...

    @abstractmethod
    def report(self) -> pb.FromRole:
        """What the ApplicationMaster is told when it is finished."""


class Save(Task):
    """A cut: everything that is needed to serve these shards again."""

    def __init__(
        self,
        store: Store,
        cut: int,
        folder: str,
        rank: int,
        incarnation: pb.Incarnation,
        steps: Steps | None = None,
    ) -> None:
        self._steps = None if steps is None else steps.snapshot()
        self._positions = None if steps is None else steps.positions()
        self._cut = cut
        self._name = f"server-{rank}-{incarnation.id:016x}.safetensors"
        self._marks: dict[Key, dict[int, ShardMark]] = {}
        self._shards: list[int] = []
        self._closed: list[tuple[int, int]] = []
        self._tokens: list[tuple[int, int, int]] = []
        self._clock = 0
        super().__init__(store, folder, list(store.tables.values()))

    def _last_step(self) -> None:
        self._closed, self._tokens = self._store.marks.closed, self._store.marks.tokens
        self._clock = self._store.clock

    def _collect(self, copy: ShardCopy) -> None:
        self._shards.append(copy.shard)
        for mark in copy.marks:
            self._marks.setdefault(mark.key, {})[copy.shard] = mark
        for table, rows in copy.sparse:
            name = table.spec.name
            self._writer.append(f"{name}/keys", rows.keys)
            self._writer.append(f"{name}/states", rows.states)
            self._writer.append(f"{name}/counts", np.array([len(rows.keys)], np.int64))
            self._writer.append(f"{name}/steps", np.array([rows.steps], np.int64))
            if rows.stamps is not None:
                self._writer.append(f"{name}/stamps", rows.stamps)
            if rows.candidates is not None:
                self._collect_candidates(f"{name}/candidates", rows.candidates)
            self._count(name, len(rows.keys), table.weights_of(rows.states))
        for dense, states, steps in copy.dense:
            name = dense.spec.name
            self._writer.append(f"{name}/steps", np.array([steps], np.int64))
            for index, state in enumerate(states):
                self._writer.append(f"{name}/state{index}", state)
            self._count(name, states.shape[1], dense.weights_of(states))

    def _collect_candidates(self, name: str, candidates: Candidates) -> None:
        self._writer.append(f"{name}/keys", candidates.keys)
        self._writer.append(f"{name}/seen", candidates.seen)
        self._writer.append(f"{name}/counts", np.array([len(candidates.keys)], np.int64))
        if candidates.stamps is not None:
            self._writer.append(f"{name}/stamps", candidates.stamps)

    def _upload(self) -> None:
        keys = list(self._marks)
        expected = np.zeros((len(keys), len(self._shards)), np.int32)
        above = []
        for row, key in enumerate(keys):
            for column, shard in enumerate(self._shards):
                mark = self._marks[key].get(shard)
                if mark is not None:  # otherwise the split began after the shard was copied
                    expected[row, column] = mark.next
                    above += [(row, batch, column) for batch in mark.above]
        self._writer.append("marks/next", expected)
        self._writer.append("marks/above", np.array(above, np.int64).reshape(-1, 3))
        metadata = {
            "format": CUT_FORMAT,
            "tables": [table.spec.to_json() for table in self._tables],
            "shards": self._store.shards,
            "owned": self._shards,
            "marks": keys,
            "closed": self._closed,
            "tokens": self._tokens,
            "clock": self._clock,
            "steps": self._steps,
        }
        self._write(self.folder, self._name, metadata)

    def report(self) -> pb.FromRole:
        return pb.FromRole(
            save_done=pb.SaveDone(
                cut=self._cut,
                error=self.error,
                files=self.files,
                seconds=self.seconds,
                steps=self._positions,
            )
        )


class Export(Task):
    """This server's part of the model: weights, and the states that training goes on from."""

    def __init__(self, store: Store, folder: str, rank: int, names: list[str], text: bool) -> None:
        self._part = f"part-{rank}"
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._steps: dict[str, int] = {}
        self._text = TextPart() if text else None
        super().__init__(
            store,
            folder,
            [
                table
                for table in store.tables.values()
                if (table.spec.name in names if names else table.spec.model)
            ],
        )

    def _collect(self, copy: ShardCopy) -> None:
        for table, rows in copy.sparse:
            name = table.spec.name
            weights = table.weights_of(rows.states)
            self._writer.append(f"{name}/keys", rows.keys)
            self._writer.append(f"{name}/values", weights)
            self._steps[name] = max(rows.steps, self._steps.get(name, 0))
            if rows.states.shape[1] > weights.shape[1]:
                self._writer.append(f"{name}/states", rows.states)
            self._count(name, len(rows.keys), weights)
            if self._text is not None:
                self._text.add(table.spec, rows.keys, weights)
        for dense, states, steps in copy.dense:
            name = dense.spec.name
            self._steps[name] = max(steps, self._steps.get(name, 0))
            first, end = dense.range_of(copy.shard)
            weights = dense.weights_of(states)
            self._ranges.setdefault(name, []).append((first, end))
            self._writer.append(f"{name}/values", weights)
            for index, state in enumerate(states if len(states) > 1 else ()):
                self._writer.append(f"{name}/state{index}", state)
            self._count(name, end - first, weights)
            if self._text is not None:
                self._text.add(
                    dense.spec, np.arange(first, end, dtype=np.int64), weights.reshape(-1, 1)
                )

    def _upload(self) -> None:
        metadata = {
            "format": MODEL_FORMAT,
            "tables": [table.spec.to_json() for table in self._tables],
            "ranges": self._ranges,
            "steps": self._steps,
        }
        self._write(self.folder, f"{self._part}.safetensors", metadata)
        if self._text is not None:
            for name, data in self._text.parts.items():
                self._write_text(name, bytes(data))

    def _write_text(self, table: str, data: bytes) -> None:
        one = len(self._tables) == 1
        name = f"{self._part}.txt" if one else f"{self._part}-{table}.txt"
        files, path = open_files(self.folder)
        files.write_bytes(f"{path.rstrip('/')}/{name}", data)
        self.files.append(pb.SavedFile(name=name, bytes=len(data), table=table))

    def report(self) -> pb.FromRole:
        return pb.FromRole(
            export_done=pb.ExportDone(path=self.folder, error=self.error, files=self.files)
        )


class TextPart:
    """Lines ``key value …`` of each table; rows of zeros are left out where 0 is the default."""

    def __init__(self) -> None:
        self.parts: dict[str, bytearray] = {}

    def add(self, spec: TableSpec, keys: NDArray[np.int64], weights: NDArray[Any]) -> None:
        part = self.parts.setdefault(spec.name, bytearray())
        if isinstance(spec.init, Zeros):
            kept = weights.any(axis=1)
            keys, weights = keys[kept], weights[kept]
        part += "".join(
            f"{key} {' '.join(map(repr, row))}\n"
            for key, row in zip(keys.tolist(), weights.tolist(), strict=True)
        ).encode()
