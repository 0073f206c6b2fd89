"""The schema for editors and the reference for readers say what `load` does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from yarnps.spec import APPS, Block, json_schema, reference

ROOT = Path(__file__).parents[2]


def _fields(model: type[BaseModel], path: str) -> Iterator[tuple[str, str | None]]:
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if hasattr(kind, "model_fields"):
            yield from _fields(kind, f"{path}.{name}")
        else:
            yield f"{path}.{name}", field.description


def test_the_reference_in_docs_is_the_current_one() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "yarnps.spec.reference"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert (ROOT / "docs" / "job-file.md").read_text(encoding="utf-8") == printed
    assert reference() == reference() == printed  # twice: its module must not hide it


def test_every_key_is_described() -> None:
    text = reference()
    models: dict[str, type[BaseModel]] = {"yarnps": Block, **APPS}
    for path, model in models.items():
        for name, description in _fields(model, path):
            assert description, name
            row = rf"^\| `{name.rpartition('.')[2]}` \|.*{re.escape(description)}"
            assert re.search(row, text, re.MULTILINE), name


def test_the_schema_covers_the_whole_file() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"name", "queue", "services", "master", "acls", "yarnps"} <= set(schema["properties"])
    definitions = schema["$defs"]
    assert definitions["Data"]["required"] == ["train"]
    for name, definition in definitions.items():
        objects = [d for d in definition.get("anyOf", [definition]) if d.get("type") == "object"]
        assert objects, name
        assert all(d["additionalProperties"] is False for d in objects), name


def test_the_schema_knows_the_programs() -> None:
    schema = json_schema()
    block = schema["$defs"]["Block"]
    assert block["properties"]["app"]["anyOf"][0]["enum"] == list(APPS)
    for (name, model), rule in zip(APPS.items(), block["allOf"], strict=True):
        assert rule["if"]["properties"]["app"] == {"const": name}
        target = rule["then"]["properties"]["params"]["$ref"].removeprefix("#/$defs/")
        assert set(schema["$defs"][target]["properties"]) == set(model.model_fields)


def test_every_reference_in_the_schema_leads_somewhere() -> None:
    schema = json_schema()

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            for inner in part.values():
                yield from references(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from references(inner)

    names = {name.removeprefix("#/$defs/") for name in references(schema)}
    assert names == set(schema["$defs"])
