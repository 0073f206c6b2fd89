"""What a death means: its price, whether it would happen again, and which nodes to avoid."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from yarnps.am.resources import decode
from yarnps.am.resources.budget import NodeChoice
from yarnps.am.resources.decisions import RolePlan
from yarnps.am.resources.decode import Ending
from yarnps.am.resources.ranks import Rank
from yarnps.causes import Cause

# So many containers that failed before any agent of the job has ever registered: then it is what
# all of them share, and more of them would fail the same way.
EARLY_ENDS = 2


class Deaths:
    """The experience of the whole job with its containers."""

    def __init__(self, plans: Mapping[str, RolePlan]) -> None:
        self.nodes = NodeChoice()
        self._plans = plans
        self._early_ends = 0
        self._proven: dict[str, bool] = {}  # roles of which a process has said hello
        self._registered: dict[str, bool] = {}  # nodes where an agent has

    def said_hello(self, role: str) -> None:
        """A role's program works on some node."""
        self._proven[role] = True

    def registered(self, node: str) -> None:
        """An agent has come up on a node: the job's files are there."""
        self._registered[node] = True

    def has_files(self, node: str) -> bool:
        """Whether the node has fetched the job's files before."""
        return node in self._registered

    def account(self, rank: Rank, ending: Ending, now: float) -> tuple[bool, Ending]:
        """Count a death. Returns whether it has cost a restart, and the ending as it counts here.

        A bad environment is certain to fail again, unless the role has worked elsewhere: then it is
        that node's.
        """
        elsewhere = ending.cause is Cause.ENVIRONMENT and rank.role in self._proven
        if elsewhere:
            ending = dataclasses.replace(ending, certain=False)
        ran_s = now - rank.running_since if rank.running_since is not None else 0.0
        rank.deaths += 1
        charged = rank.budget.charge(ending.cause, ran_s)
        if charged:
            self.nodes.died(rank.name, rank.node, at_once=elsewhere)
        if ending.cause is Cause.MEMORY and self._plans[rank.role].retry_memory:
            rank.bigger = True
        return charged, ending

    def before_start(self, rank: Rank, ending: Ending) -> Ending:
        """The ending of a container in which no process of the role had been started."""
        where = f" on {rank.node}" if rank.node else ""
        if not self._registered:
            self._early_ends += 1
            if self._early_ends >= EARLY_ENDS:
                return Ending(
                    Cause.ENVIRONMENT,
                    f"no container of this job came up; this one{where} ended before its agent "
                    "reported. Most likely the nodes lack the job's Python or its packages, or "
                    "cannot reach the ApplicationMaster: see the container's log, and "
                    f"{decode.ENVIRONMENT_REMEDY}",
                    certain=True,
                )
        text = f"its container{where} ended before its agent reported: {ending.text}"
        return Ending(Cause.LAUNCH, text, traceback=ending.traceback)

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "nodes": self.nodes.to_dict(),
            "early_ends": self._early_ends,
            "proven": dict(self._proven),
            "registered": dict(self._registered),
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self.nodes = NodeChoice.from_dict(data["nodes"])
        self._early_ends = data["early_ends"]
        self._proven = dict(data["proven"])
        self._registered = dict(data["registered"])
