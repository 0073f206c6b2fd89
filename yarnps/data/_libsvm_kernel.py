# mypy: disallow_untyped_defs=False, disallow_untyped_decorators=False, disallow_untyped_calls=False
"""The libsvm parser, compiled. Import it late: numba takes half a second."""

from __future__ import annotations

import math

import numpy as np

from yarnps._kernels import jit

_MAX_ID = np.uint64((1 << 63) - 1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.array([float(f"1e{power}") for power in range(-343, 309)])
_MANTISSA_LIMIT = np.uint64((1 << 64) // 10 - 1)
# The product of a rounded mantissa and a rounded power is off by less than this part of itself.
_MARGIN = 2.0**-49
_ZERO = np.uint8(48)  # the character 0
_ONE, _TEN, _POWER_0 = np.uint64(1), np.uint64(10), np.uint64(343)


@jit
def parse_float(data, at, stop):
    """The decimal number in data[at:stop] as (value, state).

    State 0: the value is float32(exact value). 1: not a number. 2: nan or infinite, also for
    float32. 3: too close to the middle between two float32 to be sure; the caller asks Python.
    """
    negative = False
    if at < stop and (data[at] == 45 or data[at] == 43):  # - +
        negative = data[at] == 45
        at += 1
    mantissa = np.uint64(0)
    exponent = 0
    digits = 0
    dropped = False
    while at < stop and 48 <= data[at] <= 57:
        digits += 1
        if mantissa <= _MANTISSA_LIMIT:
            mantissa = mantissa * np.uint64(10) + np.uint64(data[at] - 48)
        else:
            exponent += 1
            dropped = True
        at += 1
    if at < stop and data[at] == 46:  # .
        at += 1
        while at < stop and 48 <= data[at] <= 57:
            digits += 1
            if mantissa <= _MANTISSA_LIMIT:
                mantissa = mantissa * np.uint64(10) + np.uint64(data[at] - 48)
                exponent -= 1
            else:
                dropped = True
            at += 1
    if digits == 0:
        return np.float32(0), _word_state(data, at, stop)
    if at < stop and (data[at] == 101 or data[at] == 69):  # e E
        at += 1
        minus = False
        if at < stop and (data[at] == 45 or data[at] == 43):
            minus = data[at] == 45
            at += 1
        if at == stop:
            return np.float32(0), 1
        power = 0
        while at < stop and 48 <= data[at] <= 57:
            power = min(power * 10 + (data[at] - 48), 100000)
            at += 1
        exponent += -power if minus else power
    if at != stop:
        return np.float32(0), 1
    if mantissa == 0:
        return np.float32(-0.0) if negative else np.float32(0.0), 0
    if exponent > 308:
        return np.float32(0), 2
    if exponent < -343:
        return np.float32(-0.0) if negative else np.float32(0.0), 0
    if -22 <= exponent < 0 and mantissa < (1 << 53):
        value = float(mantissa) / _POWERS[343 - exponent]
        exact = True
    else:
        value = float(mantissa) * _POWERS[343 + exponent]
        exact = 0 <= exponent <= 22 and mantissa < (1 << 53) and not dropped
    if negative:
        value = -value
    rounded = np.float32(value)
    if not exact:
        below, above = value * (1.0 - _MARGIN), value * (1.0 + _MARGIN)
        if np.float32(below) != np.float32(above):
            return rounded, 3
    if not math.isfinite(rounded):
        return rounded, 2
    return rounded, 0


@jit
def _word_state(data, at, stop):
    """2 for nan, inf and infinity in any case, else 1."""
    size = stop - at
    if size != 3 and size != 8:
        return 1
    a, b, c = data[at] | 32, data[at + 1] | 32, data[at + 2] | 32
    if size == 3 and a == 110 and b == 97 and c == 110:
        return 2
    return 2 if a == 105 and b == 110 and c == 102 else 1


@jit
def merge_row(keys, values, first, stop, slots, mark):
    """Add up repeated keys of one row in place; returns its new end.

    `slots` (int64, shape (n, 3), n a power of two and at least twice the row) is a hash table of
    mark, key and place. A slot is taken in this row when it holds this row's mark, so that nothing
    has to be cleared; only as much of it is used as the row needs, which keeps it in the cache.
    """
    wanted = 16
    while wanted < 2 * (stop - first):
        wanted *= 2
    mask = wanted - 1
    end = first
    for place in range(first, stop):
        key = keys[place]
        slot = np.int64((np.uint64(key) * _MIX) >> np.uint64(33)) & mask
        while slots[slot, 0] == mark and slots[slot, 1] != key:
            slot = (slot + 1) & mask
        if slots[slot, 0] == mark:
            values[slots[slot, 2]] += values[place]
        else:
            slots[slot, 0] = mark
            slots[slot, 1] = key
            slots[slot, 2] = end
            keys[end] = key
            values[end] = values[place]
            end += 1
    return end


@jit
def merge_rows(keys, values, indptr, slots):
    """Add up repeated keys of all rows in place, `indptr` too; returns the number of entries."""
    end = 0
    first = indptr[0]
    for row in range(len(indptr) - 1):
        stop = indptr[row + 1]
        start = end
        for place in range(first, stop):  # rows move down over what was merged before them
            keys[end] = keys[place]
            values[end] = values[place]
            end += 1
        end = merge_row(keys, values, start, end, slots, row)
        indptr[row + 1] = end
        first = stop
    return end


@jit
def _blank(sign):
    return sign == 32 or sign == 9 or sign == 13


@jit
def _token_end(data, at):
    while at < len(data) and data[at] > 32 and data[at] != 35:  # up to a blank or #
        at += 1
    return at


@jit
def parse_id(data, at, stop):
    """The integer before a colon in data[at:stop] as (id, place of the colon), -1 if there is none.

    `qid` gives -2 for the place: a query's id is no feature.
    """
    begin = at
    negative = False
    if at < stop and (data[at] == 45 or data[at] == 43):
        negative = data[at] == 45
        at += 1
    first = at
    while at < stop and data[at] == 48:
        at += 1
    significant = at
    number = np.uint64(0)
    while at < stop and 48 <= data[at] <= 57:
        number = number * np.uint64(10) + np.uint64(data[at] - 48)
        at += 1
    size = at - significant
    if at < stop and data[at] == 58 and at > first and size <= 19 and number <= _MAX_ID:
        return (-np.int64(number) if negative else np.int64(number)), at
    if (
        stop - begin > 4
        and data[begin] == 113
        and data[begin + 1] == 105
        and data[begin + 2] == 100
        and data[begin + 3] == 58
    ):
        return np.int64(0), -2
    return np.int64(0), -1


@jit
def _simple_entries(data, start, keys, values, first):
    """The entries from `start` on that look as most do: a blank, up to 18 digits, a colon, and a
    number of up to 15 digits; nothing of it is looked at twice.

    Mantissa and power of ten are exact in float64 then, so that the quotient is rounded once: what
    `parse_float` would make of it. `data` ends with a line feed, at which each loop stops.

    Returns the place after the last of them, the number of entries then, and whether ids went up.
    """
    at, entries = np.uint64(start), np.uint64(first)  # unsigned: no index counts from the end
    before = np.int64(-1)
    ordered = True
    while data[at] == 32:
        begin = at
        at += _ONE
        number = np.uint64(0)
        digit = np.uint8(data[at] - _ZERO)
        while digit <= 9:
            number = number * _TEN + np.uint64(digit)
            at += _ONE
            digit = np.uint8(data[at] - _ZERO)
        if data[at] != 58 or at - begin < np.uint64(2) or at - begin > np.uint64(19):
            return np.int64(begin), np.int64(entries), ordered
        at += _ONE
        negative = data[at] == 45
        at += np.uint64(negative)
        digits = np.uint64(0)
        mantissa = np.uint64(0)
        digit = np.uint8(data[at] - _ZERO)
        while digit <= 9:
            mantissa = mantissa * _TEN + np.uint64(digit)
            digits += _ONE
            at += _ONE
            digit = np.uint8(data[at] - _ZERO)
        value = np.float64(mantissa)
        if data[at] == 46:
            at += _ONE
            point = at
            digit = np.uint8(data[at] - _ZERO)
            while digit <= 9:
                mantissa = mantissa * _TEN + np.uint64(digit)
                at += _ONE
                digit = np.uint8(data[at] - _ZERO)
            digits += at - point
            value = np.float64(mantissa) / _POWERS[_POWER_0 + min(at - point, _TEN + _TEN)]
        if digits == 0 or digits > np.uint64(15) or data[at] > 32:
            return np.int64(begin), np.int64(entries), ordered
        key = np.int64(number)
        ordered &= key > before
        before = key
        keys[entries] = key
        values[entries] = np.float32(-value if negative else value)
        entries += _ONE
    return np.int64(at), np.int64(entries), ordered


@jit
def _parse_entries(data, at, keys, values, entries):
    """The `id:value` pairs from `at` to the end of the line.

    Returns the place where reading stopped, the number of entries then, whether all was good,
    whether a number is in doubt, and whether the ids went up.
    """
    doubtful = False
    first = entries
    at, entries, ordered = _simple_entries(data, at, keys, values, entries)
    while at < len(data):
        sign = data[at]
        if _blank(sign):
            at += 1
            continue
        if sign == 10 or sign == 35:
            break
        stop = _token_end(data, at)
        if stop == at:  # a control character
            return at, entries, False, doubtful, ordered
        key, colon = parse_id(data, at, stop)
        if colon == -2:
            at = stop
            continue
        if colon == -1:
            return at, entries, False, doubtful, ordered
        value, state = parse_float(data, colon + 1, stop)
        if state == 1 or state == 2:
            return at, entries, False, doubtful, ordered
        doubtful = doubtful or state == 3
        ordered = ordered and (entries == first or key > keys[entries - 1])
        keys[entries] = key
        values[entries] = value
        entries += 1
        end, more, rising = _simple_entries(data, stop, keys, values, entries)
        ordered = ordered and rising and (more == entries or keys[entries] > key)
        at, entries = end, more
    return at, entries, True, doubtful, ordered


@jit
def parse_block(data, labels, indptr, keys, values, places, bad, doubt, slots, mark):
    """Parse whole lines of libsvm text.

    Parameters
    ----------
    data : uint8
        The lines; the last one ends with a line feed, too.
    labels, indptr, keys, values
        Get the rows; large enough for all of them.
    places, bad : int64
        Get the place of each row's line, and of each bad record's.
    doubt : int64
        Gets the rows with a number that Python must convert.
    slots, mark
        See `merge_row`; marks from `mark` on are free.

    Returns
    -------
    rows, bad records, rows in doubt; or -1, n, 0 when a row of n entries needs more slots
    """
    rows = bads = doubts = entries = at = 0
    indptr[0] = 0
    while at < len(data):
        line = at
        while at < len(data) and _blank(data[at]):
            at += 1
        if at < len(data) and data[at] != 10 and data[at] != 35:
            stop = _token_end(data, at)
            label, state = parse_float(data, at, stop)
            good = state == 0 or state == 3
            if good:
                at, end, good, doubtful, ordered = _parse_entries(data, stop, keys, values, entries)
                doubtful = doubtful or state == 3
                if good and not ordered:
                    if len(slots) < 2 * (end - entries):
                        return -1, end - entries, 0
                    end = merge_row(keys, values, entries, end, slots, mark + rows)
                    for place in range(entries, end):
                        good = good and math.isfinite(values[place])
            if good:
                if doubtful:
                    doubt[doubts] = rows
                    doubts += 1
                labels[rows] = label
                places[rows] = line
                rows += 1
                entries = end
                indptr[rows] = end
            else:
                bad[bads] = line
                bads += 1
        while at < len(data) and data[at] != 10:
            at += 1
        at += 1
    return rows, bads, doubts
