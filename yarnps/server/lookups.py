"""Where the rows of recent pulls are, so that the pushes that follow need not look for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol.shards import Int64s, Sections

# Below this looking keys up is faster than comparing them with known ones.
_LEAST_KEYS = 256
# Of all lookups that are kept. A batch of 2,048 rows of 40 features takes half a megabyte; a
# worker has two batches under way.
_MOST_BYTES = 8 << 20

_Name = tuple[int, int, int]


class Lookup(NamedTuple):
    """What was found.

    Attributes
    ----------
    sections
        Those with keys: a push names the others, too.
    rows
        The addresses of the keys' rows.
    moves
        How often each segment had moved by then.
    """

    keys: Int64s
    sections: Sections
    rows: Int64s
    moves: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.rows.nbytes


class Lookups:
    """The most recent lookups; each is of use once."""

    def __init__(self) -> None:
        self._known: dict[_Name, Lookup] = {}  # the oldest first
        self._nbytes = 0

    def keep(
        self, keys: Int64s, sections: Sections, rows: Int64s, moves: NDArray[np.int64]
    ) -> None:
        """Keep where rows are. `rows` is not copied; the others may be in a message's memory."""
        if not _LEAST_KEYS <= len(keys) <= _MOST_BYTES // 16:
            return
        self._pop(_name(keys))
        known = Lookup(keys.copy(), _with_keys(sections).copy(), rows, moves.copy())
        self._known[_name(keys)] = known
        self._nbytes += known.nbytes
        while self._nbytes > _MOST_BYTES:
            self._pop(next(iter(self._known)))

    def take(self, keys: Int64s, sections: Sections) -> Lookup | None:
        """The lookup of exactly these keys."""
        if len(keys) < _LEAST_KEYS or _name(keys) not in self._known:
            return None
        known = self._pop(_name(keys))
        if known is None or not np.array_equal(known.keys, keys):
            return None
        return known if np.array_equal(known.sections, _with_keys(sections)) else None

    def _pop(self, name: _Name) -> Lookup | None:
        known = self._known.pop(name, None)
        self._nbytes -= 0 if known is None else known.nbytes
        return known


def _name(keys: Int64s) -> _Name:
    return len(keys), int(keys[0]), int(keys[-1])


def _with_keys(sections: Sections) -> Sections:
    return sections[sections[:, 1] > 0]
