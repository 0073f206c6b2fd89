"""What `Members` knows of each rank. Durable: it changes with journalled inputs only.

What heartbeats and the clock say is kept apart on purpose: see `yarnps.am.resources.hearing`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from yarnps.am.resources.budget import Budget
from yarnps.am.resources.decisions import Incarnation

# Phases of a rank. `waiting`: for its back-off; `asked`: for a grant; `granted`: for its agent;
# `starting`: for its processes' first start; `running`; `restarting`: the agent does it in place;
# and the ends: `finished`, `failed` (gave up), `stopped` (ordered).
ENDS = ("finished", "failed", "stopped")
WITH_AGENT = ("starting", "running", "restarting")


@dataclass
class ProcessState:
    """The newest incarnation of one process of a rank."""

    start: int
    id: int
    alive: bool = True
    said_hello: bool = False
    error: str = ""  # what its program has reported before its end
    traceback: str = ""
    user_error: bool = False

    def could_exit(self, start: int) -> bool:
        """Whether a report that incarnation `start` has ended is news."""
        return start > self.start or (start == self.start and self.alive)


@dataclass
class Rank:
    """One rank of a role and its current container, if it has one."""

    role: str
    rank: int
    budget: Budget
    phase: str = "waiting"
    nonce: str = ""  # of the current request or container
    container: str = ""  # empty until the cluster or the agent has named it
    node: str = ""
    log_url: str = ""
    address: str = ""  # of its agent, as this job's other processes reach it
    am_host: str = ""  # the ApplicationMaster's address, as its agent reaches it
    ask_at: float | None = None  # end of the back-off
    up_by: float | None = None  # by then all processes must have said hello
    told_at: float | None = None  # since when a process is on its way
    running_since: float | None = None
    ever_up: bool = False
    stopping: bool = False  # its processes have been ordered to end, to be started again
    bigger: bool = False  # its container comes from the retry service
    starts: int = 0
    deaths: int = 0
    refusals: int = 0  # requests in a row that the cluster refused
    note: str = ""
    joins: str = ""  # what one that runs and is not up has not done yet, for people
    last: list[str] = field(default_factory=lambda: ["", "", ""])  # container, node, log address
    processes: dict[int, ProcessState] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people: ``worker 3``."""
        return f"{self.role} {self.rank}"

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be started for it."""
        return self.phase in ENDS

    @property
    def alive(self) -> tuple[Incarnation, ...]:
        """Its live incarnations."""
        return tuple(self.incarnation(p) for p, state in self.processes.items() if state.alive)

    def end(self, phase: str, note: str = "") -> None:
        """Nothing more is to be started for it."""
        self.phase, self.note = phase, note
        self.ask_at = self.up_by = self.told_at = None

    def wait(self, until: float, note: str) -> None:
        """Its next request is to be made then."""
        self.phase, self.ask_at, self.note = "waiting", until, note

    @property
    def up(self) -> bool:
        """Whether every process of it runs and has said hello."""
        return self.phase == "running" and all(p.said_hello for p in self.processes.values())

    def incarnation(self, process: int) -> Incarnation:
        """The identity of the newest incarnation of `process`."""
        state = self.processes[process]
        return Incarnation(self.container, process, state.start, state.id)

    def forget_container(self) -> None:
        """The container is gone or given up; for people it stays the one to look at."""
        if self.container:
            self.last = [self.container, self.node, self.log_url]
        self.nonce = self.container = self.node = self.log_url = self.address = self.am_host = ""
        self.told_at = self.running_since = None
        self.stopping = False
        self.processes = {}

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Rank:
        """The inverse of `to_dict`, also after JSON has made the process numbers strings."""
        data = dict(data)
        processes = {int(p): ProcessState(**state) for p, state in data.pop("processes").items()}
        return cls(**{**data, "budget": Budget(**data["budget"]), "processes": processes})
