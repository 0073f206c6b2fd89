"""Which containers are the job's: requests, their nonces, and containers that are nobody's."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import Decision, Release, Request
from yarnps.am.resources.ranks import Rank
from yarnps.causes import Cause


class Requests:
    """The way from a rank to its container and back.

    A container may be seen in the cluster's list, or its agent may register, before the cluster's
    answer to the request has come: until then nothing unknown of that role is released.
    """

    def __init__(self, seed: bytes, roles: Collection[str]) -> None:
        self._seed = seed
        self._roles = roles
        self._nonces = 0
        self._in_flight: dict[str, str] = {}  # nonce -> role: no answer yet
        self._early: dict[str, ContainerInfo] = {}  # seen before the answer
        self._released: dict[str, str] = {}  # ours once -> why not any more
        self._by_nonce: dict[str, Rank] = {}
        self._by_container: dict[str, Rank] = {}

    def rank_of(self, container: str) -> Rank | None:
        """The rank that a container belongs to now."""
        return self._by_container.get(container)

    def was_ours(self, container: str) -> bool:
        """Whether a container has been released, or has ended."""
        return container in self._released

    # ------------------------------------------------------------ a rank's container

    def ask(self, rank: Rank) -> Request:
        """Make a request for a rank; an earlier one of it is void."""
        self._unbind(rank)
        self._nonces += 1
        # Replay must give the same nonces, and nobody outside may guess them.
        digest = hmac.new(self._seed, f"nonce {self._nonces}".encode(), hashlib.sha256)
        rank.nonce = digest.hexdigest()[:32]
        rank.phase, rank.ask_at = "asked", None
        self._by_nonce[rank.nonce] = rank
        self._in_flight[rank.nonce] = rank.role
        env = {
            "YARNPS_ROLE": rank.role,
            "YARNPS_RANK": str(rank.rank),
            "YARNPS_NONCE": rank.nonce,
        }
        return Request(rank.role, rank.rank, rank.nonce, env, rank.bigger)

    def answered(self, nonce: str) -> tuple[str, Rank | None]:
        """The cluster has answered: the request's role, and the rank that it still stands for."""
        return self._in_flight.pop(nonce, ""), self._by_nonce.get(nonce)

    def bind(self, rank: Rank, container: str) -> ContainerInfo | None:
        """`container` is the rank's; what has been seen of it before."""
        rank.container = container
        self._by_container[container] = rank
        return self._early.pop(container, None)

    def ended(self, rank: Rank) -> None:
        """The rank's container is gone."""
        if rank.container:
            self._released[rank.container] = "it has ended"
        self._unbind(rank)

    def let_go(
        self, rank: Rank, cause: Cause, text: str, *, polite: bool = False
    ) -> list[Decision]:
        """Release the rank's container, if it has one, or void its request."""
        container = rank.container
        self._unbind(rank)
        return [self.release(container, cause, text, polite=polite)] if container else []

    def release(self, container: str, cause: Cause, text: str, *, polite: bool = False) -> Release:
        """Release any container."""
        self._released[container] = text
        self._early.pop(container, None)
        return Release(container, cause, text, polite)

    def _unbind(self, rank: Rank) -> None:
        self._by_nonce.pop(rank.nonce, None)
        self._by_container.pop(rank.container, None)
        rank.forget_container()

    # ------------------------------------------------------------ nobody's containers

    def stranger(self, info: ContainerInfo) -> list[Decision]:
        """Judge a container of no rank: wait for an answer that is on its way, or release it."""
        if info.role not in self._roles or self.was_ours(info.id):
            return []
        if info.role in self._in_flight.values():
            self._early[info.id] = info
            return []
        self._early.pop(info.id, None)
        if info.state == "ended":
            return []
        return [self.release(info.id, Cause.OUR_KILL, "not known to this job")]

    def orphans(self, role: str) -> list[Decision]:
        """Judge those of a role again, after an answer."""
        if role in self._in_flight.values():
            return []
        early = [info for info in self._early.values() if info.role == role]
        return [decision for info in early for decision in self.stranger(info)]

    def forget_answers(self) -> None:
        """After a restart no answer is on its way any more."""
        self._in_flight, self._early = {}, {}

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data, without the ranks."""
        return {
            "nonces": self._nonces,
            "in_flight": dict(self._in_flight),
            "early": [dataclasses.asdict(info) for info in self._early.values()],
            "released": dict(self._released),
        }

    def restore(self, data: Mapping[str, Any], ranks: Iterable[Rank]) -> None:
        """The inverse of `snapshot`; `ranks` have been restored before."""
        self._nonces = data["nonces"]
        self._in_flight = dict(data["in_flight"])
        self._early = {item["id"]: ContainerInfo(**item) for item in data["early"]}
        self._released = dict(data["released"])
        ranks = list(ranks)
        self._by_nonce = {rank.nonce: rank for rank in ranks if rank.nonce}
        self._by_container = {rank.container: rank for rank in ranks if rank.container}
