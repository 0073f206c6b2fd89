"""pydantic's errors in the words of the job file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from yarnps._errors import JobFileError, Problem

from ._walk import annotation_at, nearest, nearest_key
from ._yaml import Path, Place, format_path

REMEDY: Final = "every key is described in docs/job-file.md; `yarnps schema` helps your editor"

_MAPPING: Final = "expected a mapping (key: value)"
_EXPECTED: Final[dict[str, str]] = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "string_type": "expected a text",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "string_too_short": "expected a text that is not empty",
}
_BOUNDS: Final[dict[str, tuple[str, str]]] = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def spoken(value: Any, text: str = "") -> str:
    """A value of the file, as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return text or ("true" if value else "false")
    if isinstance(value, (int, float)):
        return f"the number {text or value}"
    if isinstance(value, str):
        written = text or value
        shown = written if len(written) <= 60 else written[:57] + "..."
        return f"the text {shown!r}"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def problems_of(
    error: ValidationError, places: Mapping[Path, Place], *, root: Path = ()
) -> list[Problem]:
    """All problems that pydantic found, each with its place.

    Parameters
    ----------
    root : Path
        Where in the file the validated value stands.
    """
    found = []
    for entry in error.errors(include_url=False):
        path = (*root, *(step for step in entry["loc"] if step != "[key]"))
        place = place_of(path, places)
        message, near = _message(dict(entry), path, places)
        found.append(Problem(place.line, format_path(path), message, near, place.source))
    return found


def place_of(path: Path, places: Mapping[Path, Place]) -> Place:
    """Where a path stands: itself, or the nearest thing above it; the root has no line."""
    for end in range(len(path), 0, -1):
        if path[:end] in places:
            return places[path[:end]]
    return Place(places[()].source if () in places else "", 0)


def _message(entry: dict[str, Any], path: Path, places: Mapping[Path, Place]) -> tuple[str, str]:
    kind, value, context = entry["type"], entry["input"], entry.get("ctx", {})
    text = places[path].text if path in places else ""
    if kind == "yarnps":
        return context["message"], context.get("near", "")
    if kind == "missing":
        return f"missing: {_description(path)}", ""
    if kind == "extra_forbidden":
        return "unknown key", nearest_key(path)
    if kind == "literal_error":
        expected = context["expected"]
        words = tuple(word.strip("'") for word in expected.replace(" or ", ", ").split(", "))
        near = nearest(value, words) if isinstance(value, str) else ""
        return f"expected {expected.replace(chr(39), '')}, found {spoken(value, text)}", near
    if kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"expected {word} {context[key]:g}, found {text or value}", ""
    expected = _EXPECTED.get(kind, entry["msg"])
    message = f"{expected}, found {spoken(value, text)}"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        quoted = f'"{text or value}"'
        name = "" if isinstance(path[-1], int) else f"{path[-1]}: "
        message += f": put it in quotes ({name}{quoted})"
    return message, ""


def _description(path: Path) -> str:
    parent = annotation_at(path[:-1])
    fields: Mapping[str, Any] = getattr(parent, "model_fields", {})
    info = fields.get(str(path[-1]))
    if info is not None and info.description:
        return str(info.description).split(". ")[0].rstrip(".")
    kind = annotation_at(path)
    doc = str(getattr(kind, "__doc__", "") or "").split("\n")[0].rstrip(".")
    return doc or "this key is needed"


def job_file_error(name: str, problems: list[Problem]) -> JobFileError:
    """One error for all problems, ordered by their place."""
    ordered = sorted(set(problems), key=lambda p: (p.source != name, p.source, p.line, p.path))
    if len(ordered) == 1:
        return JobFileError(str(ordered[0]), REMEDY, ordered)
    lines = "\n".join(f"  {problem}" for problem in ordered)
    return JobFileError(f"{len(ordered)} problems in {name}:\n{lines}", REMEDY, ordered)
