"""Who is in the job: ranks, their containers, and what becomes of them. No I/O, no clock.

Inputs (with the time) go in, decisions come out. All but `heard`, `forget_heard`, `agent_gone` and
`due` are durable: a second `Members` that is fed the same inputs makes the same decisions and has
the same `snapshot`. So that a journal need not hold every tick, time acts in two steps: `due` says
which limits have run out, `expire` (the input to journal) acts on one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources import roster
from yarnps.am.resources.budget import Budget
from yarnps.am.resources.deaths import Deaths
from yarnps.am.resources.decisions import (
    Decision,
    Expiry,
    Registration,
    Release,
    RolePlan,
    Settings,
    Work,
)
from yarnps.am.resources.decode import Ending, Memory
from yarnps.am.resources.hearing import Hearing
from yarnps.am.resources.lives import Lives
from yarnps.am.resources.ranks import Rank
from yarnps.am.resources.requests import Requests
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Process

# Who dies so often in a row under an ApplicationMaster that orders its starts gets a new container.
AGAIN_IN_PLACE = 3

# A cluster that does not take requests is asked again after 1, 2, 4 … 30 s.
LONGEST_REFUSAL_S = 30.0


class Place(NamedTuple):
    """A rank's container, and the addresses of its agent and of the AM as they reach each other."""

    container: str
    address: str
    am_host: str
    node: str


class Members:
    """The ranks of all roles.

    Parameters
    ----------
    plans
        Role name to what is wanted of it; the order is that of the first requests.
    settings
        Limits, our version, and the secret seed of the nonces.
    """

    def __init__(self, plans: Mapping[str, RolePlan], settings: Settings) -> None:
        self.plans = dict(plans)
        self.settings = settings
        self._requests = Requests(settings.seed, self.plans)
        self._deaths = Deaths(self.plans)
        self._ranks: dict[tuple[str, int], Rank] = {
            (role, rank): Rank(role, rank, Budget(plan.max_restarts), joins=plan.joins)
            for role, plan in self.plans.items()
            for rank in range(plan.instances)
        }
        self._closing = False
        self._hearing = Hearing()
        self._lives = Lives(
            self.plans, settings.limits, self._ranks, self._requests, self._deaths, self._hearing
        )

    # ------------------------------------------------------------ inputs: the job

    def start(self, now: float, nodes: int = 0) -> list[Decision]:
        """Ask for every rank's container. `nodes`: how many the cluster has."""
        self._deaths.nodes.node_count = nodes
        self._hearing.pass_time(now, responsive=True)
        for rank in self._ranks.values():
            rank.up_by = now + self.settings.limits.start_timeout
        return [self._requests.ask(rank) for rank in self._ranks.values()]

    def finished(self, role: str, rank: int) -> None:
        """A rank's program is through with its work; its end is no death any more."""
        member = self._ranks[role, rank]
        if not member.ended:
            member.end("finished")

    def start_over(self, role: str, rank: int, text: str, now: float) -> list[Decision]:
        """A rank has died: end all others' programs and start them again, for free.

        Those that are through as well. The one that died is started again by its death.
        """
        others = [r for r in self._ranks.values() if (r.role, r.rank) != (role, rank)]
        return [d for other in others for d in self._lives.start_over(other, text, now)]

    def lost_touch(self, role: str, rank: int, text: str, now: float) -> list[Decision]:
        """A rank's program can reach nobody any more, by no fault of its own."""
        member = self._ranks[role, rank]
        if member.ended or not member.container:
            return []
        return self._lives.lose(member, Ending(Cause.OUR_KILL, text), now)

    def shutdown(self, text: str) -> list[Decision]:
        """End every container; deaths do not count from now on."""
        self._closing = True
        out: list[Decision] = []
        for rank in self._ranks.values():
            out += self._lives.let_go(rank, Cause.OUR_KILL, text, polite=True)
            if not rank.ended:
                rank.end("stopped", text)
        return out

    # ------------------------------------------------------------ inputs: the cluster

    def request_placed(self, nonce: str, container: str, now: float) -> list[Decision]:
        """The cluster has taken a request and named its container."""
        role, rank = self._requests.answered(nonce)
        if rank is None or (rank.container and rank.container != container):
            text = "not needed any more"
            out: list[Decision] = [self._requests.release(container, Cause.OUR_KILL, text)]
        else:
            rank.refusals = 0
            seen = self._requests.bind(rank, container)
            out = self.container_changed(seen, now) if seen else []
        return out + self._requests.orphans(role)

    def request_failed(self, nonce: str, error: str, now: float) -> list[Decision]:
        """The cluster has not taken a request (or has not answered in time): ask again later."""
        role, rank = self._requests.answered(nonce)
        out: list[Decision] = []
        if rank is not None and not rank.container:
            rank.refusals += 1
            wait = min(LONGEST_REFUSAL_S, 2.0 ** min(rank.refusals - 1, 10))
            out += self._requests.let_go(rank, Cause.OUR_KILL, error)
            rank.wait(now + wait, f"the cluster did not take the request: {error}")
            out.append(roster.note(rank, f"{rank.note}; asking again in {wait:.0f} s"))
        return out + self._requests.orphans(role)

    def container_changed(
        self, info: ContainerInfo, now: float, tail: str = "", peak: int | None = None
    ) -> list[Decision]:
        """What the cluster knows of a container.

        For one that has ended, `tail` is its last output, where that could be had, and `peak` what
        `peak_of` said; both make its cause clearer.
        """
        rank = self._requests.rank_of(info.id)
        if rank is None:
            return self._requests.stranger(info)
        rank.log_url = info.log_url or rank.log_url
        rank.node = info.node or rank.node
        if info.state == "ended":
            memory = Memory(self._memory_limit(rank), peak)
            return self._lives.container_ended(rank, info, memory, tail, now)
        if info.state != "running" or rank.phase != "asked":
            return []
        if self._deaths.nodes.give_back(rank.name, rank.node):
            text = f"died on {rank.node} before; the container there is given back"
            out: list[Decision] = [roster.note(rank, text)]
            out += self._lives.let_go(rank, Cause.OUR_KILL, text)
            return [*out, self._requests.ask(rank)]
        rank.phase, rank.note = "granted", ""
        return []

    def reconcile(self, containers: Sequence[ContainerInfo], now: float) -> list[Decision]:
        """After a restart of the ApplicationMaster and the replay: compare with the cluster.

        Containers that we do not know are released, those that are gone count as ended, requests
        without an answer are made again. Agents have a whole limit to come back.
        """
        self._hearing.forget()
        self._requests.forget_answers()
        unanswered = [r for r in self._ranks.values() if r.phase == "asked" and not r.container]
        held = [rank for rank in self._ranks.values() if rank.container]
        out: list[Decision] = []
        listed = {info.id: info for info in containers}
        for info in containers:
            strange = self._requests.rank_of(info.id) is None
            if strange and info.state != "ended" and info.role in self.plans:
                # Also one that was released before: the order may not have been carried out.
                out.append(self._requests.release(info.id, Cause.OUR_KILL, "not known to this job"))
        for rank in held:
            gone = ContainerInfo(
                rank.container, rank.role, "ended", exit_message="the cluster does not know it"
            )
            out += self.container_changed(listed.get(rank.container, gone), now)
        return out + [self._requests.ask(rank) for rank in unanswered]

    # ------------------------------------------------------------ inputs: the agents

    def registered(self, reg: pb.Register, now: float) -> Registration:
        """An agent says who it is. Refused agents end themselves."""
        rank = self._ranks.get((reg.role, reg.rank))
        reason = roster.refusal(reg, rank, self.settings.version)
        if reason or rank is None:
            # What was ours once may still run; what never was is not ours to end.
            stale = self._requests.was_ours(reg.container)
            out = [Release(reg.container, Cause.OUR_KILL, reason)] if stale else []
            return Registration(False, reason, decisions=tuple(out))
        if not rank.container:
            self._requests.bind(rank, reg.container)
        rank.address, rank.node = reg.address, rank.node or reg.host
        rank.am_host = reg.am_host
        self._deaths.registered(rank.node)
        self._hearing.registered(rank.container, now)
        return Registration(True, decisions=tuple(self._lives.welcome(rank, reg, now)))

    def heard(self, container: str, now: float, heartbeat: pb.Heartbeat | None = None) -> None:
        """Something came from an agent. Not for the journal."""
        self._hearing.heard(container, now, heartbeat)

    def forget_heard(self) -> None:
        """A process that has come back has heard nobody yet. Not for the journal."""
        self._hearing.forget()

    def agent_gone(self, container: str, now: float) -> list[Decision]:
        """An agent's stream broke. Not a death yet. Not for the journal."""
        rank = self._requests.rank_of(container)
        if rank is None or rank.ended or not self._hearing.broke(container):
            return []
        return [roster.note(rank, f"lost its agent on {rank.node}; waiting for it or its end")]

    def role_started(self, container: str, started: pb.RoleStarted, now: float) -> list[Decision]:
        """A process runs."""
        rank = self._requests.rank_of(container)
        if rank is None or rank.ended:
            return []
        return self._lives.started(rank, started.incarnation, now)

    def said_hello(self, container: str, process: int) -> None:
        """A process has said hello (RoleHello): only now its rank counts as up."""
        rank = self._requests.rank_of(container)
        state = rank.processes.get(process) if rank else None
        if rank is None or state is None or not state.alive:
            return
        state.said_hello = True
        self._deaths.said_hello(rank.role)
        if rank.up:
            rank.ever_up, rank.up_by, rank.note = True, None, ""

    def role_failed(self, container: str, process: int, failed: pb.RoleFailed) -> None:
        """A role's program reports an exception; its exit follows."""
        rank = self._requests.rank_of(container)
        state = rank.processes.get(process) if rank else None
        if state is not None:
            state.error, state.traceback = failed.error, failed.traceback
            state.user_error = failed.user_error

    def role_exited(
        self,
        container: str,
        exited: pb.RoleExited,
        now: float,
        work: Work | None = None,
        peak: int | None = None,
    ) -> list[Decision]:
        """A process has ended.

        Parameters
        ----------
        work
            What the training side knows of this worker; it decides what exit status 0 means.
        peak
            What `peak_of` said of the container.
        """
        rank = self._requests.rank_of(container)
        if rank is None:
            return []
        if rank.ended:
            return self._lives.let_go(rank, Cause.OUR_KILL, rank.phase, polite=True)
        state = rank.processes.get(exited.incarnation.process)
        if state is not None and not state.could_exit(exited.incarnation.start):
            return []  # said before, or of an incarnation that has been replaced already
        if rank.stopping and not exited.leaving:
            return self._lives.begin_again(rank, exited.incarnation, now)
        if exited.leaving and exited.exit_code != 0:
            return []  # preempted, over its memory, a node that stops: the cluster is about to say
        memory = Memory(self._memory_limit(rank), peak)
        ending = roster.exit_of(rank.role, state, exited, memory, work or Work())
        if ending is None:
            rank.end("finished")
            return self._lives.let_go(rank, Cause.OUR_KILL, "finished", polite=True)
        by_us = self.plans[rank.role].by_order and rank.budget.streak < AGAIN_IN_PLACE
        if exited.restarting or exited.ordered or (by_us and not exited.leaving):
            return self._lives.died_in_place(rank, exited, ending, now)
        return self._lives.lose(rank, ending, now)

    # ------------------------------------------------------------ inputs: time

    def due(self, now: float, responsive: bool = True) -> list[Expiry]:
        """The limits that have run out. Counts silence, but only for responsive time."""
        ranks = self._ranks.values()
        granted = [r.container for r in ranks if r.container and r.phase != "asked"]
        self._hearing.pass_time(now, granted, responsive=responsive)
        if self._closing:
            return []
        limits, has_files = self.settings.limits, self._deaths.has_files
        return roster.overdue(ranks, self.plans, self._hearing.of, now, limits, has_files)

    def expire(self, expiry: Expiry, now: float) -> list[Decision]:
        """Act on a limit that has run out, if it still means the same container."""
        rank = self._ranks[expiry.role, expiry.rank]
        if rank.container != expiry.container or rank.ended or self._closing:
            return []
        if expiry.kind == "ask":
            return [self._requests.ask(rank)] if rank.phase == "waiting" else []
        if expiry.kind == "up":
            return self._lives.not_up(rank, now) if rank.up_by is not None else []
        return self._lives.lose(rank, roster.expired(expiry.kind, rank, self.settings.limits), now)

    # ------------------------------------------------------------ what it knows

    @property
    def all_up_once(self) -> bool:
        """Whether every rank has been up, or has ended."""
        return all(rank.ever_up or rank.ended for rank in self._ranks.values())

    def missing(self) -> list[str]:
        """Who is not up and why, for people."""
        return roster.missing(self._ranks.values())

    @property
    def containers(self) -> frozenset[str]:
        """The containers of all ranks, as far as the cluster has named them."""
        return frozenset(rank.container for rank in self._ranks.values() if rank.container)

    def rank_of(self, container: str) -> tuple[str, int] | None:
        """Role and rank of a container that counts."""
        rank = self._requests.rank_of(container)
        return (rank.role, rank.rank) if rank else None

    def peak_of(self, container: str) -> int | None:
        """The most memory that a container has been seen to use; not durable."""
        vitals = self._hearing.of(container)
        return vitals.memory_peak if vitals else None

    def cpu_of(self, role: str, rank: int) -> float | None:
        """Percent of one core that a rank's processes used at the last heartbeat; not durable."""
        vitals = self._hearing.of(self._ranks[role, rank].container)
        return vitals.cpu_percent if vitals else None

    def processes(self, now: float) -> list[Process]:
        """One row per rank for the status document; the training side fills in the rest."""
        return [
            roster.row(rank, self._hearing.of(rank.container), self._memory_limit(rank), now)
            for rank in self._ranks.values()
        ]

    def snapshot(self) -> dict[str, Any]:
        """The durable state as JSON-ready data."""
        return {
            "ranks": [rank.to_dict() for rank in self._ranks.values()],
            "requests": self._requests.snapshot(),
            "deaths": self._deaths.snapshot(),
            "closing": self._closing,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over the state of a snapshot."""
        ranks = [Rank.from_dict(item) for item in data["ranks"]]
        self._ranks.clear()
        self._ranks.update({(rank.role, rank.rank): rank for rank in ranks})
        self._requests.restore(data["requests"], ranks)
        self._deaths.restore(data["deaths"])
        self._closing = data["closing"]
        self._hearing.forget()

    def is_finished(self, role: str, rank: int) -> bool:
        """Whether a rank's program is through."""
        return self._ranks[role, rank].phase == "finished"

    def all_finished(self, role: str) -> bool:
        """Whether all programs of a role are through."""
        return all(r.phase == "finished" for r in self._ranks.values() if r.role == role)

    def place_of(self, role: str, rank: int) -> Place:
        """Where a rank's container is."""
        held = self._ranks[role, rank]
        return Place(held.container, held.address, held.am_host, held.node)

    def _memory_limit(self, rank: Rank) -> int | None:
        plan = self.plans[rank.role]
        return plan.retry_memory if rank.bigger else plan.memory
