"""Which server process holds which shard, and where it is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yarnps._errors import InputError
from yarnps.protocol import control_pb2 as pb


@dataclass(frozen=True)
class Server:
    """Where a server rank is; without an address it is down."""

    address: str = ""
    incarnation: int = 0


class Routes:
    """The routing table of a job: one for all tables, with a version that grows at every change.

    Each server owns a range of consecutive shards, so that the elements of a dense table that a
    server holds are consecutive too; the ranges differ by at most one shard.
    """

    def __init__(self, shards: int, servers: int, *, generation: int = 1) -> None:
        if not 1 <= servers <= shards:
            raise InputError(
                f"{shards} shards cannot be shared out to {servers} server processes",
                f"set server.shards to at least {4 * servers}, a power of two",
            )
        self._owner = [shard * servers // shards for shard in range(shards)]
        self._servers = [Server() for _ in range(servers)]
        self._version = 1
        self._generation = generation

    def ready(self, rank: int, address: str, incarnation: int) -> pb.Routes:
        """A server serves its shards. Said again by the same one, it changes nothing."""
        return self._set(rank, Server(address, incarnation))

    def down(self, rank: int, incarnation: int | None = None) -> pb.Routes:
        """A server is gone. With `incarnation`: only if that one is still the rank's."""
        if incarnation is not None and self._servers[rank].incarnation != incarnation:
            return self.routes()
        return self._set(rank, Server())

    def _set(self, rank: int, server: Server) -> pb.Routes:
        if self._servers[rank] != server:
            self._servers[rank] = server
            self._version += 1
        return self.routes()

    def new_generation(self) -> pb.Routes:
        """Everything that is older is refused from now on (a rollback)."""
        self._generation += 1
        self._version += 1
        return self.routes()

    @property
    def version(self) -> int:
        """Grows at every change."""
        return self._version

    @property
    def generation(self) -> int:
        """Grows at every rollback or resume."""
        return self._generation

    @property
    def complete(self) -> bool:
        """Every shard is served."""
        return not self.missing()

    def missing(self) -> list[int]:
        """The ranks that are down."""
        return [rank for rank, server in enumerate(self._servers) if not server.address]

    def incarnations(self) -> dict[int, int]:
        """Rank -> incarnation of the servers that are up."""
        return {r: s.incarnation for r, s in enumerate(self._servers) if s.address}

    def shards_of(self, rank: int) -> tuple[int, int]:
        """How many shards a server has, and how many there are."""
        return self._owner.count(rank), len(self._owner)

    def routes(self) -> pb.Routes:
        """The table as it is sent to workers and servers."""
        return pb.Routes(
            version=self._version,
            generation=self._generation,
            servers=[
                pb.ServerRoute(server_rank=rank, address=s.address, incarnation=s.incarnation)
                for rank, s in enumerate(self._servers)
            ],
            owner=self._owner,
        )

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "version": self._version,
            "generation": self._generation,
            "owner": list(self._owner),
            "servers": [[s.address, s.incarnation] for s in self._servers],
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._version = data["version"]
        self._generation = data["generation"]
        self._owner = list(data["owner"])
        self._servers = [Server(address, incarnation) for address, incarnation in data["servers"]]
