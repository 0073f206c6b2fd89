"""The free splits of a phase: which one a worker on a node gets next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

# How many splits are passed over for a node that they failed on, before one is given all the
# same. Bounds the work of a lease when a whole input fails on a node.
PASS_OVER = 64


class Pool:
    """Free splits in the order of their positions, findable by node and by rack.

    `racks`: node to rack, of the nodes that containers can be on; empty where there is one rack,
    or nobody tells.

    Splits start at their place in the phase's order; one that comes back goes to the front, since
    others may wait for it. Heaps of positions with stale entries left in make taking cost
    O(log n); the current position of each split tells which entry counts, so the choice depends
    on the positions alone and is the same after a restart.
    """

    def __init__(
        self,
        order: Sequence[int],
        hosts: Sequence[Sequence[str]],
        racks: Mapping[str, str] | None = None,
    ) -> None:
        self._order = order
        self._hosts = hosts
        self._racks = racks or {}
        self._position: dict[int, int] = {}  # of the free splits
        self._front: dict[int, int] = {}  # negative position -> split
        self._next_front = -1
        self._all: list[int] = []
        self._on_node: dict[str, list[int]] = {}
        self._on_rack: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._position)

    def fill(self, is_free: Callable[[int], bool]) -> None:
        """At a phase's start: every split that `is_free`, at its place in the order."""
        for position, split in enumerate(self._order):
            if is_free(split):
                self._enter(position, split, append=True)

    def _enter(self, position: int, split: int, *, append: bool = False) -> None:
        self._position[split] = position
        hosts = self._hosts[split]
        racks = dict.fromkeys(self._racks[h] for h in hosts if h in self._racks)
        for heap in (
            self._all,
            *(self._on_node.setdefault(host, []) for host in hosts),
            *(self._on_rack.setdefault(rack, []) for rack in racks),
        ):
            if append:  # ascending positions: a sorted list is a heap
                heap.append(position)
            else:
                heappush(heap, position)

    def put_back(self, split: int) -> None:
        """The split is free again: it goes first."""
        position = self._next_front
        self._next_front -= 1
        self._front[position] = split
        self._enter(position, split)

    def take(self, node: str, avoid: Callable[[int], bool]) -> int | None:
        """The next split for a worker on `node`: local before rack before any.

        Those that `avoid` names are left for others. None: nothing (else) is free.
        """
        near = self._on_node.get(node), self._on_rack.get(self._racks.get(node, ""))
        for heap in (*near, self._all):
            if heap and (split := self._take_from(heap, avoid)) is not None:
                self._front.pop(self._position.pop(split), None)
                return split
        return None

    def _take_from(self, heap: list[int], avoid: Callable[[int], bool]) -> int | None:
        passed: list[int] = []
        found = None
        while heap and found is None:
            position = heappop(heap)
            split = self._order[position] if position >= 0 else self._front.get(position)
            if split is None or self._position.get(split) != position:
                continue
            if len(passed) < PASS_OVER and avoid(split):
                passed.append(position)
            else:
                found = split
        for position in passed:
            heappush(heap, position)
        return found

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`; the free splits themselves are the ledger's to keep."""
        return {
            "front": [[position, self._front[position]] for position in sorted(self._front)],
            "next_front": self._next_front,
        }

    def restore(self, data: Any, is_free: Callable[[int], bool]) -> None:
        """Fill a new pool with the splits that are free, at the positions of `snapshot`."""
        self._front = dict(data["front"])
        self._next_front = data["next_front"]
        for position, split in self._front.items():  # ascending
            self._enter(position, split, append=True)
        self.fill(lambda split: is_free(split) and split not in self._position)
