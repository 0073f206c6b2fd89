# mypy: disable-error-code="attr-defined, no-untyped-call, no-any-return"
"""Arrow columns as features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from yarnps._errors import DataError

from ._columns import Feature, Part, TextColumn
from ._hashing import hash64
from ._records import Floats, Ints

Complain = Callable[[Any, str], None]  # (rows, what is wrong with them)


def encode_label(name: str, column: Any, complain: Complain, address: str) -> Floats:
    """Labels as float32; rows without a finite one are bad."""
    import pyarrow as pa

    if not _is_number(column.type):
        raise DataError(
            f"the label column {name!r} is of type {column.type}, not a number: {address}",
            "Write it as a number, or name another column in data.label.",
        )
    complain(np.flatnonzero(_nulls(column)), f"no label in {name!r}")
    labels = _numbers(column.fill_null(pa.scalar(0).cast(column.type)))
    complain(np.flatnonzero(~np.isfinite(labels)), f"the label in {name!r} is not finite")
    return labels


def encode_column(
    texts: TextColumn,
    feature: Feature,
    column: Any,
    weights: Any,
    complain: Complain,
    address: str,
) -> Part:
    """The entries of one column (and of the column with its weights)."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    if _is_list(column.type):
        lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(column)), lengths)
        items = pc.list_flatten(column)
        starts = np.cumsum(lengths) - lengths
        places = np.arange(len(rows)) - np.repeat(starts, lengths)
    else:
        lengths = np.ones(len(column), np.int64)
        rows, items, places = np.arange(len(column)), column, None
    if weights is not None:
        return _weighted(feature, rows, items, lengths, weights, complain, address)
    kind = feature.kind
    if kind == "auto":
        kind = _kind(items.type, feature, address)
        if places is not None and types.is_integer(items.type):
            kind = "id"
    there = np.flatnonzero(~_nulls(items))
    rows, items = rows[there], items.drop_null()
    if kind == "id":
        keys = _ids(feature.column, rows, items, complain, address)
        return Part(rows, keys, np.ones(len(rows), np.float32))
    if kind == "number" and _is_number(items.type):
        values = _numbers(items)
        complain(rows[~np.isfinite(values)], f"column {feature.column!r} is not finite")
        if places is None:
            return Part(rows, np.full(len(rows), hash64(feature.column), np.int64), values)
        return Part(rows, _place_keys(feature.column, places[there]), values)
    return _text_part(texts, rows, items, complain)


def _kind(type_: Any, feature: Feature, address: str) -> Any:
    import pyarrow.types as types

    if _is_number(type_):
        return "number"
    if types.is_dictionary(type_):
        type_ = type_.value_type
    texts = (types.is_string, types.is_large_string, types.is_temporal, types.is_null)
    if any(test(type_) for test in texts):
        return "category"
    raise DataError(
        f"column {feature.column!r} is of type {type_}, which cannot be a feature: {address}",
        "Leave it out: name the feature columns in data.features.",
    )


def _text_part(texts: TextColumn, rows: Ints, items: Any, complain: Complain) -> Part:
    """Each distinct text is encoded once."""
    import pyarrow as pa

    if pa.types.is_dictionary(items.type):
        items = items.cast(items.type.value_type)
    encoded = items.cast(pa.string()).dictionary_encode()
    words = encoded.dictionary.to_pylist()
    keys, values, states = texts.encode(words)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    for code in np.flatnonzero(states == TextColumn.BAD):
        complain(rows[codes == code], texts.complaint(words[code]))
    used = states[codes] == TextColumn.ENTRY
    return Part(rows[used], keys[codes][used], values[codes][used])


def _weighted(
    feature: Feature,
    rows: Ints,
    items: Any,
    lengths: Ints,
    weights: Any,
    complain: Complain,
    address: str,
) -> Part:
    """Ids in one column, their values in another, cell by cell of the same length."""
    import pyarrow.compute as pc

    if _is_list(weights.type):
        sizes = pc.list_value_length(weights).fill_null(0).to_numpy(zero_copy_only=False)
        values = pc.list_flatten(weights)
    else:
        sizes, values = np.ones(len(weights), np.int64), weights
    if not _is_number(values.type):
        raise DataError(
            f"column {feature.weights!r} is of type {weights.type}, not numbers: {address}",
            f"It holds the values of the ids in {feature.column!r} (data.features).",
        )
    unequal = lengths != sizes
    names = f"{feature.column!r} and {feature.weights!r}"
    complain(np.flatnonzero(unequal), f"{names} are not of the same length")
    ids_kept = np.flatnonzero(~np.repeat(unequal, lengths))
    values_kept = np.flatnonzero(~np.repeat(unequal, sizes))
    rows, items, values = rows[ids_kept], items.take(ids_kept), values.take(values_kept)
    there = np.flatnonzero(~_nulls(items) & ~_nulls(values))
    rows, items, values = rows[there], items.take(there), values.take(there)
    keys = _ids(feature.column, rows, items, complain, address)
    numbers = _numbers(values)
    complain(rows[~np.isfinite(numbers)], f"column {feature.weights!r} is not finite")
    return Part(rows, keys, numbers)


def _ids(name: str, rows: Ints, items: Any, complain: Complain, address: str) -> Ints:
    import pyarrow as pa

    if not pa.types.is_integer(items.type):
        raise DataError(
            f"column {name!r} is of type {items.type}, so it holds no feature ids: {address}",
            "Feature ids are whole numbers; use :category for texts.",
        )
    numbers = items.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        complain(rows[numbers >= 1 << 63], f"a feature id in {name!r} is beyond 64 bits")
    return numbers.astype(np.int64)


def _place_keys(name: str, places: Ints) -> Ints:
    """A list of numbers is a vector: element i is the feature hash64("name[i]")."""
    longest = int(places.max()) + 1 if len(places) else 0
    keys = np.array([hash64(f"{name}[{place}]") for place in range(longest)], np.int64)
    return keys[places]


def _nulls(column: Any) -> Any:
    return column.is_null().to_numpy(zero_copy_only=False)


def _numbers(column: Any) -> Floats:
    """float32; what does not fit becomes infinite, and so a bad record."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    with np.errstate(over="ignore"):
        numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers.astype(np.float32)


def _is_number(type_: Any) -> bool:
    import pyarrow.types as types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(type_) for test in tests)


def _is_list(type_: Any) -> bool:
    import pyarrow.types as types

    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(test(type_) for test in tests)
