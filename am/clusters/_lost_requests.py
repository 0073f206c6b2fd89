"""Requests that skein has lost on the way to the ResourceManager: found here, asked again above.

A request for a container that follows soon upon a bigger one of another service can be lost: skein
gives both the same priority, and of two sizes at one priority the ResourceManager keeps the last.
skein then says "requested" for ever while the ResourceManager has nothing pending. Such a request
is taken back; the ApplicationMaster sees the end of a container that cost nothing, and asks again.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_WAIT_S = 8.0
LONGEST_WAIT_S = 120.0
# Where the ResourceManager does not say what is pending, a request is taken for lost after this.
BLIND_WAIT_S = 60.0


class LostRequests:
    """Tells which requests to take back. No I/O, no clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._wait_s = FIRST_WAIT_S

    def suspects(self, requested: Iterable[str], now: float) -> bool:
        """Whether a request has waited so long that the ResourceManager should be asked."""
        self._since = {container: self._since.get(container, now) for container in requested}
        return any(now - since >= self._wait_s for since in self._since.values())

    def lost(self, pending: int | None, now: float) -> list[str]:
        """The requests to take back.

        Parameters
        ----------
        pending
            Containers that the ResourceManager knows to be asked for; None: it does not tell.
        """
        if pending is not None and pending >= len(self._since):
            self._wait_s = FIRST_WAIT_S
            return []
        # Some are pending, but not all: the ResourceManager does not say which. All that are over
        # the limit are asked for again, which does no harm to those that only wait.
        limit = self._wait_s if pending is not None else max(self._wait_s, BLIND_WAIT_S)
        gone = [c for c, since in self._since.items() if now - since >= limit]
        if gone:
            # On a full cluster nothing helps: do not ask over and over.
            self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)
        for container in gone:
            del self._since[container]
        return gone
