"""YAML with the place of every key: for messages that name a line.

Texts that YAML 1.1 turns into surprises stay what they look like: `1e-3` is a number, `10:30` and
`2024-01-01` are texts, `010` is ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

from yarnps._errors import Problem

Path = tuple["str | int", ...]

MAX_NODES: Final = 200_000  # aliases of aliases can make a small file endless


class Place(NamedTuple):
    """Where a key stands."""

    source: str
    line: int
    text: str = ""  # a scalar as written

    @property
    def origin(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass
class Tree:
    """Plain data with the places of its keys."""

    data: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class _Loader(yaml.SafeLoader):
    """The safe loader, with YAML 1.2's idea of what a number is."""


_INT: Final = re.compile(r"[-+]?[0-9][0-9_]*|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
    r"|\.(?:nan|NaN|NAN)"
)
_REPLACED: Final = {f"tag:yaml.org,2002:{tag}" for tag in ("int", "float", "timestamp")}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in (("int", _INT), ("float", _FLOAT)):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern.pattern})$"), list("-+.0123456789")
    )


def compose(text: str) -> yaml.Node | None:
    """The node tree of a text, or a yaml.YAMLError."""
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


def parse(text: str, source: str) -> Tree:
    """Read a YAML text; what is wrong with it is in the result's `problems`.

    An empty text is not wrong: its data is None.
    """
    tabs = list(_tabs(text, source))
    try:
        node = compose(text)
    except yaml.YAMLError as error:
        return Tree(problems=tabs or [_syntax(error, source)])
    if node is None:
        return Tree()
    reader = _Reader(source)
    data = reader.read(node, (), frozenset())
    if not reader.problems and not isinstance(data, dict):
        reader.problem(node, (), "expected a mapping (key: value) at the top")
    return Tree(data, reader.places, reader.problems)


def parse_value(text: str) -> Any:
    """The value of `--set path=value`; raises yaml.YAMLError."""
    node = compose(text)
    return None if node is None else _Reader("").read(node, (), frozenset())


class _Reader:
    """Makes plain data of nodes and remembers where each key stood."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self._nodes = 0

    def problem(self, node: yaml.Node, path: Path, message: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append(Problem(line, format_path(path), message, source=self.source))

    def read(self, node: yaml.Node, path: Path, above: frozenset[int]) -> Any:
        self._nodes += 1
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        self.places.setdefault(path, Place(self.source, node.start_mark.line + 1))
        self.places[path] = self.places[path]._replace(text=text)
        if id(node) in above or self._nodes > MAX_NODES:
            if self._nodes <= MAX_NODES:
                self.problem(node, path, "an alias (*name) of something that contains it")
            elif self._nodes == MAX_NODES + 1:
                self.problem(node, path, f"more than {MAX_NODES} values, counting aliases")
            return None
        above |= {id(node)}
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, above)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, i), above) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path, above: frozenset[int]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merge = "tag:yaml.org,2002:merge"
        for key_node, value_node in node.value:
            if key_node.tag == merge:
                for merged in self._merged(value_node, path, above):
                    result = {**merged, **result}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == merge:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, path, "a key must be a plain text, found a list or mapping")
                continue
            key = key_node.value  # as written: `on:` is the key "on"
            if key in lines:
                inner = (*path, key)
                self.problem(key_node, inner, f"given twice: first on line {lines[key]}")
                continue
            lines[key] = line
            here: Path = (*path, key)
            for old in [p for p in self.places if p[: len(path) + 1] == here]:
                del self.places[old]  # came from a merge (<<) before
            self.places[here] = Place(self.source, line)
            result[key] = self.read(value_node, here, above)
        return result

    def _merged(
        self, node: yaml.Node, path: Path, above: frozenset[int]
    ) -> Iterator[dict[str, Any]]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            value = self.read(source, path, above)
            if isinstance(value, dict):
                yield value
            else:
                self.problem(source, path, "<< must be followed by a mapping or its alias")

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        tag = node.tag.rpartition(":")[2]
        if tag == "str":
            return node.value
        if tag == "null":
            return None
        if tag == "bool":
            return node.value.lower() in ("yes", "true", "on")
        digits = node.value.replace("_", "")
        try:
            if tag == "int":
                return int(digits, 0 if digits[:2] in ("0x", "0o") else 10)
            if tag == "float":
                return float(digits.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self.problem(node, path, f"not a number: {node.value!r}")
            return None
        self.problem(node, path, f"the tag {node.tag!r} is not supported: write plain YAML")
        return None


def _tabs(text: str, source: str) -> Iterator[Problem]:
    for number, line in enumerate(text.splitlines(), 1):
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and line.strip():
            yield Problem(number, "", "indented with a tab: YAML wants spaces", source=source)


def _syntax(error: yaml.YAMLError, source: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        text = error.problem or str(error)
        if error.context:
            began = error.context_mark
            at = f" from line {began.line + 1}" if began and began.line + 1 != line else ""
            text = f"{text} ({error.context}{at})"
        return Problem(line, "", f"not valid YAML: {text}", source=source)
    text = " ".join(str(error).split())
    return Problem(0, "", f"not valid YAML: {text}", source=source)


def format_path(path: Path) -> str:
    """`("services", "a", "files", "x.py", 0)` as `services.a.files."x.py"[0]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        plain = step if re.fullmatch(r"[^\s.\[\]\"=]+", step) else f'"{step}"'
        text += f".{plain}" if text else plain
    return text


def split_path(text: str) -> tuple[str, ...]:
    """The steps of a path as `--set` takes it; raises ValueError.

    Examples
    --------
    >>> split_path('services.worker.files."train.py"')
    ('services', 'worker', 'files', 'train.py')
    """
    if not re.fullmatch(r'(?:"[^"]+"|[^\s."=\[\]]+)(?:\.(?:"[^"]+"|[^\s."=\[\]]+))*', text):
        raise ValueError(text)
    return tuple(a or b for a, b in re.findall(r'"([^"]+)"|([^."]+)', text))
