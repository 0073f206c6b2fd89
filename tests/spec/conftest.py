"""A job file to start from, and a way to change its lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from yarnps.spec import Job, JobFileError, load

LINES = (
    "name: flights",
    "services:",
    "  server: {instances: 2, resources: {memory: 1 GiB, vcores: 1}}",
    "  worker: {instances: 3, resources: {memory: 1 GiB, vcores: 1}}",
    "yarnps:",
    "  app: ftrl",
    '  data: {train: "data/*", test: "test/*"}',
    "  train: {epochs: 2}",
)

Write = Callable[..., str]
Read = Callable[..., Job]
Problems = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, so that messages hold short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write() -> Write:
    """Write job.yaml: the lines above with some replaced (numbers from 1) and some added."""

    def write(changes: dict[int, str] | None = None, *added: str, name: str = "job.yaml") -> str:
        lines = [(changes or {}).get(number, line) for number, line in enumerate(LINES, 1)]
        Path(name).write_text("\n".join([*lines, *added]) + "\n", encoding="utf-8")
        return name

    return write


@pytest.fixture
def read(write: Write) -> Read:
    """Load the job file that `write` makes; without site defaults."""

    def read(changes: dict[int, str] | None = None, *added: str, sets: tuple[str, ...] = ()) -> Job:
        return load(write(changes, *added), sets=sets, site=[])

    return read


@pytest.fixture
def problems(read: Read) -> Problems:
    """What is wrong with the job file that `write` makes, as a user reads it."""

    def problems(
        changes: dict[int, str] | None = None, *added: str, sets: tuple[str, ...] = ()
    ) -> list[str]:
        with pytest.raises(JobFileError) as caught:
            read(changes, *added, sets=sets)
        return [str(problem) for problem in caught.value.problems]

    return problems
