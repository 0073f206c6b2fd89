"""Reading tables in: the shards of a cut after a restart, or a model to start from."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.files import open_files
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.shards import Sections, frozen, partition, shard_bits
from yarnps.protocol.tables import TableSpec
from yarnps.server.admission import Candidates
from yarnps.server.dense import DenseTable
from yarnps.server.marks import Key, ShardMark
from yarnps.server.saving import CUT_FORMAT, MODEL_FORMAT
from yarnps.server.sparse import SparseTable
from yarnps.server.steps import Steps
from yarnps.server.store import Store
from yarnps.server.tensors import TensorReader

log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 1 << 20


def load_shards(store: Store, load: pb.Load, steps: Steps | None = None) -> int:
    """Fill a store with what `Begin` says; returns the cut that was loaded, or -1.

    Raises
    ------
    DataError
        A file is missing, broken or of another job.
    """
    if load.path and load.cut >= 0:
        for name in sorted({file.name for file in load.files}):
            _load_cut_file(store, f"{load.path.rstrip('/')}/{name}", steps)
        return load.cut
    if load.init_from:
        store.prepare(ModelRows(store, load.init_from))
    return -1


def _metadata(reader: TensorReader, address: str, expected: str) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads(reader.metadata.get("yarnps", "{}"))
    if metadata.get("format") != expected:
        raise DataError(
            f"{address} is of the format {metadata.get('format')}, not {expected}",
            "it was written by something else, or by another version of yarnps",
        )
    return metadata


# ---------------------------------------------------------------------- cuts


def _load_cut_file(store: Store, address: str, steps: Steps | None) -> None:
    files, path = open_files(address)
    with files.open(path, "rb") as file:
        reader = TensorReader(file, address)
        metadata = _metadata(reader, address, CUT_FORMAT)
        if metadata["shards"] != store.shards:
            raise DataError(
                f"{address} has {metadata['shards']} shards, this job {store.shards}",
                "server.shards cannot change within a job",
            )
        saved: list[int] = metadata["owned"]
        wanted = [index for index, shard in enumerate(saved) if store.places[shard] >= 0]
        if not wanted:
            return
        for text in metadata["tables"]:
            table = store.open(TableSpec.from_json(text))
            if isinstance(table, SparseTable):
                _load_sparse(table, reader, saved, wanted)
            else:
                _load_dense(table, reader, saved, wanted)
        _load_marks(store, reader, metadata, wanted)
        store.clock = max(store.clock, int(metadata.get("clock", 0)))
        if steps is not None and metadata.get("steps"):
            steps.restore(metadata["steps"])


def _load_sparse(
    table: SparseTable, reader: TensorReader, saved: list[int], wanted: list[int]
) -> None:
    name = table.spec.name
    for run, sections, first, count in _runs_of(reader, name, saved, wanted):
        stamps = None
        if f"{name}/stamps" in reader:
            stamps = reader.read(f"{name}/stamps", first, count)
        table.load(
            frozen(reader.read(f"{name}/keys", first, count)),
            sections,
            reader.read(f"{name}/states", first, count),
            stamps,
        )
        steps = reader.read(f"{name}/steps", run[0], len(run)) if f"{name}/steps" in reader else 0
        table.set_steps([saved[index] for index in run], steps)
    name = f"{name}/candidates"
    if f"{name}/keys" not in reader:
        return
    for _, sections, first, count in _runs_of(reader, name, saved, wanted):
        stamps = None
        if f"{name}/stamps" in reader:
            stamps = reader.read(f"{name}/stamps", first, count)
        table.load_candidates(
            sections,
            Candidates(
                frozen(reader.read(f"{name}/keys", first, count)),
                reader.read(f"{name}/seen", first, count),
                stamps,
            ),
        )


class _Run(NamedTuple):
    """Neighbouring shards of a file: their places there, sections, and where their rows are."""

    places: list[int]
    sections: Sections
    first: int
    rows: int


def _runs_of(
    reader: TensorReader, name: str, saved: list[int], wanted: list[int]
) -> Iterator[_Run]:
    counts = reader.read(f"{name}/counts")
    starts = np.concatenate([[0], np.cumsum(counts)])
    for run in _runs(wanted):
        first, end = int(starts[run[0]]), int(starts[run[-1] + 1])
        sections = np.array([(saved[index], counts[index]) for index in run], np.uint32)
        yield _Run(run, frozen(sections), first, end - first)


def _load_dense(
    table: DenseTable, reader: TensorReader, saved: list[int], wanted: list[int]
) -> None:
    name = table.spec.name
    starts = np.cumsum([0] + [table.range_of(s)[1] - table.range_of(s)[0] for s in saved])
    steps = reader.read(f"{name}/steps") if f"{name}/steps" in reader else None
    for index in wanted:
        first, end = table.range_of(saved[index])
        states: list[NDArray[Any]] = []
        while f"{name}/state{len(states)}" in reader:
            key = f"{name}/state{len(states)}"
            states.append(reader.read(key, int(starts[index]), end - first))
        table.load(saved[index], first, np.stack(states))
        table.set_steps([saved[index]], 0 if steps is None else steps[index])


def _load_marks(
    store: Store, reader: TensorReader, metadata: dict[str, Any], wanted: list[int]
) -> None:
    keys = [Key(*key) for key in metadata["marks"]]
    expected, above = reader.read("marks/next"), reader.read("marks/above")
    for index in wanted:
        beyond: dict[int, list[int]] = {}
        for row, batch, _ in above[above[:, 2] == index].tolist():
            beyond.setdefault(row, []).append(batch)
        store.marks.restore(
            metadata["owned"][index],
            [
                ShardMark(key, int(expected[row, index]), tuple(beyond.get(row, ())))
                for row, key in enumerate(keys)
            ],
        )
    store.marks.restore_closed((epoch, split) for epoch, split in metadata["closed"])
    store.marks.restore_tokens(tuple(token) for token in metadata["tokens"])


def _runs(indices: list[int]) -> list[list[int]]:
    """Neighbouring numbers together."""
    grouped = groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0])
    return [[index for _, index in group] for _, group in grouped]


# ---------------------------------------------------------------------- models


class ModelRows:
    """The rows of a model's folder that belong to a store, by table.

    They are read before the server is ready, and put in a table when a worker opens it: only then
    is its optimizer known. With the same optimizer its states are taken over; with another the
    weights are.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._rows: dict[str, list[_Rows]] = {}
        self._steps: dict[str, int] = {}
        files, path = open_files(folder)
        parts = [
            info
            for info in files.list(path)
            if not info.is_dir and info.path.endswith(".safetensors")
        ]
        if not parts:
            raise DataError(
                f"no model in {folder}", "model.init_from must name a folder that a job has written"
            )
        for info in sorted(parts):
            with files.open(info.path, "rb") as file:
                reader = TensorReader(file, files.address(info.path))
                metadata = _metadata(reader, files.address(info.path), MODEL_FORMAT)
                for name, steps in metadata.get("steps", {}).items():
                    self._steps[name] = max(steps, self._steps.get(name, 0))
                for text in metadata["tables"]:
                    spec = TableSpec.from_json(text)
                    if spec.kind == "sparse":
                        self._read_sparse(spec, reader)
                    else:
                        self._read_dense(spec, reader, metadata["ranges"].get(spec.name, []))

    def fill(self, table: SparseTable | DenseTable) -> None:
        """Put the rows into a new table.

        Raises
        ------
        DataError
            The model's table has another shape.
        """
        for rows in self._rows.pop(table.spec.name, []):
            if (rows.spec.kind, rows.spec.shape) != (table.spec.kind, table.spec.shape):
                raise DataError(
                    f"the model's table {table.spec.name} is {rows.spec.kind} with shape "
                    f"{rows.spec.shape}, the job's {table.spec.kind} with {table.spec.shape}",
                    "start from a model of the same program",
                )
            same = rows.spec.optimizer == table.spec.optimizer and rows.states is not None
            states = rows.states if same else table.states_of(rows.weights.astype(table.dtype))
            assert states is not None
            if same:
                table.set_steps(self._store.owned, self._steps.get(table.spec.name, 0))
            if isinstance(table, SparseTable):
                table.load(rows.keys, rows.sections, states.astype(table.dtype))
            else:
                table.load(int(rows.sections[0, 0]), int(rows.keys[0]), states.astype(table.dtype))

    def _read_sparse(self, spec: TableSpec, reader: TensorReader) -> None:
        name, store = spec.name, self._store
        bits = shard_bits(store.shards)
        # Others' shards come last and are left out.
        position = np.where(store.places >= 0, store.places, len(store.owned)).astype(np.int32)
        for first in range(0, reader.rows(f"{name}/keys"), _ROWS_AT_A_TIME):
            count = min(_ROWS_AT_A_TIME, reader.rows(f"{name}/keys") - first)
            parted = partition(reader.read(f"{name}/keys", first, count), bits, position)
            mine = int(parted.starts[len(store.owned)])
            order = parted.order[:mine]
            sections = np.stack(
                [np.array(store.owned), np.diff(parted.starts[: len(store.owned) + 1])], axis=1
            ).astype(np.uint32)
            states = None
            if f"{name}/states" in reader:
                states = reader.read(f"{name}/states", first, count)[order]
            weights = reader.read(f"{name}/values", first, count)[order]
            keys = parted.keys[:mine]
            self._rows.setdefault(name, []).append(
                _Rows(spec, frozen(keys), frozen(sections), weights, states)
            )

    def _read_dense(
        self, spec: TableSpec, reader: TensorReader, ranges: list[tuple[int, int]]
    ) -> None:
        """Pieces that lie in one shard of ours each."""
        bounds = DenseTable.bounds_of(spec, self._store.shards)
        at = 0
        for first, end in ranges:
            for shard in self._store.owned:
                low, high = max(first, int(bounds[shard])), min(end, int(bounds[shard + 1]))
                if low < high:
                    self._rows.setdefault(spec.name, []).append(
                        _dense_rows(spec, reader, shard, low, high, at + low - first)
                    )
            at += end - first


class _Rows:
    """Rows of a model for one store: sparse as a message has them, dense a piece of one shard."""

    def __init__(
        self, spec: TableSpec, keys: Any, sections: Any, weights: NDArray[Any], states: Any
    ) -> None:
        self.spec = spec
        self.keys = keys
        self.sections = sections
        self.weights = weights
        self.states: NDArray[Any] | None = states


def _dense_rows(
    spec: TableSpec, reader: TensorReader, shard: int, low: int, high: int, at: int
) -> _Rows:
    states: list[NDArray[Any]] = []
    while f"{spec.name}/state{len(states)}" in reader:
        states.append(reader.read(f"{spec.name}/state{len(states)}", at, high - low))
    return _Rows(
        spec,
        np.array([low], np.int64),
        np.array([(shard, 1)], np.uint32),
        reader.read(f"{spec.name}/values", at, high - low),
        np.stack(states) if states else None,
    )
