"""Reading a model that a job has written: ``manifest.json`` and the servers' parts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yarnps._errors import DataError
from yarnps.files import Files, open_files
from yarnps.protocol.tables import TableSpec
from yarnps.server.tensors import TensorReader

FORMAT = "yarnps-model-1"
MANIFEST = "manifest.json"
REWRITE = "Let a job write the model again; a folder is complete when it has its manifest."


@dataclass(frozen=True)
class Weights:
    """Rows of a sparse table; a key that is not there has the weight 0.

    Attributes
    ----------
    keys
        int64, increasing.
    values
        float32, a row for each key: shape (n,) for tables with one number, otherwise (n, dim).
    """

    keys: NDArray[np.int64]
    values: NDArray[np.float32]

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """The row of each key."""
        out = np.zeros((len(keys), *self.values.shape[1:]), np.float32)
        if len(self.keys):
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            known = self.keys[places] == keys
            out[known] = self.values[places[known]]
        return out


class ModelFolder:
    """A model's folder.

    Parameters
    ----------
    address
        As `model.path` of a job file, on any file system.

    Raises
    ------
    DataError
        It is no model, or one of another version.
    """

    def __init__(self, address: str) -> None:
        self._files, self._path = open_files(address)
        self.address = self._files.address(self._path)
        self._manifest = _manifest(self._files, self._path, self.address)
        self.app = str(self._manifest.get("app") or "")
        self.params: dict[str, Any] = self._field("params", dict)
        self.data: dict[str, Any] = self._field("data", dict)

    def weights(self, table: str) -> Weights:
        """All rows of a table that are not 0.

        Raises
        ------
        DataError
            A part is missing or is not what the manifest says.
        """
        listed = [f for f in self._field("files", list) if f.get("table") == table]
        parts = [f for f in listed if str(f.get("name", "")).endswith(".safetensors")]
        if not parts:
            raise DataError(f"the model has no table {table}: {self.address}", REWRITE)
        read = [self._part(str(part["name"]), table, int(part["rows"])) for part in parts]
        keys = np.concatenate([keys for keys, _ in read])
        values = np.concatenate([values for _, values in read])
        order = np.argsort(keys, kind="stable")
        return Weights(keys[order], values[order])

    def _part(
        self, name: str, table: str, rows: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        path = f"{self._path.rstrip('/')}/{name}"
        address = self._files.address(path)
        with self._files.open(path, "rb") as file:
            reader = TensorReader(file, address)
            metadata = json.loads(reader.metadata.get("yarnps", "{}"))
            specs = [TableSpec.from_json(text) for text in metadata.get("tables", ())]
            spec = next((s for s in specs if s.name == table and s.kind == "sparse"), None)
            if metadata.get("format") != FORMAT or spec is None:
                raise DataError(f"not a part of this model: {address}", REWRITE)
            if f"{table}/keys" not in reader:  # a server that has got no key at all
                found = 0
                keys, values = np.empty(0, np.int64), np.empty((0, spec.dim), np.float32)
            else:
                found = reader.rows(f"{table}/keys")
                keys = reader.read(f"{table}/keys")
                values = reader.read(f"{table}/values").reshape(-1, spec.dim)
        if found != rows:
            raise DataError(
                f"{address} has {found:,} rows of table {table}, its manifest says {rows:,}",
                REWRITE,
            )
        kept = values.any(axis=1)
        weights = values[kept].astype(np.float32, copy=False)
        return keys[kept], weights[:, 0] if spec.dim == 1 else weights

    def _field(self, name: str, kind: type) -> Any:
        value = self._manifest.get(name)
        if not isinstance(value, kind):
            raise DataError(f"the manifest of the model has no {name}: {self.address}", REWRITE)
        return value


def _manifest(files: Files, path: str, address: str) -> dict[str, Any]:
    name = f"{path.rstrip('/')}/{MANIFEST}"
    if not files.exists(name):
        there = files.exists(path)
        raise DataError(
            f"no model in {address}: "
            + (f"it has no {MANIFEST}" if there else "it does not exist"),
            "Give the folder that a job has written; its last line of output names it.",
        )
    try:
        manifest = json.loads(files.read_bytes(name))
    except ValueError as error:
        raise DataError(f"{files.address(name)} is not JSON: {error}", REWRITE) from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise DataError(
            f"{files.address(name)} is of the format {found}, not {FORMAT}",
            "It was written by something else, or by another version of yarnps.",
        )
    result: dict[str, Any] = manifest
    return result
