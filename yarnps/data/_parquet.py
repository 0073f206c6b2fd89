# mypy: disable-error-code="attr-defined, no-untyped-call, no-any-return"
"""Parquet, by pyarrow (an optional part of the installation).

A split is a range of bytes, like everywhere; it owns the row groups that begin in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from yarnps._errors import DataError

from ._arrow import encode_column, encode_label
from ._bad import BadLog
from ._columns import Feature, Part, Plan, TextColumn, assemble, bind, check_same
from ._csv import with_folders
from ._opening import open_path
from ._records import Rows, Split
from ._settings import DataSettings
from ._text import Chunk

CHUNK_ROWS = 8192
THREADS = 8


@contextmanager
def _opened(address: str) -> Iterator[Any]:
    """A Parquet file.

    Raises
    ------
    DataError
        When pyarrow is missing, or the file is not Parquet.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            f"reading Parquet needs pyarrow, which is not installed: {address}",
            "pip install 'yarnps[parquet]' in the job's environment, and submit again.",
        ) from error
    files, path = open_path(address)
    with files.open(path, "rb") as stored:
        try:
            yield pq.ParquetFile(stored)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"not a readable Parquet file: {address}: {error}",
                "Check data.format, and whether the file was written completely.",
            ) from error


def _row_group_starts(metadata: Any) -> list[int]:
    starts = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        offsets = []
        for index in range(group.num_columns):
            column = group.column(index)
            offsets.append(column.data_page_offset)
            if column.has_dictionary_page and column.dictionary_page_offset:
                offsets.append(column.dictionary_page_offset)
        starts.append(min(offsets, default=0))
    return starts


def inspect_files(
    files: Sequence[tuple[str, Sequence[str]]], settings: DataSettings, need_label: bool = True
) -> list[list[int]]:
    """Where each file's row groups begin; looks at the columns of all (address, folders' columns).

    Raises
    ------
    DataError
        Names the file that lacks a column or is not Parquet.
    """

    def look(file: tuple[str, Sequence[str]]) -> tuple[str, list[str], list[int]]:
        address, folders = file
        with _opened(address) as parquet:
            names = with_folders(parquet.schema_arrow.names, folders)
            return address, names, _row_group_starts(parquet.metadata)

    with ThreadPoolExecutor(THREADS) as pool:
        seen = list(pool.map(look, files))
    if settings.features is None:
        check_same([(address, names) for address, names, _ in seen])
    for address, names, _ in seen:
        bind(settings, names, address, need_label=need_label)
    return [starts for _, _, starts in seen]


def parquet_source(need_label: bool) -> Callable[[Split, DataSettings, BadLog], Iterator[Chunk]]:
    """What reads a split of a Parquet file."""

    def read(split: Split, settings: DataSettings, bad: BadLog) -> Iterator[Chunk]:
        with _opened(split.path) as parquet:
            yield from _read(parquet, split, settings, bad, need_label)

    return read


def _read(
    parquet: Any, split: Split, settings: DataSettings, bad: BadLog, need_label: bool
) -> Iterator[Chunk]:
    metadata = parquet.metadata
    folders = dict(split.partition)
    names = with_folders(parquet.schema_arrow.names, list(folders))
    plan = bind(settings, names, split.path, need_label=need_label)
    starts = _row_group_starts(metadata)
    end = split.start + split.length
    groups = [number for number, at in enumerate(starts) if split.start <= at < end]
    if not groups:
        return
    before = sum(metadata.row_group(number).num_rows for number in range(groups[0]))
    total = sum(metadata.row_group(number).num_rows for number in groups)
    stored = [name for name in plan.columns if name not in folders]
    encoder = _Encoder(plan, folders, settings.csv.nulls, split.path)
    done = 0
    batches = parquet.iter_batches(
        batch_size=CHUNK_ROWS, row_groups=groups, columns=stored, use_threads=False
    )
    for batch in batches:
        first = before + done + 1  # rows are counted from 1, like lines

        def report(row: int, why: str, first: int = first) -> None:
            bad.add(first + row, why, "")

        rows = encoder.encode(batch, report)
        done += batch.num_rows
        yield Chunk(rows, split.length * done // max(total, 1))


class _Encoder:
    """Encodes record batches of one file."""

    def __init__(
        self, plan: Plan, folders: dict[str, str], nulls: Sequence[str], address: str
    ) -> None:
        self._plan, self._folders, self._address = plan, folders, address
        self._texts: dict[Feature, TextColumn] = {
            # A text column of Parquet is text by its type; a folder's value has no type.
            feature: TextColumn(
                feature
                if feature.kind != "auto" or feature.column in folders
                else feature._replace(kind="category"),
                nulls if feature.column in folders else (),
            )
            for feature in plan.features
        }

    def encode(self, batch: Any, report: Callable[[int, str], None]) -> Rows:
        count = batch.num_rows
        good = np.ones(count, bool)

        def complain(rows: Any, why: str) -> None:
            for row in np.unique(rows):
                if good[row]:
                    good[row] = False
                    report(int(row), why)

        label = self._plan.label
        labels = np.full(count, np.nan, np.float32)
        if label in self._folders:
            feature = Feature(label, "number")
            labels = self._folder(TextColumn(feature, ("",)), count, complain, need=True).values
        elif label is not None:
            labels = encode_label(label, batch.column(label), complain, self._address)
        parts = []
        for feature in self._plan.features:
            texts = self._texts[feature]
            if feature.column in self._folders:
                parts.append(self._folder(texts, count, complain))
                continue
            weights = batch.column(feature.weights) if feature.weights else None
            column = batch.column(feature.column)
            parts.append(encode_column(texts, feature, column, weights, complain, self._address))
        return assemble(labels, parts, good, repeats=True)

    def _folder(
        self,
        column: TextColumn,
        count: int,
        complain: Callable[[Any, str], None],
        need: bool = False,
    ) -> Part:
        """A column whose value is the same in all rows."""
        text = self._folders[column.feature.column]
        keys, values, states = column.encode([text])
        rows = np.arange(count)
        if states[0] == TextColumn.BAD or (need and states[0] == TextColumn.ABSENT):
            complain(rows, column.complaint(text))
        elif states[0] == TextColumn.ABSENT:
            rows = rows[:0]
        size = len(rows)
        return Part(rows, np.repeat(keys, size), np.repeat(values, size).astype(np.float32))
