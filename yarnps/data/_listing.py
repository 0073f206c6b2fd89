"""From addresses to splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import unquote

from yarnps._errors import DataError
from yarnps.files import BlockHosts, FileInfo, Files, best_hosts, open_files

from ._compressed import is_compressed, unreadable_compression
from ._records import Split
from ._settings import DataSettings

MIN_SPLIT = 1 << 20
MAX_SPLIT = 128 << 20
SPLITS_PER_WORKER = 4  # so that the last splits of an epoch even out
MOST_SPLITS = 1_000_000  # the ledger holds them all
THREADS = 8  # questions to the file system at a time
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Listing:
    """The input of a job.

    Attributes
    ----------
    splits
        In the order of the files' addresses and of the bytes in them.
    files, bytes
        How many there are.
    skipped
        (address, why) of everything that was met and is not input.
    notes
        Sentences about the listing that a person should read.
    """

    splits: tuple[Split, ...]
    files: int
    bytes: int
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Found:
    files: Files
    info: FileInfo
    blocks: list[BlockHosts] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)  # Parquet: where row groups begin

    @property
    def address(self) -> str:
        return self.files.address(self.info.path)


def list_input(
    addresses: str | Sequence[str],
    settings: DataSettings,
    *,
    workers: int,
    need_label: bool = True,
    hosts: bool = True,
) -> Listing:
    """Find the files behind `addresses` and cut them into splits.

    Parameters
    ----------
    addresses
        Files, folders (with all below them) and globs.
    settings
        Format and split size.
    workers
        How many workers will share the splits.
    need_label
        Whether a file without the label's column (CSV, Parquet) is an error.
    hosts
        Whether to ask where the bytes are: one question for each file.

    Raises
    ------
    DataError
        When an address matches nothing or only hidden and empty files, when a file is compressed
        in a way that cannot be read, or (CSV, Parquet) when a file lacks a column.
    ClusterError
        When the file system cannot be reached.
    """
    addresses = [addresses] if isinstance(addresses, str) else list(addresses)
    found: dict[str, _Found] = {}
    skipped: dict[str, str] = {}
    for address in addresses:
        _find(address, found, skipped)
    inputs = [found[address] for address in sorted(found)]
    _check_compression(inputs, settings)
    _inspect(inputs, settings, need_label)
    if hosts:
        with ThreadPoolExecutor(THREADS) as pool:
            for item, blocks in zip(inputs, pool.map(_blocks, inputs), strict=True):
                item.blocks = blocks
    notes = list(dict.fromkeys(note for item in inputs for note in item.files.notes))
    total = sum(item.info.size for item in inputs)
    size = settings.split_size or auto_split_size(total, workers)
    splits: list[Split] = []
    for item in inputs:
        splits += _cut(item, settings, size, first_id=len(splits))
        if len(splits) > MOST_SPLITS:
            raise DataError(
                f"the input would have more than {MOST_SPLITS} splits of {size} bytes",
                "Set a larger data.split_size.",
            )
    return Listing(tuple(splits), len(inputs), total, tuple(sorted(skipped.items())), tuple(notes))


def auto_split_size(total: int, workers: int) -> int:
    """Bytes per split: at least SPLITS_PER_WORKER for each worker, within the limits."""
    wanted = -(-total // max(SPLITS_PER_WORKER * max(workers, 1), 1))
    return min(max(wanted, MIN_SPLIT), MAX_SPLIT)


# -- finding


def _find(address: str, found: dict[str, _Found], skipped: dict[str, str]) -> None:
    files, path = open_files(address)
    matches = _matches(files, path)
    if not matches:
        raise DataError(
            f"the input matches nothing: {address}",
            f"Looked for {files.address(path)}: check the path, the pattern and the file system.",
        )
    before = len(found)
    named_before = 0
    exact = len(matches) == 1 and matches[0].path.rstrip("/") == path.rstrip("/")
    for match in matches:
        # What the user named outright is input, whatever it is called.
        why = "" if exact else hidden(match.path)
        for info, reason in _below(files, match, why):
            item = _Found(files, info)
            if item.address in found:
                named_before += 1
                continue
            if not reason and info.size == 0:
                reason = "the file is empty"
            if reason:
                skipped[item.address] = reason
            else:
                found[item.address] = item
    if len(found) == before and not named_before:
        raise DataError(
            f"the input holds no file with data: {address}",
            "Only empty files and hidden ones (names that start with _ or a dot) are there.",
        )


def _matches(files: Files, path: str) -> list[FileInfo]:
    """The file or folder of this very name, or else what the glob matches."""
    if files.exists(path):
        return [files.info(path)]
    return files.glob(path)


def _below(files: Files, info: FileInfo, why: str) -> Iterable[tuple[FileInfo, str]]:
    """The files at and below `info`, each with why it is not input ("" if it is)."""
    if not info.is_dir:
        yield info, why
    elif why:
        yield info, why  # a hidden folder is named once, not file by file
    else:
        for below in files.list(info.path):
            yield from _below(files, below, hidden(below.path))


def hidden(path: str) -> str:
    """Why a file or folder found in a folder is not input; empty if it is."""
    name = path.rstrip("/").rpartition("/")[2]
    if name.startswith("."):
        return "a hidden file (its name starts with a dot)"
    if name.startswith("_") and "=" not in name:  # `_c=1` is a column
        return "a hidden file (its name starts with _)"
    if name.endswith("._COPYING_"):
        return "a copy that is not complete"
    if name.endswith(".crc"):
        return "a checksum"
    return ""


def partition_of(path: str) -> tuple[tuple[str, str], ...]:
    """The columns in a path's folders: `…/day=2024-01-01/hour=3/part-0` has two."""
    columns: dict[str, str] = {}
    for folder in path.split("/")[:-1]:
        match = re.fullmatch(r"([^=]+)=(.*)", folder)
        if match:
            value = unquote(match[2])
            columns[unquote(match[1])] = "" if value == HIVE_NULL else value
    return tuple(columns.items())


# -- cutting


def _check_compression(inputs: list[_Found], settings: DataSettings) -> None:
    if settings.format == "parquet":
        return
    for item in inputs:
        ending = unreadable_compression(item.info.path)
        if ending:
            raise DataError(
                f"files compressed as {ending} cannot be read: {item.address}",
                "Use .gz, .bz2, .zst, .xz or plain files.",
            )


def _inspect(inputs: list[_Found], settings: DataSettings, need_label: bool) -> None:
    """Look into files that carry their columns' names: all must have the ones that are needed."""
    if settings.format == "csv":
        from ._csv import check_columns

        check_columns(
            [
                (item.address, item.info.size, item.info.modified_ms, _folder_names(item))
                for item in inputs
            ],
            settings,
            need_label,
        )
    elif settings.format == "parquet":
        from ._parquet import inspect_files

        named = [(item.address, _folder_names(item)) for item in inputs]
        cuts = inspect_files(named, settings, need_label)
        for item, places in zip(inputs, cuts, strict=True):
            item.cuts = places


def _folder_names(item: _Found) -> list[str]:
    return [name for name, _ in partition_of(item.info.path)]


def _blocks(item: _Found) -> list[BlockHosts]:
    return item.files.blocks(item.info.path, item.info.size)


def _cut(item: _Found, settings: DataSettings, size: int, first_id: int) -> list[Split]:
    whole = item.info.size
    if settings.format == "parquet":
        bounds = _row_group_bounds(item.cuts, whole, size)
    elif is_compressed(item.info.path) or (settings.format == "csv" and settings.csv.multiline):
        bounds = [0, whole]
    else:
        count = -(-whole // size)
        bounds = [whole * number // count for number in range(count + 1)]
    address = item.address
    partition = partition_of(item.info.path)
    return [
        Split(
            first_id + number,
            address,
            start,
            stop - start,
            whole,
            item.info.modified_ms,
            tuple(best_hosts(item.blocks, start, stop - start)),
            partition,
        )
        for number, (start, stop) in enumerate(pairwise(bounds))
    ]


def _row_group_bounds(cuts: list[int], whole: int, size: int) -> list[int]:
    """Row groups put together to splits of about `size` bytes; together they cover the file."""
    bounds = [0]
    for place, following in zip(cuts[1:], [*cuts[2:], whole], strict=False):
        if following - bounds[-1] > size:
            bounds.append(place)
    return [*bounds, whole]
