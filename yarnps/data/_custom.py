"""A user's own parser: `data.parse: module:function`."""

from __future__ import annotations

import importlib
import math
import numbers
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from yarnps._errors import DataError

from ._bad import BadLog
from ._hashing import hash64
from ._libsvm import MAX_ID, merge_repeated
from ._lines import line_blocks
from ._records import Records, Rows, Split
from ._settings import DataSettings
from ._text import Chunk, decoded_lines


@lru_cache(maxsize=16)
def load_function(name: str) -> Callable[[str], Any]:
    """The function `module:function`; the working directory is searched too.

    Raises
    ------
    DataError
        When there is no such module or function, or importing it fails.
    """
    module, _, attribute = name.partition(":")
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    remedy = "Ship the module with the job (services.worker.files), and name it module:function."
    try:
        function = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise DataError(
            f"cannot import data.parse: {name}: {type(error).__name__}: {error}", remedy
        ) from error
    if not callable(function):
        raise DataError(f"data.parse is not a function: {name}", remedy)
    return function  # type: ignore[no-any-return]


def read_custom(split: Split, settings: DataSettings, bad: BadLog) -> Iterator[Chunk]:
    """Lines through the user's function.

    It gets each line that is not blank, without its end, and returns `(label, keys, values)` for a
    row, None to leave the line out, or any other thing, which then is the record. What it raises
    makes the line a bad record. Keys may be numbers or names (these are hashed).
    """
    parse = load_function(settings.parse or "")
    for block in line_blocks(split):
        rows: list[tuple[float, Any, Any]] = []
        items: list[Any] = []
        for index, line in enumerate(decoded_lines(block, bad)):
            if line is None or not line.strip():
                continue
            try:
                record = parse(line)
                if is_row(record):
                    rows.append(_row(*record))
                elif record is not None:
                    items.append(record)
            except Exception as error:  # noqa: BLE001 - the user's code decides what is bad
                bad.add_in_block(block, index, f"{type(error).__name__}: {error}", line)
        if rows:
            yield Chunk(_rows(rows), block.bytes_read)
        if items or not rows:
            yield Chunk(Records(items), block.bytes_read)


def is_row(record: Any) -> bool:
    """Whether a record is (label, keys, values): a number and two sequences."""
    return (
        isinstance(record, tuple)
        and len(record) == 3
        and isinstance(record[0], (numbers.Real, np.generic))
        and all(isinstance(part, (Sequence, np.ndarray)) for part in record[1:])
        and not any(isinstance(part, (str, bytes)) for part in record[1:])
    )


def _row(label: Any, keys: Any, values: Any) -> tuple[float, Any, Any]:
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys, but {len(values)} values")
    with np.errstate(over="ignore"):
        number = float(np.float32(label))
        array = np.asarray(values, np.float32)
    if not math.isfinite(number):
        raise ValueError(f"the label is not finite: {label!r}")
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite")
    return number, [_key(key) for key in keys], array


def _key(key: Any) -> int:
    if isinstance(key, (str, bytes)):
        return hash64(key)
    if isinstance(key, (int, np.integer)):
        if abs(int(key)) > MAX_ID:
            raise ValueError(f"the feature id is beyond 64 bits: {key}")
        return int(key)
    raise ValueError(f"a key must be an integer or a name, not {type(key).__name__}: {key!r}")


def _rows(rows: list[tuple[float, Any, Any]]) -> Rows:
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(keys) for _, keys, _ in rows], out=indptr[1:])
    keys = np.array([key for _, row, _ in rows for key in row], np.int64)
    values = np.concatenate([values for _, _, values in rows])
    labels = np.array([label for label, _, _ in rows], np.float32)
    return merge_repeated(Rows(labels, indptr, keys, values))
