"""Lists of keys that both ends of a connection remember, so that they travel once.

A list is named by its hash. Each end keeps the lists used latest, up to a limit; the server's is
twice the worker's, so that what a worker still knows is rarely gone there. If it is, the server
says so and the worker sends the keys.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any

# A shorter list is as soon sent as named.
LEAST_BYTES = 1 << 10

NAME_BYTES = 16

# Keys that a worker's end counts on, and that a server's end keeps, for each connection.
WORKER_BYTES = 16 << 20
SERVER_BYTES = 32 << 20


def name_of(keys: Any) -> bytes:
    """The name of a list of keys (bytes-like)."""
    return blake2b(keys, digest_size=NAME_BYTES).digest()


class KeyLists:
    """The lists used latest, by name, with what one end keeps of each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lists: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._lists)

    def find(self, name: bytes) -> bytes | None:
        """What is kept of a list, which is used once more; None: it is not known."""
        found = self._lists.get(name)
        if found is None:
            return None
        self._lists.move_to_end(name)
        return found[1]

    def keep(self, name: bytes, nbytes: int, kept: bytes = b"") -> None:
        """Remember a list of `nbytes`; those that were not used for the longest time go."""
        self.drop(name)
        self._lists[name] = nbytes, kept
        self._nbytes += nbytes
        while self._nbytes > self._limit:
            _, (gone, _) = self._lists.popitem(last=False)
            self._nbytes -= gone

    def drop(self, name: bytes) -> None:
        found = self._lists.pop(name, None)
        if found is not None:
            self._nbytes -= found[0]

    def clear(self) -> None:
        self._lists.clear()
        self._nbytes = 0
