"""What can be found wrong before a job is started: its input, its model, its program."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from yarnps._errors import DataError, InputError
from yarnps.client.output import Say, count, size

if TYPE_CHECKING:
    from yarnps.data import BadRecord
    from yarnps.spec import Job

MANIFEST = "manifest.json"
SAMPLE_RECORDS = 10
BAD_SHOWN = 3


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
    date = time.strftime("%Y-%m-%d", time.gmtime())  # as the ApplicationMaster has it
    return path.replace("{date}", date).replace("{name}", job.name)


@dataclass(frozen=True)
class Found:
    """One input as it was listed and sampled."""

    files: int
    bytes: int
    splits: int
    skipped: tuple[tuple[str, str], ...]
    records: tuple[str, ...] = ()  # the first few, as the program will see them
    bad: tuple[str, ...] = ()  # the first few that cannot be read
    problems: tuple[str, ...] = ()  # why the job would fail

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def look(job: Job, name: str, *, trying: bool = True) -> Found | None:
    """List `data.<name>` and read its first records; None when the job has no such input.

    With `trying` off nothing is read.

    Raises
    ------
    DataError
        Nothing matches, or a file cannot be read.
    """
    block = job.block
    given = addresses(getattr(block.data, name)) if block is not None else []
    if block is None or not given:
        return None
    from yarnps.data import DataSettings, list_input, sample

    if block.data.parse is not None:
        # The user's function lies beside the job file, as it will beside the container's files.
        sys.path.insert(0, str(job.folder))
    settings = DataSettings.from_block(block)
    workers = job.roles["worker"].instances if "worker" in job.roles else 1
    readers = block.sync.parts_of(workers) or workers
    listing = list_input(given, settings, workers=readers)
    if not listing.splits:
        raise DataError(
            f"data.{name} has no input: {', '.join(given)}",
            "The files are empty, or hidden (`_SUCCESS`, dot files and the like are no input).",
        )
    found = Found(
        files=_number(listing.files),
        bytes=int(listing.bytes),
        splits=len(listing.splits),
        skipped=tuple((str(path), str(why)) for path, why in listing.skipped),
    )
    if not trying:
        return found
    sampled = sample(listing, settings, records=SAMPLE_RECORDS)
    return replace(
        found,
        records=tuple(str(r) for r in sampled.records),
        bad=tuple(_bad(record) for record in sampled.bad),
        problems=tuple(sampled.problems),
    )


def data(job: Job, say: Say, *, trying: bool = True) -> None:
    """The input must be there, and (with `trying`) read as the job file says.

    Raises
    ------
    DataError
        Nothing matches, a file cannot be read, or a record of the sample cannot be read.
    """
    for name in ("train", "test"):
        found = look(job, name, trying=trying)
        if found is None:
            continue
        say(
            f"data.{name}: {count(found.files)} files, {size(found.bytes)}, "
            f"{count(found.splits)} splits"
        )
        for path, why in found.skipped:
            say(f"data.{name}: left out: {path}: {why}")
        if found.problems:
            raise unreadable(job, name, found)


def unreadable(job: Job, name: str, found: Found) -> DataError:
    """The error for a sample that cannot be read."""
    assert job.block is not None
    reasons = dict.fromkeys([*found.problems, *found.bad[:BAD_SHOWN]])
    return DataError(
        f"data.{name} does not read as {job.block.data.format}:\n" + "\n".join(reasons),
        "Correct data.format or the file, or allow for bad records with data.max_bad_records.\n"
        "`yarnps validate --data` shows records as they are read.",
    )


def _number(value: Any) -> int:
    """A count, given as such or as what is counted."""
    return value if isinstance(value, int) else len(value)


def _bad(record: BadRecord) -> str:
    """A record that cannot be read, as one line."""
    where = f"{record.path}:{record.line}" if record.line else record.path
    return f"{where}: {record.error}" + (f" in {record.text!r}" if record.text else "")
