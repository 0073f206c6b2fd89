"""Named columns (CSV, Parquet) as sparse features.

A number in column `c` becomes the feature hash64("c") with that value; a text `t` becomes
hash64("c=t") with the value 1; no value becomes no feature. Columns are found by name, so files of
one data set may have them in any order.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from yarnps._errors import DataError

from ._hashing import hash64
from ._libsvm import MAX_ID, merge_repeated
from ._records import Floats, Ints, Rows
from ._settings import DataSettings

Kind = Literal["auto", "number", "category", "id"]

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_WORD = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
_ID = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_CACHED_TEXTS = 200_000  # per column; a column of unique numbers must not fill the memory


class Feature(NamedTuple):
    """A feature column. `weights` names the column with the values of an `id` column."""

    column: str
    kind: Kind = "auto"
    weights: str | None = None


class Plan(NamedTuple):
    """The columns that are read of one file. No label: prediction."""

    label: str | None
    features: tuple[Feature, ...]

    @property
    def columns(self) -> list[str]:
        """All of them, each once."""
        named = [self.label] if self.label is not None else []
        for feature in self.features:
            named += [feature.column] + ([feature.weights] if feature.weights else [])
        return list(dict.fromkeys(named))


class Part(NamedTuple):
    """The entries of one column: which row, which key, which value."""

    rows: Ints
    keys: Ints
    values: Floats


def bind(
    settings: DataSettings, columns: Sequence[str], address: str, *, need_label: bool = True
) -> Plan:
    """Find the job file's columns among those of a file.

    Raises
    ------
    DataError
        When one is missing or named twice; names the file.
    """
    doubled = sorted({name for name in columns if list(columns).count(name) > 1})
    if doubled:
        raise DataError(
            f"two columns have the same name, {doubled[0]!r}: {address}", "Rename one of them."
        )
    label = settings.label
    if label is None and "label" in columns:
        label = "label"
    if label is None and need_label:
        raise DataError(
            f"data.label is not set, and no column is called label: {address}",
            f"Set data.label to one of: {_some(columns)}.",
        )
    if label is not None and label not in columns:
        if need_label:
            raise _missing(label, columns, address, "data.label")
        label = None
    if settings.features is None:
        features = tuple(Feature(name) for name in columns if name not in (label, settings.label))
        return Plan(label, features)
    return Plan(label, tuple(_feature(text, columns, address) for text in settings.features))


def _feature(text: str, columns: Sequence[str], address: str) -> Feature:
    if text in columns:
        return Feature(text)
    for kind in ("number", "category", "id"):
        column, found, weights = text.rpartition(f":{kind}")
        if not found or (weights and not (kind == "id" and weights.startswith(":"))):
            continue
        for name in filter(None, (column, weights[1:])):
            if name not in columns:
                raise _missing(name, columns, address, f"data.features, {text!r}")
        return Feature(column, kind, weights[1:] or None)
    raise _missing(text, columns, address, "data.features")


def _missing(name: str, columns: Sequence[str], address: str, where: str) -> DataError:
    near = difflib.get_close_matches(name, columns, 1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return DataError(
        f"the file has no column {name!r} ({where}): {address}",
        f"{hint}It has: {_some(columns)}.",
    )


def _some(columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:30])
    return f"{shown}, … ({len(columns)} columns)" if len(columns) > 30 else shown


def check_same(named: Sequence[tuple[str, Sequence[str]]]) -> None:
    """All files must have the same columns, in any order, when the job file names none.

    Raises
    ------
    DataError
        Names the file that lacks one.
    """
    if not named:
        return
    first_address, first = named[0]
    for address, columns in named[1:]:
        for lacking, there, where in ((columns, first, address), (first, columns, first_address)):
            missing = [name for name in there if name not in lacking]
            if missing:
                other = first_address if where == address else address
                raise DataError(
                    f"the file has no column {missing[0]!r}, which another file of the input "
                    f"has: {where} (the other: {other})",
                    "Name the columns that all files have in data.features, or mend the file.",
                )


# -- texts


class TextColumn(dict[str, int]):
    """Turns the texts of one column into features; each distinct text is looked at once.

    The dict maps a text to its place in the arrays of keys, values and states.
    """

    ABSENT, ENTRY, BAD = 0, 1, 2

    def __init__(self, feature: Feature, nulls: Sequence[str]) -> None:
        super().__init__()
        self.feature = feature
        self._nulls = frozenset(nulls)
        self._name_key = hash64(feature.column)
        self._keys: list[int] = []
        self._values: list[float] = []
        self._states: list[int] = []

    def __missing__(self, text: str) -> int:
        key, value, state = self._look_at(text)
        code = len(self._keys)
        self._keys.append(key)
        self._values.append(value)
        self._states.append(state)
        self[text] = code
        return code

    def _look_at(self, text: str) -> tuple[int, float, int]:
        if text in self._nulls or text.strip() in self._nulls:
            return 0, 0.0, self.ABSENT
        kind = self.feature.kind
        if kind == "id":
            number = int(text) if _ID.fullmatch(text) and len(text) < 100 else MAX_ID + 1
            good = abs(number) <= MAX_ID
            return (number, 1.0, self.ENTRY) if good else (0, 0.0, self.BAD)
        if kind != "category":
            value = finite(text)
            if value is not None:
                return self._name_key, value, self.ENTRY
            if kind == "number" or _NUMBER.fullmatch(text) or _WORD.fullmatch(text):
                return 0, 0.0, self.BAD
        return hash64(f"{self.feature.column}={text}"), 1.0, self.ENTRY

    def encode(self, texts: Sequence[str]) -> tuple[Ints, Floats, Ints]:
        """Key, value and state of each text."""
        if len(self) > _CACHED_TEXTS:
            self.clear()
            self._keys, self._values, self._states = [], [], []
        codes = np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))
        keys = np.array(self._keys, np.int64)
        values = np.array(self._values, np.float32)
        return keys[codes], values[codes], np.array(self._states, np.int64)[codes]

    def complaint(self, text: str) -> str:
        """What is wrong with a text whose state is BAD."""
        name = self.feature.column
        if self.feature.kind == "id":
            return f"column {name!r} is not a 64-bit feature id: {text[:60]!r}"
        if _WORD.fullmatch(text) or _NUMBER.fullmatch(text):
            return (
                f"column {name!r} is not finite: {text[:60]!r} "
                "(if it means no value, add it to data.csv.nulls)"
            )
        return f"column {name!r} is not a number: {text[:60]!r}"


def finite(text: str) -> float | None:
    """The number in `text` as float32; None when it is none, or not finite."""
    if not _NUMBER.fullmatch(text):
        return None
    with np.errstate(over="ignore"):
        value = float(np.float32(float(text)))
    return value if math.isfinite(value) else None


# -- putting columns together


def assemble(labels: Floats, parts: Sequence[Part], good: np.ndarray, *, repeats: bool) -> Rows:
    """Rows from columns; those that are not `good` are left out.

    Parameters
    ----------
    labels
        float32, shape (n,).
    parts
        Entries of rows 0 to n - 1; within a row they follow in the order of the parts.
    good
        bool, shape (n,).
    repeats
        Whether a row may have a key more than once; such values are added up.
    """
    count = len(labels)
    rows = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])
    keys = np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)])
    values = np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)])
    order = np.argsort(rows, kind="stable")
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=indptr[1:])
    whole = Rows(labels, indptr, keys[order], values[order])
    if repeats:
        whole = merge_repeated(whole)
    return whole if good.all() else whole.take(np.flatnonzero(good))
