"""Model folders for tests, written as servers and ApplicationMaster write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yarnps.protocol.tables import Ftrl, TableSpec
from yarnps.server.tensors import TensorWriter

SPEC = TableSpec("w", "sparse", (1,), optimizer=Ftrl())


def write_part(path: Path, weights: Mapping[int, Any], spec: TableSpec = SPEC) -> None:
    """One server's part; a row is a number or a list."""
    write_file(path, [(spec, weights)])


def write_file(path: Path, tables: Sequence[tuple[TableSpec, Mapping[int, Any]]]) -> None:
    """One server's part with rows of several tables."""
    writer = TensorWriter()
    for spec, rows in tables:
        values = np.array(list(rows.values()), np.float32).reshape(len(rows), spec.dim)
        writer.append(f"{spec.name}/keys", np.array(list(rows), np.int64))
        writer.append(f"{spec.name}/values", values)
    described = [spec.to_json() for spec, _ in tables]
    metadata = {"format": "yarnps-model-1", "tables": described, "ranges": {}}
    with open(path, "wb") as file:
        writer.write(file, {"yarnps": json.dumps(metadata)})
    writer.close()


def write_model(
    folder: Path, parts: Sequence[Mapping[int, float]], **manifest: Any
) -> dict[str, Any]:
    """A whole model of ftrl; `manifest` replaces fields of its manifest, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, weights in enumerate(parts):
        name = f"part-{rank}.safetensors"
        write_part(folder / name, weights)
        files.append(described_file(name, SPEC, weights))
    return write_manifest(folder, files, **manifest)


def write_tables(
    folder: Path, tables: Sequence[tuple[TableSpec, Mapping[int, Any]]], **manifest: Any
) -> None:
    """A whole model in one part."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "part-0.safetensors"
    write_file(folder / name, tables)
    files = [described_file(name, spec, rows) for spec, rows in tables]
    write_manifest(folder, files, **manifest)


def described_file(name: str, spec: TableSpec, rows: Mapping[int, Any]) -> dict[str, Any]:
    return {"name": name, "bytes": 0, "rows": len(rows), "table": spec.name, "sum": 0.0}


def write_manifest(folder: Path, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    whole = {
        "format": "yarnps-model-1",
        "app": "ftrl",
        "params": {},
        "data": {"train": ["file:///nowhere/*"], "format": "libsvm"},
        "files": files,
        **more,
    }
    (folder / "manifest.json").write_text(json.dumps(whole))
    return whole
