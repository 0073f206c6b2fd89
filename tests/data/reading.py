"""Reading a whole input in a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from yarnps.data import BadRecord, DataSettings, RawBatch, Rows, list_input, read_batches

Write = Callable[[str, "str | bytes"], Path]


@dataclasses.dataclass
class Read:
    """All that reading an input has given."""

    batches: list[RawBatch]
    bad: list[BadRecord]
    bad_total: int

    @property
    def rows(self) -> list[tuple[float, dict[int, float]]]:
        return [row for batch in self.batches for row in plain(batch.rows)]

    @property
    def items(self) -> list[Any]:
        return [item for batch in self.batches for item in batch.rows.items]  # type: ignore[union-attr]


def plain(rows: Any) -> Iterator[tuple[float, dict[int, float]]]:
    """Rows as (label, {key: value}); fails when a key is there twice."""
    assert isinstance(rows, Rows)
    for row in range(len(rows)):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        keys = rows.keys[part].tolist()
        assert len(set(keys)) == len(keys)
        yield float(rows.labels[row]), dict(zip(keys, rows.values[part].tolist(), strict=True))


def read_all(
    address: str | Path, *, shuffle: bool = False, epoch: int = 0, **settings: Any
) -> Read:
    """Every batch of every split of an input."""
    wanted = DataSettings(**settings)
    batches, bad, total = [], [], 0
    for split in list_input(str(address), wanted, workers=2).splits:
        last = 0
        for batch in read_batches(split, wanted, epoch=epoch, shuffle=shuffle):
            batches.append(batch)
            bad += batch.bad
            last = batch.bad_total
        total += last
    return Read(batches, bad, total)
