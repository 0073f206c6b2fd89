"""What a death costs, how long to wait after it, and which nodes to keep away from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from yarnps.causes import Cause

# Not the job's fault: free, and started again at once. Everything else costs, also what nobody
# has thought of, so that no cause can loop for ever.
FREE = frozenset({Cause.PREEMPTED, Cause.NODE_LOST, Cause.DISK_FAILED, Cause.OUR_KILL})

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0

# Who has run for so long did not die of starting: the next delay is the first again.
STABLE_S = 300.0

# So many deaths of a rank on one node, and it is to go elsewhere.
DEATHS_ON_NODE = 2
MOST_GIVE_BACKS = 3


@dataclass
class Budget:
    """The restarts of one rank. `max_restarts` -1: no limit."""

    max_restarts: int
    spent: int = 0
    streak: int = 0
    causes: list[str] = field(default_factory=list)

    def charge(self, cause: Cause, ran_s: float) -> bool:
        """Account for a death after `ran_s` seconds; True when it has cost a restart."""
        if cause in FREE:
            return False
        self.spent += 1
        self.streak = 1 if ran_s >= STABLE_S else self.streak + 1
        if cause.value not in self.causes:
            self.causes.append(cause.value)
        return True

    @property
    def exhausted(self) -> bool:
        """Whether more restarts have been spent than there were."""
        return 0 <= self.max_restarts < self.spent

    @property
    def delay_s(self) -> float:
        """How long to wait before asking for the next container: 1, 2, 4 … 30 s."""
        if self.streak <= 0:
            return 0.0
        # The exponent is bounded: without a limit on restarts a streak may be long.
        return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.streak - 1, 10))

    def final_cause(self, last: Cause) -> Cause:
        """The cause of giving up: that of all deaths if it was one, else the budget itself."""
        return last if self.causes in ([], [last.value]) else Cause.BUDGET


@dataclass
class NodeChoice:
    """Which nodes a rank is kept away from. Its container there is given back and asked again.

    At most `MOST_GIVE_BACKS` times per rank, and all ranks together never avoid more than a third
    of the cluster's nodes: a job must not talk itself out of its cluster.
    """

    node_count: int = 0
    deaths: dict[str, Counter[str]] = field(default_factory=dict)
    avoided: dict[str, list[str]] = field(default_factory=dict)
    given_back: Counter[str] = field(default_factory=Counter)

    def died(self, who: str, node: str, *, at_once: bool = False) -> bool:
        """Note a death of `who` on `node` that cost; True when the node is avoided from now on."""
        if not node:
            return False
        count = self.deaths.setdefault(who, Counter())
        count[node] += DEATHS_ON_NODE if at_once else 1
        mine = self.avoided.setdefault(who, [])
        if count[node] < DEATHS_ON_NODE or node in mine:
            return False
        everywhere = {n for nodes in self.avoided.values() for n in nodes} | {node}
        if len(everywhere) > self.node_count // 3:
            return False
        mine.append(node)
        return True

    def give_back(self, who: str, node: str) -> bool:
        """Whether a container on `node` is to be given back (counted)."""
        if node not in self.avoided.get(who, ()) or self.given_back[who] >= MOST_GIVE_BACKS:
            return False
        self.given_back[who] += 1
        return True

    def to_dict(self) -> dict[str, object]:
        """As JSON-ready data."""
        return {
            "node_count": self.node_count,
            "deaths": {who: dict(count) for who, count in self.deaths.items()},
            "avoided": {who: list(nodes) for who, nodes in self.avoided.items()},
            "given_back": dict(self.given_back),
        }

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> NodeChoice:
        """The inverse of `to_dict`."""
        node_count, deaths = data["node_count"], data["deaths"]
        avoided, given_back = data["avoided"], data["given_back"]
        assert isinstance(node_count, int)
        assert isinstance(deaths, dict)
        assert isinstance(avoided, dict)
        assert isinstance(given_back, dict)
        return cls(
            node_count=node_count,
            deaths={who: Counter(count) for who, count in deaths.items()},
            avoided={who: list(nodes) for who, nodes in avoided.items()},
            given_back=Counter(given_back),
        )
