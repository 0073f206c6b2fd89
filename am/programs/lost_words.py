"""What ps-lite's nodes said in the moment when the ApplicationMaster's process died.

ps-lite acknowledges nothing: what had reached the dead process and was not in its journal is lost,
and the node waits for an answer for ever. It cannot be asked. But it stands still, and its agent
sees that: who is awaited and has done nothing at all since the restart had said so before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from yarnps.pslite.wire import Seat

# A node that uses less than this (of one core) does not compute.
QUIET_PERCENT = 5.0
# For so long, from the restart on: when somebody waits for it …
QUIET_S = 15.0
# … and when nobody says anything: the words of all may have been lost.
ALL_QUIET_S = 60.0
# A node that has worked or spoken so long after the restart has lost nothing with it.
AFTER_S = 10.0


class LostWords:
    """Finds them. `returned` is when the process came back last; the rest is not durable."""

    def __init__(self) -> None:
        self.returned: float | None = None
        self._quiet: dict[Seat, float] = {}

    def of(
        self,
        awaited: Iterable[tuple[Seat, float]],
        workers: Sequence[Seat],
        cpu: Callable[[Seat], float | None],
        now: float,
    ) -> list[Seat]:
        """Whose word is taken for lost.

        Parameters
        ----------
        awaited
            Nodes that others wait for, and since when those do.
        workers
            All that have work to do, if nobody waits for anybody.
        cpu
            Percent of one core that a node used at its last heartbeat; None: not known.
        """
        if self.returned is None:
            return []
        latest = self.returned + AFTER_S
        suspects = [seat for seat, since in awaited if since < latest]
        self._quiet = {
            seat: self._quiet.get(seat, now)
            for seat in dict.fromkeys([*suspects, *workers])
            if (used := cpu(seat)) is not None and used < QUIET_PERCENT
        }
        from_then_on = {seat: since for seat, since in self._quiet.items() if since < latest}
        lost = [s for s in suspects if s in from_then_on and now - from_then_on[s] >= QUIET_S]
        still = [s for s in workers if s in from_then_on and now - from_then_on[s] >= ALL_QUIET_S]
        return lost or (still[:1] if workers and len(still) == len(workers) else [])
