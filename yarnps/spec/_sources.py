"""Where every value of a job came from (`yarnps render --sources`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from ._block import Block
from ._job import DEFAULT_MAX_RESTARTS, ROLES, Source
from ._skein import Application
from ._yaml import Path, Place, format_path

DEFAULT = "default"


def sources_of(
    application: Application,
    block: Block | None,
    data: Mapping[str, Any],
    places: Mapping[Path, Place],
) -> Iterator[Source]:
    """Every leaf: skein's keys that are given, the roles' numbers, and all of the block."""

    def origin(path: Path) -> str:
        for end in range(len(path), 0, -1):
            if path[:end] in places:
                inside_leaf = isinstance(_at(data, path[:end]), Mapping) and end < len(path)
                return DEFAULT if inside_leaf else places[path[:end]].origin
        return DEFAULT

    def given(value: Any, path: Path) -> Iterator[Source]:
        if isinstance(value, Mapping) and value:
            for key, inner in value.items():
                yield from given(inner, (*path, key))
        elif value is not None:
            yield Source(format_path(path), value, origin(path))

    for key in type(application).model_fields:
        if key not in ("services", "yarnps"):
            yield from given(data.get(key), (key,))
    services = data.get("services") or {}
    for name, service in services.items():
        yield from given(service, ("services", name))
        if block is not None and name in ROLES:
            for key, value in (("instances", 1), ("max_restarts", DEFAULT_MAX_RESTARTS)):
                if service.get(key) is None:
                    yield Source(format_path(("services", name, key)), value, DEFAULT)
    if block is not None:
        for path, value in _leaves(block, ("yarnps",)):
            at = origin(path)
            yield Source(format_path(path), value, at if _at(data, path) is not None else DEFAULT)


def _leaves(model: BaseModel, path: Path) -> Iterator[tuple[Path, Any]]:
    for key in type(model).model_fields:
        value = getattr(model, key)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*path, key))
        elif isinstance(value, dict):
            yield from (((*path, key, name), inner) for name, inner in value.items())
        else:
            yield (*path, key), list(value) if isinstance(value, tuple) else value


def _at(data: Any, path: Path) -> Any:
    for step in path:
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data
