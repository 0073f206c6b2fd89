"""Who is in the job: ranks, their containers, and what becomes of them. No I/O, no clock.

Inputs (with the time) go in, decisions come out. Everything but `heard`, `agent_gone` and the
counting in `due` is durable: feeding a second `Members` the same inputs gives the same decisions
and the same `snapshot`. So that a journal need not hold every tick, time acts in two steps: `due`
says which limits have run out, `expire` (the input to journal) acts on one of them; `tick` is both.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from yarnps.am import decode, roster
from yarnps.am.budget import Budget, NodeChoice
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.decisions import (
    Decision,
    Expiry,
    GaveUp,
    Incarnation,
    Note,
    Registration,
    Release,
    Request,
    RolePlan,
    Settings,
    StartProcess,
    Up,
    Work,
)
from yarnps.am.decode import Ending
from yarnps.am.ranks import WITH_AGENT, ProcessState, Rank, Vitals
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Process

# A longer gap between two ticks is the ApplicationMaster's own and not held against containers.
LONGEST_TICK_S = 5.0

# A process that the agent restarts in place may take as long as any other to start.
FIRST_ASK_AGAIN_S = 1.0

# So many containers that failed before any agent of the job has ever registered: it is not the
# containers.
EARLY_ENDS = 2


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
        self.nodes = NodeChoice()
        self._ranks: dict[tuple[str, int], Rank] = {
            (role, rank): Rank(role, rank, Budget(plan.max_restarts))
            for role, plan in self.plans.items()
            for rank in range(plan.instances)
        }
        self._nonces = 0
        self._in_flight: dict[str, str] = {}  # nonce -> role: requests without an answer yet
        self._early: dict[str, ContainerInfo] = {}  # containers seen before that answer
        self._released: dict[str, str] = {}  # containers that were ours once -> why not any more
        self._known_nodes: dict[str, bool] = {}  # nodes where an agent has registered
        self._proven: dict[str, bool] = {}  # roles of which a process has said hello
        self._early_ends = 0
        self._closing = False
        self._vitals: dict[str, Vitals] = {}
        self._ticked: float | None = None

    # ------------------------------------------------------------ inputs: the job

    def start(self, now: float, nodes: int = 0) -> list[Decision]:
        """Ask for every rank's container. `nodes`: how many the cluster has."""
        self.nodes.node_count = nodes
        limit = self.settings.limits.start_timeout
        out: list[Decision] = []
        for rank in self._ranks.values():
            rank.up_by = now + limit
            out += self._ask(rank)
        return out

    def finished(self, role: str, rank: int, now: float) -> list[Decision]:
        """A rank's program is through with its work; its end is no death any more."""
        member = self._ranks[role, rank]
        if not member.ended:
            member.phase, member.up_by, member.told_at, member.note = "finished", None, None, ""
        return []

    def give_up(self, role: str, rank: int, cause: Cause, text: str) -> list[Decision]:
        """Leave a rank out, by order of the shell."""
        return self._give_up(self._ranks[role, rank], Ending(cause, text))

    def shutdown(self, text: str) -> list[Decision]:
        """End every container; deaths do not count from now on."""
        self._closing = True
        out: list[Decision] = []
        for rank in self._ranks.values():
            out += self._let_go(rank, Cause.OUR_KILL, text, polite=True)
            if not rank.ended:
                rank.phase, rank.note = "stopped", text
            rank.ask_at = rank.up_by = None
        return out

    # ------------------------------------------------------------ inputs: the cluster

    def request_placed(self, nonce: str, container: str, now: float) -> list[Decision]:
        """The cluster has taken a request and named its container."""
        role = self._in_flight.pop(nonce, "")
        rank = self._by_nonce(nonce)
        early = self._early.pop(container, None)
        if rank is None or (rank.container and rank.container != container):
            out: list[Decision] = [self._release(container, Cause.OUR_KILL, "not needed any more")]
        else:
            rank.container, rank.refusals = container, 0
            out = self.container_changed(early, now) if early else []
        return out + self._release_strangers(role)

    def request_failed(self, nonce: str, error: str, now: float) -> list[Decision]:
        """The cluster has not taken a request (or has not answered in time): ask again later."""
        role = self._in_flight.pop(nonce, "")
        rank = self._by_nonce(nonce)
        out: list[Decision] = []
        if rank is not None and rank.phase == "asked" and not rank.container:
            rank.refusals += 1
            wait = min(30.0, FIRST_ASK_AGAIN_S * 2.0 ** min(rank.refusals - 1, 10))
            rank.forget_container()
            rank.phase, rank.ask_at = "waiting", now + wait
            rank.note = f"the cluster did not take the request: {error}"
            out.append(
                Note(
                    f"{rank.name}: {rank.note}; asking again in {wait:.0f} s", rank.role, rank.rank
                )
            )
        return out + self._release_strangers(role)

    def container_changed(self, info: ContainerInfo, now: float, tail: str = "") -> list[Decision]:
        """What the cluster knows of a container. `tail`: its last output, if it could be had."""
        rank = self._by_container(info.id)
        if rank is None:
            return self._stranger(info)
        rank.log_url = info.log_url or rank.log_url
        if info.state == "ended":
            return self._container_ended(rank, info, now, tail)
        rank.node = info.node or rank.node
        if info.state != "running" or rank.phase != "asked":
            return []
        if self.nodes.give_back(rank.name, rank.node):
            text = f"{rank.name} died there before: container on {rank.node} given back"
            out: list[Decision] = [Note(text, rank.role, rank.rank, rank.container)]
            out += self._let_go(rank, Cause.OUR_KILL, text)
            return out + self._ask(rank)
        rank.phase, rank.note = "granted", ""
        self._vitals.setdefault(rank.container, Vitals())
        return []

    def reconcile(self, containers: Sequence[ContainerInfo], now: float) -> list[Decision]:
        """After a restart of the ApplicationMaster and the replay: compare with the cluster.

        Containers that we do not know are released, those that are gone count as ended, requests
        without an answer are made again. Agents have a whole limit to come back.
        """
        self._vitals, self._ticked, self._early = {}, None, {}
        listed = {info.id: info for info in containers}
        out: list[Decision] = []
        self._in_flight.clear()
        for info in containers:
            unknown = self._by_container(info.id) is None
            if unknown and info.state != "ended" and info.role in self.plans:
                out.append(self._release(info.id, Cause.OUR_KILL, "not known to this job"))
        for rank in list(self._ranks.values()):
            if rank.container in listed:
                out += self.container_changed(listed[rank.container], now)
            elif rank.container:
                out += self._lose(rank, Ending(Cause.UNKNOWN, "its container is gone"), now)
            elif rank.phase == "asked":
                out += self._ask(rank)
        return out

    # ------------------------------------------------------------ inputs: the agents

    def registered(self, reg: pb.Register, now: float) -> Registration:
        """An agent says who it is. Refused agents end themselves."""
        reason = roster.refusal(reg, self._ranks.get((reg.role, reg.rank)), self.settings.version)
        if self._closing and not reason:
            reason = "the job is ending"
        if reason:
            # What was ours once may still run; what never was is not ours to end.
            stale = reg.container in self._released
            out = [Release(reg.container, Cause.OUR_KILL, reason)] if stale else []
            return Registration(False, reason, decisions=tuple(out))
        rank = self._ranks[reg.role, reg.rank]
        rank.container, rank.address = reg.container, reg.address
        rank.node = rank.node or reg.host
        self._known_nodes[rank.node] = True
        vitals = self._vitals.setdefault(rank.container, Vitals())
        vitals.connected = vitals.registered = True
        vitals.hear(now)
        resumed = rank.phase not in ("asked", "granted")
        return Registration(True, resumed=resumed, decisions=tuple(self._welcome(rank, reg, now)))

    def heard(self, container: str, now: float, heartbeat: pb.Heartbeat | None = None) -> None:
        """Something came from an agent. Not for the journal."""
        vitals = self._vitals.get(container)
        if vitals is None:
            return
        vitals.hear(now)
        if heartbeat is not None and heartbeat.usage:
            vitals.cpu_percent = sum(u.cpu_percent for u in heartbeat.usage)
            vitals.memory = sum(u.memory_bytes for u in heartbeat.usage)
            peak = sum(u.memory_peak_bytes for u in heartbeat.usage)
            vitals.memory_peak = max(peak, vitals.memory, vitals.memory_peak or 0)

    def agent_gone(self, container: str, now: float) -> list[Decision]:
        """An agent's stream broke. Not a death yet. Not for the journal."""
        rank, vitals = self._by_container(container), self._vitals.get(container)
        if rank is None or vitals is None or not vitals.connected or rank.ended:
            return []
        vitals.connected = False
        return [
            Note(
                f"{rank.name}: lost its agent on {rank.node}; waiting for it or its end",
                rank.role,
                rank.rank,
                container,
            )
        ]

    def role_started(self, container: str, started: pb.RoleStarted, now: float) -> list[Decision]:
        """A process runs."""
        rank = self._by_container(container)
        if rank is None or rank.ended:
            return []
        return self._started(rank, started.incarnation, now)

    def said_hello(self, container: str, process: int, now: float) -> list[Decision]:
        """A process has said hello (RoleHello): only now its rank counts as up."""
        rank = self._by_container(container)
        state = rank.processes.get(process) if rank else None
        if rank is None or state is None or not state.alive:
            return []
        state.said_hello = True
        self._proven[rank.role] = True
        if rank.up:
            rank.ever_up, rank.up_by, rank.note = True, None, ""
        return []

    def role_failed(
        self, container: str, process: int, failed: pb.RoleFailed, now: float
    ) -> list[Decision]:
        """A role's program reports an exception; its exit follows."""
        rank = self._by_container(container)
        state = rank.processes.get(process) if rank else None
        if state is not None:
            state.error, state.traceback = failed.error, failed.traceback
            state.user_error = failed.user_error
        return []

    def role_exited(
        self, container: str, exited: pb.RoleExited, now: float, work: Work | None = None
    ) -> list[Decision]:
        """A process has ended. `work`: what the training side knows of this worker."""
        rank = self._by_container(container)
        if rank is None:
            return []
        if rank.ended:
            return self._let_go(rank, Cause.OUR_KILL, rank.phase, polite=True)
        state = rank.processes.get(exited.incarnation.process)
        if state is not None and state.start > exited.incarnation.start:
            return []  # of an incarnation that has been replaced already
        memory = self._memory(rank)
        ending = roster.exit_of(rank.role, state, exited, memory, work or Work())
        if ending is None:
            rank.phase, rank.up_by, rank.told_at = "finished", None, None
            return self._let_go(rank, Cause.OUR_KILL, "finished", polite=True)
        if exited.restarting or exited.ordered:
            return self._died_in_place(rank, exited, ending, now)
        return self._lose(rank, ending, now)

    # ------------------------------------------------------------ inputs: time

    def due(self, now: float, responsive: bool = True) -> list[Expiry]:
        """The limits that have run out. Counts silence, but only for responsive time."""
        passed = 0.0 if self._ticked is None else min(now - self._ticked, LONGEST_TICK_S)
        self._ticked = now
        out: list[Expiry] = []
        if self._closing:
            return out
        for rank in self._ranks.values():
            vitals = self._vitals.get(rank.container)
            if rank.container and vitals is None and rank.phase not in ("asked", "waiting"):
                vitals = self._vitals[rank.container] = Vitals()
            if vitals is not None and responsive:
                vitals.silent_s += max(0.0, passed)
            kind = roster.overdue(rank, vitals, now, self.settings.limits, self._known_nodes)
            if kind:
                out.append(Expiry(kind, rank.role, rank.rank, rank.container))
        return out

    def expire(self, expiry: Expiry, now: float) -> list[Decision]:
        """Act on a limit that has run out, if it still means the same container."""
        rank = self._ranks[expiry.role, expiry.rank]
        if rank.container != expiry.container or rank.ended or self._closing:
            return []
        if expiry.kind == "ask":
            return self._ask(rank) if rank.phase == "waiting" else []
        if expiry.kind == "up":
            return self._not_up(rank, now)
        return self._lose(rank, roster.expired(expiry.kind, rank, self.settings.limits), now)

    def tick(self, now: float, responsive: bool = True) -> list[Decision]:
        """`due` and `expire` in one, for who keeps no journal."""
        return [d for expiry in self.due(now, responsive) for d in self.expire(expiry, now)]

    # ------------------------------------------------------------ what it knows

    @property
    def all_up_once(self) -> bool:
        """Whether every rank has been up, or has given up."""
        return all(rank.ever_up or rank.ended for rank in self._ranks.values())

    def left(self, role: str) -> list[int]:
        """The ranks of a role that have not given up."""
        return [r.rank for r in self._ranks.values() if r.role == role and r.phase != "failed"]

    def missing(self) -> list[str]:
        """Who is not up and why, for people."""
        return [
            f"{rank.name} ({roster.waits_for(rank)})"
            for rank in self._ranks.values()
            if not rank.up and not rank.ended
        ]

    def rank_of(self, container: str) -> tuple[str, int] | None:
        """Role and rank of a container that counts."""
        rank = self._by_container(container)
        return (rank.role, rank.rank) if rank else None

    def container_of(self, role: str, rank: int) -> str:
        """The container of a rank; empty when it has none."""
        return self._ranks[role, rank].container

    def incarnations(self, role: str) -> list[Incarnation]:
        """The live incarnations of a role, by rank and process."""
        return [i for rank in self._ranks.values() if rank.role == role for i in rank.alive]

    def processes(self, now: float) -> list[Process]:
        """One row per rank for the status document; the training side fills in the rest."""
        return [
            roster.row(rank, self._vitals.get(rank.container), self._limit(rank), now)
            for rank in self._ranks.values()
        ]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """The durable state as JSON-ready data."""
        return {
            "ranks": [rank.to_dict() for rank in self._ranks.values()],
            "nodes": self.nodes.to_dict(),
            "nonces": self._nonces,
            "in_flight": dict(self._in_flight),
            "early": [vars(info).copy() for info in self._early.values()],
            "released": dict(self._released),
            "known_nodes": dict(self._known_nodes),
            "proven": dict(self._proven),
            "early_ends": self._early_ends,
            "closing": self._closing,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over the state of a snapshot."""
        ranks = [Rank.from_dict(item) for item in data["ranks"]]
        self._ranks = {(rank.role, rank.rank): rank for rank in ranks}
        self.nodes = NodeChoice.from_dict(data["nodes"])
        self._nonces = data["nonces"]
        self._in_flight = dict(data["in_flight"])
        self._early = {item["id"]: ContainerInfo(**item) for item in data["early"]}
        self._released = dict(data["released"])
        self._known_nodes = dict(data["known_nodes"])
        self._proven = dict(data["proven"])
        self._early_ends = data["early_ends"]
        self._closing = data["closing"]
        self._vitals, self._ticked = {}, None

    # ------------------------------------------------------------ inside: finding

    def _by_container(self, container: str) -> Rank | None:
        if not container:
            return None
        return next((r for r in self._ranks.values() if r.container == container), None)

    def _by_nonce(self, nonce: str) -> Rank | None:
        return next((r for r in self._ranks.values() if nonce and r.nonce == nonce), None)

    def _limit(self, rank: Rank) -> int | None:
        plan = self.plans[rank.role]
        return plan.retry_memory if rank.bigger else plan.memory

    def _memory(self, rank: Rank) -> decode.Memory:
        vitals = self._vitals.get(rank.container)
        return vitals.memory_of(self._limit(rank)) if vitals else decode.Memory(self._limit(rank))

    # ------------------------------------------------------------ inside: asking and releasing

    def _ask(self, rank: Rank) -> list[Decision]:
        """A new request for a rank that has no container."""
        self._nonces += 1
        digest = hmac.new(self.settings.seed, f"nonce {self._nonces}".encode(), hashlib.sha256)
        rank.nonce = digest.hexdigest()[:32]
        rank.phase, rank.ask_at = "asked", None
        self._in_flight[rank.nonce] = rank.role
        env = {
            "YARNPS_ROLE": rank.role,
            "YARNPS_RANK": str(rank.rank),
            "YARNPS_NONCE": rank.nonce,
        }
        return [Request(rank.role, rank.rank, rank.nonce, env, rank.bigger)]

    def _release(self, container: str, cause: Cause, text: str, polite: bool = False) -> Release:
        self._released[container] = text
        return Release(container, cause, text, polite)

    def _let_go(self, rank: Rank, cause: Cause, text: str, polite: bool = False) -> list[Decision]:
        """Release a rank's container, if it has one; the rank has none then."""
        out: list[Decision] = []
        if rank.container:
            out.append(self._release(rank.container, cause, text, polite))
            self._vitals.pop(rank.container, None)
        rank.forget_container()
        return out

    def _stranger(self, info: ContainerInfo) -> list[Decision]:
        """A container of no rank: perhaps the answer to a request is still on its way."""
        if info.role not in self.plans or info.id in self._released:
            return []
        if info.role in self._in_flight.values():
            self._early[info.id] = info
            return []
        if info.state == "ended":
            return []
        return [self._release(info.id, Cause.OUR_KILL, "not known to this job")]

    def _release_strangers(self, role: str) -> list[Decision]:
        """When no answer is outstanding for a role, its unknown containers are nobody's."""
        if not role or role in self._in_flight.values():
            return []
        early = [info for info in self._early.values() if info.role == role]
        out: list[Decision] = []
        for info in early:
            del self._early[info.id]
            out += self._stranger(info)
        return out

    # ------------------------------------------------------------ inside: starting

    def _welcome(self, rank: Rank, reg: pb.Register, now: float) -> list[Decision]:
        """Bring an accepted agent and the rank together."""
        if rank.ended:
            return []
        plan = self.plans[rank.role]
        running = {incarnation.process: incarnation for incarnation in reg.running}
        out: list[Decision] = []
        for process in range(plan.processes):
            if process in running:
                out += self._started(rank, running[process], now)
        if rank.ended or not rank.container:
            return out
        if len(running) < plan.processes:
            # Either it was never told, or the message was lost, or a restart is under way.
            rank.told_at = now
            if not rank.processes:
                rank.phase = "starting"
                out.append(StartProcess(rank.container, rank.role, rank.rank, plan.processes))
        return out

    def _started(self, rank: Rank, inc: pb.Incarnation, now: float) -> list[Decision]:
        out: list[Decision] = []
        old = rank.processes.get(inc.process)
        if old is not None and old.id == inc.id:
            return []
        if old is not None and old.alive:
            # Its exit was reported while nobody listened.
            ending = Ending(Cause.UNKNOWN, "its process was replaced unseen")
            gone = pb.RoleExited(
                incarnation=pb.Incarnation(
                    container=rank.container, process=inc.process, start=old.start, id=old.id
                ),
                restarting=True,
            )
            out += self._died_in_place(rank, gone, ending, now)
            if rank.ended or not rank.container:
                return out
        rank.processes[inc.process] = ProcessState(inc.start, inc.id, since=now)
        rank.processes = dict(sorted(rank.processes.items()))
        rank.starts += inc.process == 0
        alive = len(rank.alive)
        if alive == self.plans[rank.role].processes:
            rank.phase, rank.told_at, rank.running_since = "running", None, now
        out.append(Up(rank.role, rank.rank, rank.incarnation(inc.process), rank.node, rank.address))
        return out

    # ------------------------------------------------------------ inside: ends

    def _container_ended(
        self, rank: Rank, info: ContainerInfo, now: float, tail: str
    ) -> list[Decision]:
        container = rank.container
        self._released[container] = "it has ended"
        if rank.ended:
            rank.forget_container()
            return []
        ending = decode.container_ended(info.exit_message, self._memory(rank), tail)
        state = next((p for p in rank.processes.values() if p.error), None)
        if ending.unexplained and state is not None:
            ending = decode.program_failed(
                state.error, state.traceback, user_error=state.user_error
            )
        elif ending.cause in (Cause.EXIT, Cause.UNKNOWN) and not rank.processes:
            ending = self._ended_early(rank, ending)
        return self._lose(rank, ending, now, ended=True)

    def _ended_early(self, rank: Rank, ending: Ending) -> Ending:
        """A container that ended before its agent had started anything."""
        if not self._known_nodes:
            self._early_ends += 1
        return roster.early_end(rank, ending, certain=self._early_ends >= EARLY_ENDS)

    def _account(self, rank: Rank, ending: Ending, now: float) -> tuple[bool, Ending]:
        """Count a death. Certain ends are not certain where the role works elsewhere."""
        certain = ending.certain
        if ending.cause is Cause.ENVIRONMENT and self._proven.get(rank.role):
            certain = False
        ran = now - rank.running_since if rank.running_since is not None else 0.0
        rank.deaths += 1
        charged = rank.budget.charge(ending.cause, ran)
        if charged:
            bad_node = ending.cause is Cause.ENVIRONMENT
            self.nodes.died(rank.name, rank.node, at_once=bad_node and not certain)
        if ending.cause is Cause.MEMORY and self.plans[rank.role].retry_memory:
            rank.bigger = True
        return charged, roster.with_certainty(ending, certain)

    def _lose(self, rank: Rank, ending: Ending, now: float, ended: bool = False) -> list[Decision]:
        """A rank loses its container (`ended`: it is gone, else we release it)."""
        charged, ending = self._account(rank, ending, now)
        died = roster.death(rank, rank.alive, ending, in_place=False, charged=charged)
        out: list[Decision] = [died]
        if ended:
            self._vitals.pop(rank.container, None)
            rank.forget_container()
        else:
            out += self._let_go(rank, ending.cause, ending.text)
        if self._closing:
            return out
        if ending.certain or rank.budget.exhausted:
            return out + self._give_up(rank, ending)
        self._set_deadline(rank, now)
        if not charged:
            return out + self._ask(rank)
        rank.phase, rank.ask_at = "waiting", now + rank.budget.delay_s
        rank.note = ending.text
        return out

    def _died_in_place(
        self, rank: Rank, exited: pb.RoleExited, ending: Ending, now: float
    ) -> list[Decision]:
        """A process died and the container lives on."""
        process = exited.incarnation.process
        state = rank.processes.get(process)
        was_bigger = rank.bigger
        charged, ending = self._account(rank, ending, now)
        hopeless = ending.certain or rank.budget.exhausted
        stays = not hopeless and rank.bigger == was_bigger
        lost = (rank.incarnation(process),) if state and state.alive else ()
        if not stays:
            lost = rank.alive
        out: list[Decision] = [roster.death(rank, lost, ending, in_place=stays, charged=charged)]
        if hopeless:
            return out + self._give_up(rank, ending)
        self._set_deadline(rank, now)
        if not stays:
            out += self._let_go(rank, ending.cause, ending.text)
            rank.phase, rank.ask_at = "waiting", now + rank.budget.delay_s
            return out
        if state is not None:
            state.alive = False
        rank.phase, rank.told_at, rank.note = "restarting", now, ending.text
        if not exited.restarting:
            plan = self.plans[rank.role]
            out.append(StartProcess(rank.container, rank.role, rank.rank, plan.processes))
        return out

    def _set_deadline(self, rank: Rank, now: float) -> None:
        """From a death on, the rank has the start limit to be up again."""
        if rank.up_by is None:
            rank.up_by = now + self.settings.limits.start_timeout

    def _not_up(self, rank: Rank, now: float) -> list[Decision]:
        """The start limit of a rank has run out."""
        limit = self.settings.limits.start_timeout
        others = [r for r in self._ranks.values() if r.role == rank.role and r is not rank and r.up]
        if rank.role == "worker" and rank.ever_up and others:
            # Others do its work meanwhile; a busy cluster is no reason to end a job that goes on.
            rank.up_by = now + limit
            text = f"{rank.name} is not back after {limit:.0f} s: {roster.waits_for(rank)}"
            return [Note(text, rank.role, rank.rank, rank.container)]
        text = (
            f"{rank.name} was not up within {limit:.0f} s: {roster.waits_for(rank)}. "
            f"Missing: {', '.join(self.missing())}"
        )
        return self._give_up(rank, Ending(Cause.START_TIMEOUT, text))

    def _give_up(self, rank: Rank, ending: Ending) -> list[Decision]:
        if rank.ended:
            return []
        out: list[Decision] = []
        if rank.alive and rank.container:
            out.append(roster.death(rank, rank.alive, ending, in_place=False, charged=False))
        out += self._let_go(rank, ending.cause, ending.text)
        cause, text = roster.final_words(rank, ending)
        rank.phase, rank.ask_at, rank.up_by, rank.note = "failed", None, None, text
        out.append(GaveUp(rank.role, rank.rank, cause, text, ending.traceback))
        return out


__all__ = ["WITH_AGENT", "Members"]
