"""Bad records of a split: all are counted, the first few are kept."""

from __future__ import annotations

from ._compressed import is_compressed
from ._lines import Block, lines_before
from ._records import BadRecord, Split

KEPT = 20  # per split; enough to see what is wrong with the file
TEXT_CHARS = 200


class BadLog:
    """Collects the bad records of one split."""

    def __init__(self, split: Split) -> None:
        self.total = 0
        self._split = split
        self._kept = 0
        self._fresh: list[BadRecord] = []
        self._before: int | None = None if not _is_later_part(split) else -1

    @property
    def full(self) -> bool:
        """Whether further records are only counted, so that their text need not be made."""
        return self._kept >= KEPT

    def add(self, line: int, error: str, text: str | bytes) -> None:
        """Count a record; `line` is 1 for the first line of the *file*, 0 if unknown."""
        self.total += 1
        if self.full:
            return
        self._kept += 1
        if isinstance(text, bytes):
            text = text[: 4 * TEXT_CHARS].decode("utf-8", "backslashreplace")
        self._fresh.append(BadRecord(self._split.path, line, error, text[:TEXT_CHARS]))

    def add_in_block(self, block: Block, index: int, error: str, text: str | bytes) -> None:
        """Count line `index` (from 0) of a block of lines."""
        if self.full:
            self.total += 1
            return
        before = self._lines_before()
        if before is None:
            self.add(0, f"{error} (in the block at byte {block.start})", text)
        else:
            self.add(before + block.line + index + 1, error, text)

    def _lines_before(self) -> int | None:
        """Counting them means reading the file up to the split: only when there is a need."""
        if not _is_later_part(self._split):
            return 0
        if self._before == -1:
            self._before = lines_before(self._split)
        return self._before

    def take(self) -> list[BadRecord]:
        """The records kept since the last call."""
        fresh, self._fresh = self._fresh, []
        return sorted(fresh, key=lambda record: record.line)


def _is_later_part(split: Split) -> bool:
    return split.start > 0 and not is_compressed(split.path)
