"""The role processes that run now, as the training side of the job sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from yarnps.am.actions import Log, Tell, tell_role
from yarnps.am.training.ledger_records import Revoked
from yarnps.protocol import control_pb2 as pb


@dataclass
class RoleProcess:
    """A live incarnation."""

    id: int
    role: str
    rank: int
    container: str
    process: int
    start: int
    node: str
    address: str
    nth: int = 1  # start of the rank, over all its containers
    server_rank: int = 0  # servers: index among all server processes
    began: bool = False  # it has been told its job
    asked: bool = False  # workers: it has asked for input
    rows: int = 0  # workers: committed by this incarnation
    ended: bool = False  # workers: told that the data has ended
    pushed: bool = False  # workers: a push of it has been acknowledged
    through: bool = False  # workers: has said that its program is through

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.role} {self.rank}"

    def incarnation(self) -> pb.Incarnation:
        """Its identity as a message."""
        return pb.Incarnation(
            container=self.container, start=self.start, id=self.id, process=self.process
        )

    def tell(self, message: pb.ToRole) -> Tell:
        """The action that sends it a message."""
        return tell_role(self.container, self.process, message)

    def log(self, kind: str, text: str) -> Log:
        """An event about it."""
        return Log(
            kind,
            text,
            role=self.role,
            rank=self.rank,
            container=self.container,
            incarnation=self.nth,
            node=self.node,
        )


class Crew:
    """All live role processes by incarnation id, in the order of their start."""

    def __init__(self) -> None:
        self._members: dict[int, RoleProcess] = {}

    def add(self, member: RoleProcess) -> None:
        """One more has started."""
        self._members[member.id] = member

    def remove(self, incarnation: int) -> RoleProcess | None:
        """One is gone."""
        return self._members.pop(incarnation, None)

    def get(self, incarnation: int) -> RoleProcess | None:
        """The process, if it lives."""
        return self._members.get(incarnation)

    def of(self, role: str) -> Iterator[RoleProcess]:
        """All of a role."""
        return (m for m in list(self._members.values()) if m.role == role)

    def of_rank(self, role: str, rank: int) -> Iterator[RoleProcess]:
        """All processes of a rank."""
        return (m for m in self.of(role) if m.rank == rank)

    def tell_all(self, role: str, message: pb.ToRole) -> list[Tell]:
        """Send a message to all of a role that have begun."""
        return [m.tell(message) for m in self.of(role) if m.began]

    def tell_revoked(self, leases: Iterable[Revoked], *, to_workers: bool = True) -> list[Tell]:
        """Tell the servers, and usually the workers, that leases are void."""
        out: list[Tell] = []
        for lease in leases:
            message = pb.ToRole(revoke=lease.to_pb())
            out += self.tell_all("server", message)
            if to_workers:
                out += self.tell_all("worker", message)
        return out

    def snapshot(self) -> list[dict[str, Any]]:
        """Plain data for `restore`."""
        return [dataclasses.asdict(m) for m in self._members.values()]

    def restore(self, data: list[dict[str, Any]]) -> None:
        """Put back what `snapshot` gave."""
        self._members = {item["id"]: RoleProcess(**item) for item in data}
