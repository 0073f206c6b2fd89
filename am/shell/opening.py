"""When the web page is opened.

Who waits for training to begin should not wait for a web server's modules first.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

# It is opened soon after training has begun, or so long after the containers have been asked for.
SOON_S = 0.5
LATEST_S = 8.0
BEGUN = ("first_push", "complete")  # events that say so


class Opening:
    """See the module's text."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        self._imported = asyncio.Event()

    def heard(self, kind: str) -> None:
        """An event of some kind has been logged."""
        if kind in BEGUN:
            self._begun.set()

    def imported(self) -> None:
        """Nothing else is imported any more."""
        self._imported.set()

    async def is_due(self, *, now: bool) -> None:
        """Wait until it is time; `now`: as soon as it can be, for people have its address."""
        if not now:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._begun.wait(), LATEST_S)
                await asyncio.sleep(SOON_S)
        # Two threads that import at the same time may wait for each other (Python 3.11).
        await self._imported.wait()
