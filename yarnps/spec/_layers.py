"""Site defaults, the job file and `--set`, laid over one another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from yarnps._errors import Problem

from ._walk import annotation_at
from ._yaml import Path, Place, Tree, format_path, parse, parse_value, split_path

SITE_FILE: Final = "/etc/yarnps.yaml"
USER_FILE: Final = "~/.config/yarnps.yaml"
SITE_VARIABLE: Final = "YARNPS_CONFIG"


def read_tree(path: FilePath, source: str) -> tuple[str, Tree]:
    """The text of a file and what it says; what is wrong is in the tree's problems."""

    def wrong(message: str) -> tuple[str, Tree]:
        return "", Tree(problems=[Problem(0, "", message, source=source)])

    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return wrong("no such file")
    except OSError as error:
        return wrong(f"cannot be read: {error.strerror}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 text (byte 0x{raw[error.start]:02x})"
        return "", Tree(problems=[Problem(line, "", message, source=source)])
    # JSON may be indented with tabs, YAML may not.
    return text, parse(text.expandtabs() if path.suffix == ".json" else text, source)


def site_files() -> list[tuple[FilePath, bool]]:
    """The files of site defaults in rising order, each with whether it has to exist."""
    files = [(FilePath(SITE_FILE), False), (FilePath(os.path.expanduser(USER_FILE)), False)]
    if named := os.environ.get(SITE_VARIABLE):
        files.append((FilePath(named), True))
    return files


def read_sites(site: Sequence[FilePath] | None) -> list[Tree]:
    """Site defaults; an empty file says nothing."""
    files = site_files() if site is None else [(FilePath(path), True) for path in site]
    trees = []
    for path, needed in files:
        if not needed and not path.exists():
            continue
        trees.append(read_tree(path, str(path))[1])
    return trees


def read_set(text: str) -> Tree:
    """`path=value`, as a tree of one key."""
    source = f"--set {text}"

    def wrong(message: str, near: str = "") -> Tree:
        return Tree(problems=[Problem(0, "", message, near, source)])

    name, equals, value_text = text.partition("=")
    if not equals:
        return wrong("expected path=value, such as yarnps.train.epochs=3")
    try:
        path = split_path(name.strip())
    except ValueError:
        return wrong(
            f"{name!r} is not a path of keys: expected such as services.worker.instances; "
            "a list is set as a whole"
        )
    try:
        value = parse_value(value_text)
    except yaml.YAMLError as error:
        mark = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
        return wrong(f"the value is not valid YAML: {mark}")
    if annotation_at(path) is str and isinstance(value, (bool, int, float)):
        value = value_text.strip()  # nobody wants to quote twice on a command line
    data: Any = value
    for step in reversed(path):
        data = {step: data}
    places: dict[Path, Place] = {path[:end]: Place(source, 0) for end in range(1, len(path))}
    places[path] = Place(source, 0, "" if isinstance(value, (dict, list)) else value_text.strip())
    return Tree(data, places)


def overlay(base: Tree, over: Tree) -> Tree:
    """`over` on top of `base`: mappings are merged, everything else is replaced."""
    places = dict(base.places)
    problems = [*base.problems, *over.problems]

    def merge(below: Any, above: Any, path: Path) -> Any:
        if isinstance(below, dict) and isinstance(above, dict):
            merged = dict(below)
            for key, value in above.items():
                if key in below:
                    merged[key] = merge(below[key], value, (*path, key))
                else:
                    adopt((*path, key))
                    merged[key] = value
            return merged
        adopt(path)
        if isinstance(above, dict) and below is not None and not over_is_file:
            at = over.places.get(path, Place("", 0))
            what = f"{format_path(path)} is not a mapping"
            problems.append(Problem(0, format_path(path), what, source=at.source))
        return above

    def adopt(path: Path) -> None:
        for old in [p for p in places if p[: len(path)] == path]:
            del places[old]
        for new, place in over.places.items():
            if new[: len(path)] == path:
                places[new] = place

    over_is_file = () in over.places
    if over.data is None:
        return Tree(base.data, places, problems)
    if base.data is None:
        return Tree(over.data, {**places, **over.places}, problems)
    data = merge(base.data, over.data, ())
    if over_is_file:
        places[()] = over.places[()]
    return Tree(data, places, problems)
