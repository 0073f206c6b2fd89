"""What can be found wrong before a job is started: its input, its model, its program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from yarnps._errors import DataError, InputError
from yarnps.client.output import Say, count, size

if TYPE_CHECKING:
    from yarnps.spec import Job

MANIFEST = "manifest.json"
SAMPLE_RECORDS = 10


def addresses(value: Any) -> list[str]:
    """One address or several, as a list."""
    return [value] if isinstance(value, str) else list(value or ())


def model(job: Job) -> None:
    """The model's folder must be free, and the one to start from must be a model.

    Raises
    ------
    InputError
        Either is not so.
    """
    block = job.block
    if block is None:
        return
    target, origin = block.model.path, block.model.init_from
    if target is None and origin is None:
        return
    from yarnps.files import open_files

    # With the application's id in it the folder is a new one each time.
    if target is not None and "{app}" not in target and not block.model.overwrite:
        address = expanded(target, job)
        files, path = open_files(address)
        if files.exists(path):
            raise InputError(
                f"the model's folder exists: {address}",
                "Choose another model.path (such as one with {app} in it), or set "
                "model.overwrite: true.",
            )
    if origin is not None:
        files, path = open_files(origin)
        if not files.exists(f"{path.rstrip('/')}/{MANIFEST}"):
            raise InputError(
                f"no model to start from (model.init_from): {origin} has no {MANIFEST}",
                "Give the folder of a model that a job has written.",
            )


def expanded(path: str, job: Job) -> str:
    """`model.path` with the placeholders filled in that are known before submission."""
    return path.replace("{date}", time.strftime("%Y-%m-%d")).replace("{name}", job.name)


def data(job: Job, say: Say) -> None:
    """List the input and try the first records, the way the program will read them.

    Raises
    ------
    DataError
        Nothing matches, a file cannot be read, or more of the sample is wrong than is allowed.
    """
    if job.block is None:
        return
    from yarnps.data import DataSettings, list_input, sample

    settings = DataSettings.from_block(job.block)
    workers = job.roles["worker"].instances if "worker" in job.roles else 1
    for name in ("train", "test"):
        given = addresses(getattr(job.block.data, name))
        if not given:
            continue
        listing = list_input(given, settings, workers=workers)
        if not listing.splits:
            raise DataError(
                f"data.{name} has no input: {', '.join(given)}",
                "The files are empty, or hidden (`_SUCCESS`, dot files and the like are no input).",
            )
        say(
            f"data.{name}: {count(listing.files)} files, {size(listing.bytes)}, "
            f"{count(len(listing.splits))} splits"
        )
        for path, why in listing.skipped:
            say(f"data.{name}: left out: {path}: {why}")
        problems = list(sample(listing, settings, records=SAMPLE_RECORDS).problems)
        if problems and not tolerated(job):
            raise DataError(
                f"data.{name} does not read as {job.block.data.format}: "
                + "\n".join(_problem(p) for p in problems[:3]),
                "Correct data.format or the file, or allow for bad records with "
                "data.max_bad_records.\n`yarnps validate --data` shows records as they are read.",
            )


def tolerated(job: Job) -> bool:
    """Whether the job file allows for records that cannot be read."""
    return bool(job.block and job.block.data.max_bad_records)


def _problem(problem: Any) -> str:
    """A bad record (or whatever text a reader has) as one line."""
    if isinstance(problem, str):
        return problem
    where = f"{problem.path}:{problem.line}" if problem.line else problem.path
    text = f" in {problem.text!r}" if problem.text else ""
    return f"{where}: {problem.error}{text}"
