"""A server that is lost, as an event says it: what is done again, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from yarnps.am.actions import Log
from yarnps.am.training.crew import RoleProcess


class Loss(NamedTuple):
    """`rows` were committed since the checkpoint that its shards come from (None: there is none).

    `server.on_loss` chooses one of three meanings:

    replay
        Its shards come from the checkpoint, the batches since then are leased again, and the other
        servers drop what they have by their marks.
    rollback
        All servers go back to the checkpoint, in a new generation of the routes.
    patch
        Its shards come from the checkpoint, and nothing is done again.
    """

    member: RoleProcess
    cut: int | None
    rows: int

    def replayed(self) -> Log:
        """The event of `replay`."""
        return self.log("replay", f"{self._back()}, {self.rows:,} rows are replayed")

    def rolled_back(self, generation: int) -> Log:
        """The event of `rollback`."""
        text = f"{self._back()}, {self.rows:,} rows are replayed by all"
        return self.log("rollback", f"{text}; generation {generation} begins")

    def patched(self, shards: int, of: int) -> Log:
        """The event of `patch`. Batches under way may have been in the lost shards: not counted."""
        back = "begin anew" if self.cut is None else f"come from checkpoint {self.cut}"
        text = (
            f"{self.member.name} is lost: its {shards} of {of} shards {back}. What they have "
            f"learned since, from {self.rows:,} rows and from batches under way, is lost and not "
            "done again"
        )
        return self.log("patch", text, shards=shards)

    def _back(self) -> str:
        where = "the beginning" if self.cut is None else f"checkpoint {self.cut}"
        return f"{self.member.name} is lost: back to {where}"

    def log(self, kind: str, text: str, **more: Any) -> Log:
        """An event about it."""
        data = {"rows": self.rows, **more}
        return Log(kind, text, role="server", rank=self.member.rank, data=data)


class Losses:
    """What `patch` has cost: `rows` whose pushes are lost, counted for each server that died."""

    def __init__(self) -> None:
        self.rows = 0
        self._patched_at: dict[int, int] = {}

    def add(self, server: int, done: int, saved: int) -> int:
        """A server died when so many rows were done, of which its checkpoint has so many; the loss.

        What it had lost the last time it cannot lose again.
        """
        rows = max(0, done - max(saved, self._patched_at.get(server, 0)))
        self._patched_at[server] = done
        self.rows += rows
        return rows

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {"rows": self.rows, "patched_at": list(self._patched_at.items())}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.rows, self._patched_at = data["rows"], dict(data["patched_at"])
