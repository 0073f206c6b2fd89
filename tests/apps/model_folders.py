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


def write_part(path: Path, weights: Mapping[int, float], spec: TableSpec = SPEC) -> None:
    """One server's part."""
    writer = TensorWriter()
    writer.append(f"{spec.name}/keys", np.array(list(weights), np.int64))
    writer.append(f"{spec.name}/values", np.array(list(weights.values()), np.float32)[:, None])
    metadata = {"format": "yarnps-model-1", "tables": [spec.to_json()], "ranges": {}}
    with open(path, "wb") as file:
        writer.write(file, {"yarnps": json.dumps(metadata)})
    writer.close()


def write_model(
    folder: Path, parts: Sequence[Mapping[int, float]], **manifest: Any
) -> dict[str, Any]:
    """A whole model; `manifest` replaces fields of its manifest, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, weights in enumerate(parts):
        name = f"part-{rank}.safetensors"
        write_part(folder / name, weights)
        files.append({"name": name, "bytes": 0, "rows": len(weights), "table": "w", "sum": 0.0})
    whole = {
        "format": "yarnps-model-1",
        "app": "ftrl",
        "params": {},
        "data": {"train": ["file:///nowhere/*"], "format": "libsvm"},
        "files": files,
        **manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(whole))
    return whole
