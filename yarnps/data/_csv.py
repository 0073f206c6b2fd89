"""CSV: each file has its own header, and its columns in its own order."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from yarnps._errors import DataError

from ._bad import BadLog
from ._columns import Feature, Part, TextColumn, assemble, bind, check_same
from ._lines import Block, line_blocks
from ._records import Rows, Split
from ._settings import CsvSettings, DataSettings
from ._text import Chunk, decoded_lines

CHUNK_ROWS = 4096
THREADS = 8
FIELD_LIMIT = 1 << 30  # the library's own limit of 128 KiB is too small for long texts

Report = Callable[[int, str], None]  # (row of the table, error)


def _reader(lines: Iterator[str] | Sequence[str], settings: CsvSettings) -> Iterator[list[str]]:
    csv.field_size_limit(FIELD_LIMIT)
    return csv.reader(
        lines, delimiter=settings.delimiter, quotechar=settings.quote or None, strict=True
    )


@lru_cache(maxsize=4096)
def header_of(address: str, size: int, _modified_ms: int, settings: CsvSettings) -> tuple[str, ...]:
    """The names of a file's columns; without a header they are called 0, 1, 2, …

    Raises
    ------
    DataError
        When the first line cannot be read.
    """
    whole = settings.multiline
    first = Split(0, address, 0, size if whole else min(size, 1), size, -1)
    bad = BadLog(first)
    try:
        for block in line_blocks(first):
            lines = decoded_lines(block, bad)
            if lines[0] is None:
                break
            row = next(_reader((f"{line}\n" for line in lines if line is not None), settings), [])
            if not row:
                raise DataError(
                    f"the first line is empty: {address}",
                    "It must name the columns; or set data.csv.header: false.",
                )
            if settings.header:
                return tuple(name.strip() for name in row)
            return tuple(str(place) for place in range(len(row)))
    except csv.Error as error:
        raise DataError(
            f"the first line is not CSV ({error}): {address}",
            "Check data.csv.delimiter and data.csv.quote, and whether the file is CSV.",
        ) from error
    raise DataError(f"the first line is not UTF-8: {address}", "Is this a CSV file? Convert it.")


def check_columns(
    files: Sequence[tuple[str, int, int, Sequence[str]]],
    settings: DataSettings,
    need_label: bool = True,
) -> None:
    """Look at the header of every file: (address, size, time, columns from folders).

    Raises
    ------
    DataError
        Names the file that lacks a column.
    """

    def columns(file: tuple[str, int, int, Sequence[str]]) -> tuple[str, list[str]]:
        address, size, modified_ms, folders = file
        return address, with_folders(header_of(address, size, modified_ms, settings.csv), folders)

    with ThreadPoolExecutor(THREADS) as pool:
        named = list(pool.map(columns, files))
    # First what the job file names: where that is missing, the file is of another kind altogether.
    for address, names in named:
        bind(settings, names, address, need_label=need_label)
    if settings.features is None:
        check_same(named)


def with_folders(columns: Sequence[str], folders: Sequence[str]) -> list[str]:
    """A file's columns and those of its `k=v` folders; a folder's value goes before the file's."""
    return [*(name for name in columns if name not in folders), *folders]


def csv_source(need_label: bool) -> Callable[[Split, DataSettings, BadLog], Iterator[Chunk]]:
    """What reads a split of a CSV file."""

    def read(split: Split, settings: DataSettings, bad: BadLog) -> Iterator[Chunk]:
        if split.file_size == 0:
            return
        names = header_of(split.path, split.file_size, split.modified_ms, settings.csv)
        table = _Table(split, settings, names, need_label)
        tables = _quoted_lines if settings.csv.multiline else _plain_lines
        yield from tables(split, settings, bad, table)

    return read


class _Table:
    """Encodes the records of one file."""

    def __init__(
        self, split: Split, settings: DataSettings, names: Sequence[str], need_label: bool
    ) -> None:
        self.width = len(names)
        folders = dict(split.partition)
        columns = with_folders(names, list(folders))
        plan = bind(settings, columns, split.path, need_label=need_label)
        place = {name: number for number, name in enumerate(names)}
        nulls = settings.csv.nulls
        self._folders = folders
        self._place = place
        self._label: TextColumn | None = None
        if plan.label is not None:
            self._label = TextColumn(Feature(plan.label, "number"), nulls)
        self._features = [TextColumn(feature, nulls) for feature in plan.features]
        self._weights = {
            feature.column: TextColumn(Feature(feature.weights, "number"), nulls)
            for feature in plan.features
            if feature.weights
        }
        self._repeats = any(feature.kind == "id" for feature in plan.features)

    def _texts(self, name: str, columns: Sequence[Sequence[str]], count: int) -> Sequence[str]:
        if name in self._folders:
            return [self._folders[name]] * count
        return columns[self._place[name]]

    def encode(self, records: Sequence[Sequence[str]], report: Report) -> Rows:
        """Rows of the records; a bad one is reported with its place in `records`."""
        count = len(records)
        if not count:
            return Rows.empty()
        columns = list(zip(*records, strict=True))
        good = np.ones(count, bool)

        def complain(column: TextColumn, texts: Sequence[str], bad: np.ndarray, why: str) -> None:
            for row in np.flatnonzero(bad & good):
                report(int(row), why or column.complaint(texts[int(row)]))
            good[bad] = False

        labels = np.full(count, np.nan, np.float32)
        if self._label is not None:
            texts = self._texts(self._label.feature.column, columns, count)
            _, labels, states = self._label.encode(texts)
            name = self._label.feature.column
            complain(self._label, texts, states == TextColumn.ABSENT, f"no label in {name!r}")
            complain(self._label, texts, states == TextColumn.BAD, "")
        parts = []
        for feature in self._features:
            texts = self._texts(feature.feature.column, columns, count)
            keys, values, states = feature.encode(texts)
            complain(feature, texts, states == TextColumn.BAD, "")
            there = states == TextColumn.ENTRY
            weights = self._weights.get(feature.feature.column)
            if weights is not None:
                texts = self._texts(weights.feature.column, columns, count)
                _, values, states = weights.encode(texts)
                complain(weights, texts, states == TextColumn.BAD, "")
                there &= states == TextColumn.ENTRY
            rows = np.flatnonzero(there)
            parts.append(Part(rows, keys[rows], values[rows]))
        return assemble(labels, parts, good, repeats=self._repeats)


def _plain_lines(
    split: Split, settings: DataSettings, bad: BadLog, table: _Table
) -> Iterator[Chunk]:
    """Records that are single lines, so that a split may begin at any of them."""
    skip_header = settings.csv.header and split.start == 0
    for block in line_blocks(split):
        lines = decoded_lines(block, bad)
        if skip_header:
            lines[0], skip_header = None, False
        parsed = _parsed(block, lines, settings.csv, bad)
        records, places = [], []
        for place, record in enumerate(parsed):
            if not record:
                continue
            if len(record) != table.width:
                error = f"{len(record)} fields, but the file has {table.width} columns"
                bad.add_in_block(block, place, error, lines[place] or "")
                continue
            records.append(record)
            places.append(place)

        def report(
            row: int,
            error: str,
            block: Block = block,
            lines: list[str | None] = lines,
            places: list[int] = places,
        ) -> None:
            bad.add_in_block(block, places[row], error, lines[places[row]] or "")

        yield Chunk(table.encode(records, report), block.bytes_read)


def _parsed(
    block: Block, lines: list[str | None], settings: CsvSettings, bad: BadLog
) -> list[list[str]]:
    """The fields of each line; none for a line that is empty, left out or bad."""
    texts = [line or "" for line in lines]
    if not settings.quote or settings.quote.encode() not in block.data:
        try:
            return list(_reader(texts, settings))
        except csv.Error:
            pass  # found again below, with its line
    records = []
    for place, text in enumerate(texts):
        record: list[str] = []
        if text:
            try:
                record = next(_reader((text,), settings))
            except (csv.Error, StopIteration) as error:
                why = f"not CSV: {error}"
                if "unexpected end" in why:
                    why = "a quote is not closed in its line (see data.csv.multiline)"
                bad.add_in_block(block, place, why, text)
        records.append(record)
    return records


def _quoted_lines(
    split: Split, settings: DataSettings, bad: BadLog, table: _Table
) -> Iterator[Chunk]:
    """Records whose quoted fields may hold line feeds: a whole file, from its start."""
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for block in line_blocks(split):
            for line in decoded_lines(block, bad):
                # A line that is not UTF-8 has been counted; its place is kept for the numbers.
                yield "\n" if line is None else f"{line}\n"
            read = block.bytes_read

    reader = _reader(lines(), settings.csv)
    numbers: list[int] = []
    records: list[list[str]] = []

    def report(row: int, error: str) -> None:
        bad.add(numbers[row], error, settings.csv.delimiter.join(records[row]))

    first = True
    ended = False
    while not ended:
        begin = reader.line_num + 1  # type: ignore[attr-defined]
        try:
            record = next(reader)
        except StopIteration:
            ended = True
        except csv.Error as error:
            bad.add(begin, f"not CSV: {error}", "")
        else:
            named = first and settings.csv.header  # the columns' names, which `table` knows
            if not named and record and len(record) != table.width:
                error_text = f"{len(record)} fields, but the file has {table.width} columns"
                bad.add(begin, error_text, settings.csv.delimiter.join(record))
            elif not named and record:
                records.append(record)
                numbers.append(begin)
        first = False
        if len(records) >= CHUNK_ROWS or (ended and records):
            yield Chunk(table.encode(records, report), read)
            records.clear()
            numbers.clear()
