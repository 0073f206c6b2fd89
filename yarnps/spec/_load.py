"""Reading a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from yarnps._errors import Problem

from ._block import Block
from ._checks import cross_checks, params_of
from ._job import Job, roles_of
from ._layers import overlay, read_set, read_sites, read_tree
from ._problems import job_file_error, problems_of
from ._skein import Application
from ._sources import sources_of
from ._yaml import Path, Place, Tree


def load(
    path: str | FilePath, *, sets: Sequence[str] = (), site: Sequence[FilePath] | None = None
) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path : str or Path
        The job file (YAML or JSON).
    sets : sequence of str
        `--set` arguments, ``path=value``; the path starts at the file's top.
    site : sequence of Path, optional
        Files of site defaults, the last one wins. By default `/etc/yarnps.yaml`,
        `~/.config/yarnps.yaml` and the file that `$YARNPS_CONFIG` names, where they exist.

    Raises
    ------
    JobFileError
        With everything that is wrong in `problems`.

    Examples
    --------
    >>> job = load("flights.yaml", sets=["yarnps.train.epochs=3"])  # doctest: +SKIP
    """
    path = FilePath(path)
    source = str(path)
    text, tree = read_tree(path, source)
    settings = [read_set(text) for text in sets]
    has_block = any(
        isinstance(layer.data, dict) and "yarnps" in layer.data for layer in (tree, *settings)
    )
    merged = Tree()
    for layer in [*(read_sites(site) if has_block else ()), tree, *settings]:
        merged = overlay(merged, layer)
    problems = list(merged.problems)
    data = merged.data if isinstance(merged.data, dict) else None
    if tree.data is None and not tree.problems:
        problems.append(Problem(0, "", "is empty: expected a mapping", source=source))
    if data is None or tree.data is None:
        raise job_file_error(source, problems)
    if has_block and data.get("yarnps") is None:
        data = {**data, "yarnps": {}}
    application, found = _validate(data, merged.places)
    problems = _once([*problems, *cross_checks(data, merged.places), *found])
    if problems or application is None:
        raise job_file_error(source, problems)
    return _job(application, data, merged.places, text, path)


def _once(problems: list[Problem]) -> list[Problem]:
    """One problem for each place, the first; nothing is missing that is there misspelt."""
    misspelt = {(p.path.rpartition(".")[0], p.near) for p in problems if p.message == "unknown key"}
    kept: dict[tuple[str, int, str], Problem] = {}
    for problem in problems:
        if problem.message.startswith("missing") and problem.path.rpartition(".")[::2] in misspelt:
            continue
        kept.setdefault((problem.source, problem.line, problem.path), problem)
    return list(kept.values())


def _validate(
    data: Mapping[str, Any], places: Mapping[Path, Place]
) -> tuple[Application | None, list[Problem]]:
    try:
        return Application.model_validate(data), []
    except ValidationError as error:
        return None, problems_of(error, places)


def _job(
    application: Application,
    data: Mapping[str, Any],
    places: Mapping[Path, Place],
    text: str,
    path: FilePath,
) -> Job:
    skein = {key: value for key, value in data.items() if key != "yarnps"}
    block: Block | None = application.yarnps
    if block is not None:
        block = block.model_copy(update={"params": params_of(block.app, block.params)})
    return Job(
        name=application.name or path.name.partition(".")[0] or "yarnps",
        queue=application.queue,
        text=text,
        path=str(path.absolute()),
        block=block,
        roles=roles_of(skein, block) if block is not None else {},
        skein=skein,
        origins=tuple(sources_of(application, block, data, places)),
    )
