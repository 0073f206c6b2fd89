"""A first look at the input: ten records as the program sees them, and what is wrong."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from yarnps._errors import DataError

from ._bad import BadLog
from ._hashing import noting_names
from ._listing import Listing
from ._opening import open_path
from ._reader import source_of
from ._records import BadRecord, Rows, Split
from ._settings import DataSettings

FILES = 8  # spread over the input: often only some of the files are of another kind
ENTRIES_SHOWN = 12
BAD_SHOWN = 5


@dataclass(frozen=True)
class Sample:
    """What a look at a few files has shown.

    Attributes
    ----------
    records
        The first ones, as text.
    looked_at
        How many good records were read in all.
    bad
        The first few that cannot be parsed.
    bad_total
        How many cannot be parsed.
    problems
        Sentences on why the job would fail; empty when nothing speaks against it.
    """

    records: tuple[str, ...]
    looked_at: int
    bad: tuple[BadRecord, ...]
    bad_total: int
    problems: tuple[str, ...]


def sample(listing: Listing, settings: DataSettings, records: int = 10) -> Sample:
    """Read the beginnings of a few files of the input.

    Parameters
    ----------
    listing
        From `list_input`.
    settings
        The job's.
    records
        How many to show.
    """
    shown: list[str] = []
    bad: list[BadRecord] = []
    problems: list[str] = []
    good = bad_total = 0
    for split in _spread(listing):
        log = BadLog(split)
        with noting_names() as names:
            try:
                rows, count = _first_rows(split, settings, log, max(records - len(shown), 0))
            except DataError as error:
                problems.append(f"{error.what}\n  {_hint(split, settings) or error.remedy}")
                continue
            shown += [as_text(row, names) for row in rows]
        good += count
        bad_total += log.total
        found = log.take()
        bad += found
        if _hopeless(settings, log.total, count):
            problems.append(_complaint(split, settings, log.total, count, found))
    return Sample(tuple(shown), good, tuple(bad[:BAD_SHOWN]), bad_total, tuple(problems))


def _spread(listing: Listing) -> list[Split]:
    """The first split of up to FILES files, evenly spread."""
    first: dict[str, Split] = {}
    for split in listing.splits:
        first.setdefault(split.path, split)
    splits = list(first.values())
    step = max(len(splits) / FILES, 1.0)
    return [splits[int(number * step)] for number in range(min(FILES, len(splits)))]


def _first_rows(
    split: Split, settings: DataSettings, log: BadLog, wanted: int
) -> tuple[list[Any], int]:
    """Up to `wanted` records of the first piece that has any, and how many it has."""
    chunks: Any = source_of(settings)(split, settings, log)
    with closing(chunks):
        for chunk in chunks:
            if len(chunk.rows):
                part = chunk.rows.slice(0, min(wanted, len(chunk.rows)))
                if not isinstance(part, Rows):
                    return list(part.items), len(chunk.rows)
                return [part.slice(at, at + 1) for at in range(len(part))], len(chunk.rows)
            if log.total > 0:
                break
    return [], 0


def as_text(record: Any, names: dict[int, str]) -> str:
    """A record for people; `names` says which text an id was made of."""
    if not isinstance(record, Rows):
        return repr(record)[:300]
    entries = [
        f"{names.get(int(key), int(key))}:{value:g}"
        for key, value in zip(record.keys, record.values, strict=True)
    ]
    more = f" … ({len(entries)} in all)" if len(entries) > ENTRIES_SHOWN else ""
    return f"label {record.labels[0]:g}  {' '.join(entries[:ENTRIES_SHOWN])}{more}"


def _hopeless(settings: DataSettings, bad: int, good: int) -> bool:
    """Whether the job is bound to fail. A share may still come right in the rest of the input."""
    if 0 < settings.max_bad < 1:
        return bad > max(good, settings.max_bad * (bad + good))
    return settings.too_many_bad(bad, good)


def _complaint(
    split: Split, settings: DataSettings, bad: int, good: int, found: list[BadRecord]
) -> str:
    lines = [
        f"{bad} of the first {bad + good} records cannot be read as {settings.format}, more than "
        f"data.max_bad_records ({settings.max_bad:g}) allows: {split.path}"
    ]
    lines += [f"line {record.line}: {record.error}" for record in found[:3]]
    hint = _hint(split, settings)
    return "\n  ".join([*lines, hint] if hint else lines)


def _hint(split: Split, settings: DataSettings) -> str:
    """What the file looks like, when that is something else than the job file says."""
    files, path = open_path(split.path)
    try:
        with files.open(path, "rb") as file:
            start = file.read(4096)
    except DataError:
        return ""
    looks = _looks_like(start)
    if not looks or looks == settings.format:
        return ""
    if looks in ("libsvm", "csv", "parquet"):
        return f"The file looks like {looks}: check data.format."
    if split.path.lower().endswith((".gz", ".bz2", ".zst", ".xz")):
        return ""
    return f"The file looks like {looks}, but its name does not end so: rename it."


def _looks_like(start: bytes) -> str:
    magic = {
        b"PAR1": "parquet",
        b"\x1f\x8b": "gzip (.gz)",
        b"BZh": "bzip2 (.bz2)",
        b"\x28\xb5\x2f\xfd": "zstd (.zst)",
        b"\xfd7zXZ": "xz (.xz)",
    }
    for sign, name in magic.items():
        if start.startswith(sign):
            return name
    line = start.split(b"\n", 1)[0].strip()
    words = line.split()
    if len(words) > 1 and all(b":" in word for word in words[1:]):
        return "libsvm"
    return "csv" if max(line.count(sign) for sign in (b",", b";", b"\t")) > 0 else ""
