"""The documentation is true where a program can tell: links, commands, keys, kinds, examples."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml
from pydantic import BaseModel

import yarnps
from yarnps.causes import Cause
from yarnps.client import exits
from yarnps.client.main import VERBS, cli
from yarnps.spec import Block, load

ROOT = Path(__file__).parents[1]
GENERATED = {"job-file.md", "drill.md", "drill-bsp.md", "drill-bsp-local.md", "drill-dmlc.md"}
PAGES = sorted([ROOT / "README.md", ROOT / "docker" / "README.md", *(ROOT / "docs").glob("*.md")])
LONGEST = 200
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
each_page = pytest.mark.parametrize("page", PAGES, ids=IDS)

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|[\s(/])yarnps ([^\s|;&#`)][^\n|;&#`)]*)")
# Options of other programs that the pages name.
OTHERS = re.compile(r"--(add-opens|add-exports|cluster-id|ftrl)\b")


class Fenced(NamedTuple):
    """A block of code."""

    language: str
    text: str


def fenced(page: Path) -> list[Fenced]:
    return [Fenced(*found) for found in FENCE.findall(page.read_text(encoding="utf-8"))]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    return [" ".join(span.split()) for span in SPAN.findall(prose(page))]


def anchors(page: Path) -> set[str]:
    """The names that links to a page's headings have."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


# ---------------------------------------------------------------- links and lengths


@each_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(prose(PAGES[0]))}
    assert PAGES[0].name == "README.md"
    assert {p.resolve() for p in PAGES[1:] if not p.name.startswith("drill")} <= linked


@each_page
def test_pages_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST or page.name in GENERATED


@each_page
def test_paths_of_the_repository_exist(page: Path) -> None:
    ours = re.compile(r"(am|bench|client|docker|docs|specs|tests|yarnps)/[\w./-]*")
    for span in spans(page):
        if ours.fullmatch(span):
            assert (ROOT / span).exists(), span


# ---------------------------------------------------------------- commands


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `yarnps` of every command line on a page."""
    for block in fenced(page):
        if block.language in ("", "sh", "bash"):
            for line in block.text.splitlines():
                for rest in COMMAND.findall(line):
                    yield words(rest)
    for span in spans(page):
        for rest in COMMAND.findall(span):
            yield words(rest)


def words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote of what stands around it, as in eval "$(yarnps …)"
        return text.replace('"', "").replace("'", "").split()


def check_command(line: list[str]) -> None:
    context = click.Context(cli)
    if line[0] in ("--version", "--help", "--debug"):
        return
    assert line[0] in VERBS, f"yarnps {' '.join(line)}: no such verb"
    command = cli.get_command(context, line[0])
    rest = line[1:]
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        command, rest = command.get_command(context, rest[0]), rest[1:]
    assert command is not None, f"yarnps {' '.join(line)}: no such verb"
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    for word in rest:
        if word == "--":  # another program's words follow
            break
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            assert name in known | {"--help", "-h"}, f"yarnps {' '.join(line)}: no {name}"


@each_page
def test_every_command_exists_as_it_is_written(page: Path) -> None:
    for line in commands(page):
        if page.name in GENERATED and line[0] not in VERBS:
            continue  # checked where it is generated
        check_command(line)


@each_page
def test_options_named_alone_exist(page: Path) -> None:
    context = click.Context(cli)
    known = {"--debug", "--help", "--version"}
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        subs = command.commands.values() if isinstance(command, click.Group) else ()
        for one in (command, *subs):
            known |= {name for p in one.params for name in p.opts}
    for span in spans(page):
        if span.startswith("--") and not OTHERS.match(span):
            assert re.split(r"[ =]", span)[0] in known, span


def test_a_wrong_command_would_be_found() -> None:
    for wrong in (["sumbit", "job.yaml"], ["status", "x", "--evnts"], ["sandbox", "strat"]):
        with pytest.raises(AssertionError):
            check_command(wrong)


# ---------------------------------------------------------------- events and causes


def emitted() -> set[str]:
    """The kinds of all events: Log("kind", …), member.log("kind", …), RoleEvent(name="kind", …)."""
    kinds = set()
    for path in [*(ROOT / "am").rglob("*.py"), *(ROOT / "yarnps").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            named = [k.value for k in node.keywords if name == "RoleEvent" and k.arg == "name"]
            for first in named or node.args[:1]:
                value = first.value if isinstance(first, ast.Constant) else None
                if name in ("Log", "log", "RoleEvent") and isinstance(value, str):
                    kinds.add(value)
    return kinds


def table(page: Path, heading: str) -> set[str]:
    """The code spans in the first column of the table under a heading."""
    section = prose(page).partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {kind for row in rows for kind in SPAN.findall(row)}


OPERATIONS = ROOT / "docs" / "operations.md"


def test_every_kind_of_event_is_explained() -> None:
    assert {"death", "grant", "save", "end"} <= emitted()
    assert table(OPERATIONS, "Events") == emitted()


def test_every_cause_is_explained() -> None:
    assert table(OPERATIONS, "Causes") == {cause.value for cause in Cause}


def test_every_exit_status_is_explained() -> None:
    section = prose(OPERATIONS).partition("## Exit statuses\n")[2].partition("\n## ")[0]
    stated = {int(n) for n in re.findall(r"^\| (\d) \|", section, re.MULTILINE)}
    assert stated == set(range(exits.START_TIMEOUT + 1))


# ---------------------------------------------------------------- the job file and the API


def keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{path}{name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{path}{name}.")


@each_page
def test_named_keys_of_the_job_file_exist(page: Path) -> None:
    known = set(keys(Block))
    sections = {key.partition(".")[0] for key in known if "." in key}
    for span in spans(page):
        name = span.removeprefix("yarnps.").partition(":")[0]
        if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", name) and name.partition(".")[0] in sections:
            assert name in known or (ROOT / name).exists(), span


def whole(text: str, number: int, folder: Path) -> Path:
    """A job file of an example: what the example leaves out is put in."""
    job = yaml.safe_load(text)
    resources = {"memory": "1 GiB", "vcores": 1}
    roles = {role: {"instances": 1, "resources": resources} for role in ("server", "worker")}
    services = job.setdefault("services", roles)
    block = job.setdefault("yarnps", {})
    if block.get("runtime") != "dmlc":
        block.setdefault("data", {}).setdefault("train", "somewhere/*")
    if "script" not in services["worker"]:
        block.setdefault("app", "ftrl")
    path = folder / f"example-{number}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


@each_page
def test_examples_in_yaml_are_valid_job_files(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(b for b in fenced(page) if b.language == "yaml"):
        load(whole(block.text, number, tmp_path), site=())


@each_page
def test_examples_in_python_are_python_and_name_what_there_is(page: Path) -> None:
    for block in fenced(page):
        if block.language == "python":
            tree = ast.parse(block.text)
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "yarnps":
                    assert node.attr in yarnps.__all__, node.attr


def test_every_public_name_is_in_the_pages_on_what_programs_use() -> None:
    pages = [ROOT / "docs" / name for name in ("engine.md", "tables.md", "wire.md", "xgboost.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in yarnps.__all__ if not re.search(rf"\b{name}\b", text)] == []
