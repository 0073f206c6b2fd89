"""How much memory tables may take, and what is said before it is used up."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from typing import TypeAlias

from yarnps.server.dense import DenseTable
from yarnps.server.sparse import SparseTable

Table: TypeAlias = SparseTable | DenseTable

# Left for messages under way, and for the copies of shards that a checkpoint makes.
_BESIDE_TABLES = 64 << 20
_LEVELS = (0.8, 0.9)


def table_limit(memory: int, share: float, own: int) -> int:
    """Bytes for tables.

    Parameters
    ----------
    memory
        Of the process: its part of the container.
    share
        `server.table_memory` of the job file.
    own
        What the process takes without tables: in a small container the share would leave less.
    """
    return max(0, min(int(memory * share), memory - own - _BESIDE_TABLES))


def resident() -> int:
    """Bytes of memory that this process takes now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * mmap.PAGESIZE


class Watch:
    """Notices when tables come near their limit, and when their policies begin to cost rows.

    Each of it is said once; the numbers are in the statistics.
    """

    def __init__(self) -> None:
        self._said: set[tuple[str, object]] = set()

    def look(self, tables: Iterable[Table], limit: int | None) -> list[str]:
        """What there is to say now."""
        tables = list(tables)
        found = []
        used = sum(table.nbytes for table in tables)
        for level in _LEVELS:
            if limit is not None and used >= level * limit and self._first("level", level):
                found.append(
                    f"tables take {used / max(limit, 1):.0%} of the {limit:,} bytes that they may "
                    "take on this server; then " + "; ".join(sorted(map(_when_full, tables)))
                )
        for table in tables:
            for what, words in _LOSSES.items():
                if words[0](table) and self._first(what, table.spec.name):
                    found.append(f"table {table.spec.name}: {words[1]}")
        return found

    def _first(self, what: str, about: object) -> bool:
        new = (what, about) not in self._said
        self._said.add((what, about))
        return new


_LOSSES: dict[str, tuple[Callable[[Table], int], str]] = {
    "ignored": (
        lambda table: table.losses.ignored,
        "new keys get no row any more: the memory for tables is used up",
    ),
    "evicted": (
        lambda table: table.losses.evicted,
        "the oldest rows make room for new ones: the memory for tables is used up",
    ),
    "nonfinite": (
        lambda table: table.nonfinite,
        "a gradient held NaN or infinity, and the table is open to that",
    ),
}


def _when_full(table: Table) -> str:
    outcomes = {
        "fail": "is refused new rows",
        "ignore": "ignores new keys",
        "evict": "forgets its oldest rows",
    }
    if isinstance(table, DenseTable):
        return f"table {table.spec.name} stays as it is"
    return f"table {table.spec.name} {outcomes[table.spec.when_full]}"
