"""Which batches each shard has applied, so that it applies each of them once.

Marks are kept for every (epoch, split, push of the batch): per shard the next batch that is
expected (all before it are applied) and the batches applied beyond it. A worker announces all of
a server's shards with every push, so the first number moves along and the second stays empty but
for races. Marks are copied shard by shard, each together with the shard's rows, and are kept until
a durable cut counts the split as done; from then on the split is closed, and whatever still
arrives for it is a duplicate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]


class Key(NamedTuple):
    """What batches are counted along: the n-th push of the batches of a split in an epoch."""

    epoch: int
    split: int
    push: int


class ShardMark(NamedTuple):
    """One shard's mark for one key."""

    key: Key
    next: int
    above: tuple[int, ...]


class _Mark:
    """The marks of all shards of a server for one key."""

    def __init__(self, shards: int) -> None:
        self.next = np.zeros(shards, np.int32)
        self.above: dict[int, Bools] = {}

    def fresh(self, batch: int, shards: NDArray[np.int64]) -> Bools:
        fresh: Bools = self.next[shards] <= batch
        above = self.above.get(batch)
        if above is not None:
            fresh &= ~above[shards]
        return fresh

    def record(self, batch: int, shards: NDArray[np.int64]) -> None:
        """`shards` apply `batch` now."""
        expected = self.next[shards] == batch
        self.next[shards[expected]] += 1
        if not expected.all():
            above = self.above.setdefault(batch, np.zeros(len(self.next), bool))
            above[shards[~expected]] = True
        # A shard that lacks batches for good (`server.on_loss: patch`) is far behind all that come.
        if self.above and expected.any():
            self._absorb()

    def _absorb(self) -> None:
        for batch in sorted(self.above):
            above = self.above[batch]
            reached = above & (self.next == batch)
            self.next[reached] += 1
            above &= self.next <= batch
            if not above.any():
                del self.above[batch]


class Marks:
    """The marks of a server process, for `shards` shards in all (its own and others')."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._marks: dict[Key, _Mark] = {}
        self._closed: set[tuple[int, int]] = set()
        self._closed_epochs: set[int] = set()
        self._tokens: dict[tuple[int, int], int] = {}

    # ------------------------------------------------------------------ pushes

    def token_is_stale(self, epoch: int, split: int, token: int) -> bool:
        """Whether a higher lease token of this split has been seen; notes this one otherwise."""
        seen = self._tokens.get((epoch, split), 0)
        if token < seen:
            return True
        if token > seen:
            self._tokens[epoch, split] = token
        return False

    def fresh(self, key: Key, batch: int, shards: NDArray[np.int64]) -> Bools:
        """For each of the shards, whether it has yet to apply the batch."""
        if key.epoch in self._closed_epochs or (key.epoch, key.split) in self._closed:
            return np.zeros(len(shards), bool)
        mark = self._marks.get(key)
        return np.ones(len(shards), bool) if mark is None else mark.fresh(batch, shards)

    def record(self, key: Key, batch: int, shards: NDArray[np.int64]) -> None:
        """The shards have applied the batch."""
        mark = self._marks.get(key)
        if mark is None:
            mark = self._marks[key] = _Mark(self._shards)
        mark.record(batch, shards)

    # ------------------------------------------------------------------ cuts

    def close(self, epoch: int, splits: Iterable[int]) -> None:
        """A durable cut counts these splits as done; no splits: the whole epoch."""
        splits = set(splits)
        if splits:
            self._closed.update((epoch, split) for split in splits)
        else:
            self._closed_epochs.add(epoch)
            self._closed = {pair for pair in self._closed if pair[0] != epoch}
        for key in [key for key in self._marks if self._is_closed(key.epoch, key.split)]:
            del self._marks[key]
        for pair in [pair for pair in self._tokens if self._is_closed(*pair)]:
            del self._tokens[pair]

    def _is_closed(self, epoch: int, split: int) -> bool:
        return epoch in self._closed_epochs or (epoch, split) in self._closed

    @property
    def open_keys(self) -> list[Key]:
        return list(self._marks)

    @property
    def closed(self) -> list[tuple[int, int]]:
        """Closed (epoch, split); split -1: the whole epoch."""
        return sorted([(epoch, -1) for epoch in self._closed_epochs] + list(self._closed))

    @property
    def tokens(self) -> list[tuple[int, int, int]]:
        """The highest token seen of each (epoch, split)."""
        return [(epoch, split, token) for (epoch, split), token in self._tokens.items()]

    def of_shard(self, shard: int) -> list[ShardMark]:
        """A shard's marks, to be copied with its rows."""
        return [
            ShardMark(
                key,
                int(mark.next[shard]),
                tuple(batch for batch, above in mark.above.items() if above[shard]),
            )
            for key, mark in self._marks.items()
        ]

    def restore(self, shard: int, marks: Iterable[ShardMark]) -> None:
        """Take a shard over with the marks that were copied with its rows."""
        for key, expected, above in marks:
            mark = self._marks.setdefault(key, _Mark(self._shards))
            mark.next[shard] = expected
            for batch in above:
                column = mark.above.setdefault(batch, np.zeros(self._shards, bool))
                column[shard] = True

    def restore_closed(self, closed: Iterable[tuple[int, int]]) -> None:
        for epoch, split in closed:
            if split < 0:
                self._closed_epochs.add(epoch)
            else:
                self._closed.add((epoch, split))

    def restore_tokens(self, tokens: Iterable[tuple[int, int, int]]) -> None:
        for epoch, split, token in tokens:
            self._tokens[epoch, split] = max(token, self._tokens.get((epoch, split), 0))


class Recent:
    """Pushes outside a batch: the last requests of each incarnation, to drop repeated ones.

    The limit is far above what a client keeps outstanding, so a repeated request is always found.
    """

    LIMIT = 8192

    def __init__(self) -> None:
        self._seen: dict[int, tuple[set[int], deque[int]]] = {}

    def is_repeated(self, incarnation: int, request: int) -> bool:
        """Whether the request was seen; it is from now on."""
        found = self._seen.get(incarnation)
        if found is None:
            found = self._seen[incarnation] = set(), deque()
        seen, order = found
        if request in seen:
            return True
        seen.add(request)
        order.append(request)
        if len(order) > self.LIMIT:
            seen.remove(order.popleft())
        return False

    def forget(self, incarnation: int) -> None:
        self._seen.pop(incarnation, None)
