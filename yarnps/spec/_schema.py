"""JSON schema of a job file, for editors."""

from __future__ import annotations

from typing import Any, Final

from ._params import APPS
from ._skein import Application

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of a whole job file: skein's part and the `yarnps` block.

    Rules over several keys (one of `app` and `script`, known `depends`, ...) are not in it; what
    it refuses, `load` refuses, too.
    """
    schema = Application.model_json_schema(mode="validation")
    definitions = schema["$defs"]
    _short_files(definitions)
    _app_params(schema, definitions)
    for definition in [schema, *definitions.values()]:
        _allow_empty(definition)
    return {"$schema": DIALECT, **schema, "title": "yarnps job file"}


def _short_files(definitions: dict[str, Any]) -> None:
    """A file may be just its source; names of enumerations may be in lower case."""
    file = definitions["File"]
    for key in ("type", "visibility"):
        _any_case(file["properties"][key])
    _any_case(definitions["Master"]["properties"]["log_level"])
    definitions["File"] = {
        "anyOf": [{"type": "string", "minLength": 1}, file],
        "description": file.pop("description"),
    }


def _any_case(field: dict[str, Any]) -> None:
    field["enum"] = [*field["enum"], *(word.lower() for word in field["enum"])]


def _app_params(schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """`params` of a built-in program are that program's."""
    definitions["Block"]["properties"]["app"]["anyOf"][0]["enum"] = list(APPS)
    rules = []
    for app, model in APPS.items():
        name = f"params of {app}"
        definitions[name] = model.model_json_schema()
        rules.append(
            {
                "if": {"properties": {"app": {"const": app}}, "required": ["app"]},
                "then": {"properties": {"params": {"$ref": f"#/$defs/{name}"}}},
            }
        )
    definitions["Block"]["allOf"] = rules


def _allow_empty(definition: dict[str, Any]) -> None:
    """A key without a value means its default, except where there is none."""
    required = definition.get("required", ())
    for key, field in definition.get("properties", {}).items():
        if key in required or {"type": "null"} in field.get("anyOf", ()):
            continue
        kept = {k: field.pop(k) for k in ("description", "default", "title") if k in field}
        inner = dict(field)
        field.clear()
        field.update(kept, anyOf=[inner, {"type": "null"}])
