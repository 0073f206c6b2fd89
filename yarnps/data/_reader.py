"""Batches of a split.

What batch i holds is a function of (seed, epoch, split, i), the settings and the file, and of
nothing else: not of who reads, how often, or in what pieces the file system hands out the bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from yarnps._errors import DataError

from ._bad import BadLog
from ._growing import cut_of
from ._libsvm import LibsvmParser
from ._lines import Block
from ._opening import check_unchanged, open_path
from ._records import BadRecord, RawBatch, Records, Rows, Split
from ._settings import DataSettings
from ._text import Chunk, read_libsvm, read_text

Parts = list[Rows | Records]
Source = Callable[[Split, DataSettings, BadLog], Iterator[Chunk]]


def source_of(settings: DataSettings, *, need_label: bool = True) -> Source:
    """What reads a split of this format."""
    if settings.format == "libsvm":
        return read_libsvm
    if settings.format == "text":
        return read_text
    if settings.format == "custom":
        from ._custom import read_custom

        return read_custom
    if settings.format == "csv":
        from ._csv import csv_source

        return csv_source(need_label)
    from ._parquet import parquet_source

    return parquet_source(need_label)


def import_readers(settings: DataSettings) -> None:
    """Import all that listing and reading this format needs.

    Whoever reads in a thread calls this first, while no other thread runs: two threads that import
    at the same time may wait for each other for ever (Python 3.11). Modules that are missing are
    named later, by whoever needs them.
    """
    source_of(settings)
    if settings.format == "parquet":
        with suppress(ImportError):
            importlib.import_module("pyarrow.parquet")


def warm_up(settings: DataSettings) -> None:
    """`import_readers`, and load the compiled parts, too: they take a second, once for a process.

    A worker does so before it asks for work; with a lease in hand, others would wait for it.
    """
    import_readers(settings)
    if settings.format == "text":
        return
    if settings.format == "libsvm":
        LibsvmParser().parse(Block(b"1 2:0.5\n0 3:1 4:1e3 3:1\n", 0, 0, 0))
    Rows.shuffled([Rows.empty()], np.zeros(0, np.int64))


def read_batches(
    split: Split,
    settings: DataSettings,
    *,
    epoch: int,
    from_batch: int = 0,
    shuffle: bool = True,
    span: tuple[float, float] | None = None,
) -> Iterator[RawBatch]:
    """The batches of a split from `from_batch` on.

    Parameters
    ----------
    split, settings
        What to read, and how.
    epoch
        Together with the seed, the split and the place in it, decides the order.
    from_batch
        The first batch to hand out; those before are read and passed over.
    shuffle
        Whether rows change places within the shuffle buffer.
    span
        The stretch of the whole training, from 0 to 1, that the split stands for, for settings by
        which batches grow; None: it is not for training.

    Yields
    ------
    RawBatch
        All of `batch_rows` rows but the last, or of as many as `Cut` says. A split without records
        gives none; one with only bad records gives a single batch of no rows, so that they are
        counted.

    Raises
    ------
    FileChanged
        When the file is not the one that was listed.
    DataError
        When it cannot be read at all.
    """
    check_unchanged(split)
    yield from _batches(split, settings, source_of(settings), epoch, from_batch, shuffle, span)
    check_unchanged(split)


def read_file(address: str, settings: DataSettings) -> Iterator[RawBatch]:
    """All batches of a file in its own order, for prediction.

    A CSV or Parquet file may lack the label column: the labels are then NaN.
    """
    from ._listing import partition_of

    files, path = open_path(address)
    info = files.info(path)
    if info.is_dir:
        raise DataError(f"it is a folder, not a file: {address}", "Name a file.")
    split = Split(0, address, 0, info.size, info.size, info.modified_ms, (), partition_of(address))
    source = source_of(settings, need_label=False)
    return _batches(split, settings, source, epoch=0, from_batch=0, shuffle=False)


def _batches(
    split: Split,
    settings: DataSettings,
    source: Source,
    epoch: int,
    from_batch: int,
    shuffle: bool,
    span: tuple[float, float] | None = None,
) -> Iterator[RawBatch]:
    shuffle = shuffle and settings.shuffle_buffer > 1
    cut = cut_of(settings, split.length, shuffle=shuffle, span=span)
    bad = BadLog(split)
    index = first = 0
    waiting: list[BadRecord] = []
    groups = _groups(source(split, settings, bad), cut.group_rows, split.length)
    for number_of_group, group in enumerate(groups):
        waiting += bad.take()
        size = cut.batch_rows(first)
        count = -(-group.size // size)
        if index + count <= from_batch and count:
            index += count
            first += group.size
            waiting.clear()
            continue
        identity = (settings.seed, epoch, split.id, number_of_group)
        rows = _shuffled(group.parts, *identity) if shuffle else _joined(group.parts)
        for number in range(count):
            if index >= from_batch:
                start, stop = number * size, min((number + 1) * size, len(rows))
                part = (group.bytes_stop - group.bytes_start) * stop // len(rows)
                yield RawBatch(
                    index,
                    rows.slice(start, stop),
                    first + start,
                    group.bytes_start + part,
                    waiting,
                    bad.total,
                )
                waiting = []
            index += 1
        first += group.size
    waiting += bad.take()
    if index == 0 and bad.total and from_batch == 0:
        rows = Rows.empty() if settings.format != "text" else Records([])
        yield RawBatch(0, rows, 0, split.length, waiting, bad.total)


def _shuffled(parts: Parts, *identity: int) -> Rows | Records:
    count = sum(map(len, parts))
    order = np.random.Generator(np.random.PCG64(list(identity))).permutation(count)
    if rows := _all_rows(parts):
        return Rows.shuffled(rows, order.astype(np.int64))
    return _joined(parts).take(order.astype(np.int64))


class _Group(NamedTuple):
    """Rows that are shuffled together, in pieces as they were read."""

    parts: Parts
    bytes_start: int
    bytes_stop: int

    @property
    def size(self) -> int:
        """How many rows."""
        return sum(map(len, self.parts))


def _groups(chunks: Iterator[Chunk], size: int, total_bytes: int) -> Iterator[_Group]:
    """Chunks cut into groups of `size` rows.

    A group is handed out when the next row is known or the input has ended: so the last group has
    seen everything, bad records at the end of the split too.
    """
    parts: Parts = []
    held = rows_done = bytes_done = bytes_before = 0
    for chunk in chunks:
        before = rows_done + held
        if not len(chunk.rows):
            bytes_before = chunk.bytes_read
            continue
        parts.append(chunk.rows)
        held += len(chunk.rows)
        while held > size:
            stop = rows_done + size
            last = parts.pop()
            kept = len(last) - (held - size)
            # Rows of a chunk share its bytes evenly: good enough for progress.
            share = (stop - before) / len(chunk.rows)
            bytes_stop = bytes_before + int((chunk.bytes_read - bytes_before) * share)
            yield _Group([*parts, last.slice(0, kept)], bytes_done, bytes_stop)
            parts = [last.slice(kept, len(last))]
            held, rows_done, bytes_done = held - size, stop, bytes_stop
        bytes_before = chunk.bytes_read
    if held:
        yield _Group(parts, bytes_done, total_bytes)


def _all_rows(parts: Parts) -> list[Rows]:
    """The parts, if all of them are labelled rows; else nothing."""
    rows = [part for part in parts if isinstance(part, Rows)]
    return rows if len(rows) == len(parts) else []


def _joined(parts: Parts) -> Rows | Records:
    if rows := _all_rows(parts):
        return Rows.concat(rows)
    if all(isinstance(part, Records) for part in parts):
        return Records.concat([part for part in parts if isinstance(part, Records)])
    raise DataError(
        "data.parse returned (label, keys, values) for some lines and something else for others",
        "Let it return the same kind of thing for every line, or None to leave a line out.",
    )
