"""The state machine of a whole job: resources and training as one thing, without I/O.

`JobMachine.handle` takes an input (`yarnps.am.inputs`) and the time, and returns the actions
(`yarnps.am.actions`) that follow. The same inputs give the same state: that is how the
ApplicationMaster comes back after its process has died.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask, End, GiveBack, Log, Refuse, Tell
from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.resources import outcome as rule
from yarnps.am.resources.decisions import (
    Decision,
    Died,
    Expiry,
    GaveUp,
    Limits,
    Note,
    Release,
    Request,
    RolePlan,
    Settings,
    StartProcess,
    StopProcess,
    Up,
    Work,
)
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure, Killed, RoleRule
from yarnps.am.resources.services import OtherServices
from yarnps.am.training.crew import RoleProcess
from yarnps.am.training.greeting import start_message
from yarnps.am.training.roles import Training
from yarnps.causes import Cause
from yarnps.data import Split
from yarnps.protocol import control_pb2 as pb
from yarnps.spec import Block, Role
from yarnps.status import Outcome

HEARTBEAT_LEAST_S = 1.0
CONTAINERS_PER_HEARTBEAT_S = 1000
RESTARTS_PER_MINUTE = 3
STOP_GRACE_S = 5.0  # of a program that is ended to be started again

# Programs may do something of their own after the data has ended; then the job ends without them.
PROGRAM_END_LIMIT_S = 600.0

# Messages that only carry figures: they change nothing that has to outlive the process.
_FIGURES = ("heartbeat", "stats", "event")


class JobMachine:
    """See the module's text. `outcome` is None until the job has ended."""

    def __init__(self, config: Config, now: float) -> None:
        self.config = config
        self.started = now
        self.outcome: Outcome | None = None
        self.ended: float | None = None
        self.training = Training(config, now)
        block = config.block
        limits = Limits(
            start_timeout=block.start_timeout,
            silence=block.silence,
            batch=block.train.batch_limit,
        )
        settings = Settings(config.version, config.derived("nonces"), limits)
        roles = {"server": config.server, "worker": config.worker}
        plans = {name: _plan(role, block) for name, role in roles.items()}
        self.members = Members(plans, settings)
        self._rules = {n: RoleRule(r.instances, r.allow_failures) for n, r in roles.items()}
        # One list, in the order in which things happened: the outcome rule takes the first.
        self._failures = self.training.course.failures
        # Of a runtime that is not ours; the training side has nothing to do then.
        self.programs = _programs(config, self.members, self._failures)
        services = config.job.skein.get("services") or {}
        others = {name: keys for name, keys in services.items() if name not in config.job.roles}
        self._others = OtherServices(others, self._failures)
        self._waiting_reason = ""
        self._killed: Killed | None = None
        self._over_since: float | None = None
        self._handlers: dict[type, Callable[[Any, float], list[Action]]] = {
            i.Started: self._on_started,
            i.Listed: self._on_listed,
            i.Broken: self._on_broken,
            i.Placed: self._on_placed,
            i.NotPlaced: self._on_not_placed,
            i.Changed: self._on_changed,
            i.Reconciled: self._on_reconciled,
            i.AgentCame: self._on_agent_came,
            i.AgentSaid: self._on_agent_said,
            i.AgentWent: self._on_agent_went,
            i.Expired: self._on_expired,
            i.Ticked: self._on_ticked,
            i.ManifestWritten: self._on_manifest_written,
            i.Published: self._on_published,
            i.KillOrdered: self._on_kill_ordered,
            i.PortOpened: self._on_port_opened,
            i.PortLost: self._on_port_lost,
            i.NodeSaid: self._on_node_said,
            i.TrackerUp: self._on_tracker_up,
            i.TrackerDown: self._on_tracker_down,
        }

    def handle(self, event: i.Input, now: float) -> list[Action]:
        """Take in one event; returns what is to be done, in order."""
        out = self._handlers[type(event)](event, now)
        # What nodes of ps-lite say ends nothing, and is said often.
        return out if isinstance(event, i.NodeSaid) else out + self._judge(now)

    @staticmethod
    def durable(event: i.Input, actions: list[Action]) -> bool:
        """Whether the journal has to hold this input."""
        if isinstance(event, i.Ticked):
            return bool(actions)  # also a mere log entry: a phase begins that nobody is told of yet
        if isinstance(event, i.AgentWent):
            return any(not isinstance(action, Log) for action in actions)
        if isinstance(event, i.AgentSaid):
            kind = event.message.WhichOneof("kind")
            if kind == "role":
                kind = event.message.role.message.WhichOneof("kind")
            return kind not in _FIGURES
        # A heartbeat is always answered, so most other words need no second look.
        return not (isinstance(event, i.NodeSaid) and actions and _is_heartbeat(event))

    # ------------------------------------------------------------ inputs: the job

    def _on_started(self, event: i.Started, now: float) -> list[Action]:
        out: list[Action] = [
            Log("start", f"attempt {self.config.attempt} of {self.config.application} has started")
        ]
        return out + self._carry_out(self.members.start(now, event.nodes), now)

    def _on_listed(self, event: i.Listed, now: float) -> list[Action]:
        train = [Split.from_pb(info) for info in event.train]
        test = [Split.from_pb(info) for info in event.test]
        files = len({split.path for split in train})
        text = f"input: {len(train)} splits of {files} files to train on, {len(test)} to test on"
        out: list[Action] = [Log("input", text)]
        out += [Log("input", note) for note in event.notes]
        self.training.course.racks = dict(event.racks)
        return out + self.training.listed(train, test, event.resume, now)

    def _on_broken(self, event: i.Broken, now: float) -> list[Action]:
        self._failures.append(Failure(Cause(event.cause), event.text, traceback=event.traceback))
        return []

    def _on_kill_ordered(self, event: i.KillOrdered, now: float) -> list[Action]:
        text = f"killed by {event.user or 'a client'}"
        self._killed = Killed(f"{text}: {event.reason}" if event.reason else text)
        return []

    def _on_manifest_written(self, event: i.ManifestWritten, now: float) -> list[Action]:
        return self.training.manifest_written(event.cut, event.error, now)

    def _on_published(self, event: i.Published, now: float) -> list[Action]:
        return self.training.published(event.kind, event.path, event.error, now)

    # ------------------------------------------------------------ inputs: the cluster

    def _on_placed(self, event: i.Placed, now: float) -> list[Action]:
        return self._carry_out(self.members.request_placed(event.nonce, event.container, now), now)

    def _on_not_placed(self, event: i.NotPlaced, now: float) -> list[Action]:
        return self._carry_out(self.members.request_failed(event.nonce, event.error, now), now)

    def _on_changed(self, event: i.Changed, now: float) -> list[Action]:
        out: list[Action] = []
        who = self.members.rank_of(event.info.id)
        if event.info.state == "running" and who is not None:
            text = f"{who[0]} {who[1]}: container granted on {event.info.node}"
            out.append(
                Log(
                    "grant",
                    text,
                    role=who[0],
                    rank=who[1],
                    container=event.info.id,
                    node=event.info.node,
                    data={"yarn_id": event.info.yarn_id},
                )
            )
        out += self._others.seen(event.info, event.tail)
        changed = self.members.container_changed(event.info, now, event.tail, event.peak)
        return out + self._carry_out(changed, now)

    def _on_reconciled(self, event: i.Reconciled, now: float) -> list[Action]:
        out: list[Action] = [Log("am_restart", "the ApplicationMaster's process is back")]
        for info in event.containers:
            out += self._others.seen(info)
        out += self._carry_out(self.members.reconcile(event.containers, now), now)
        if self.programs is not None:
            out += self.programs.returned(now)
        return out + self.training.returned(now)

    # ------------------------------------------------------------ inputs: agents and roles

    def _on_agent_came(self, event: i.AgentCame, now: float) -> list[Action]:
        reg = event.register
        answer = self.members.registered(reg, now)
        if not answer.accepted:
            text = f"a registration as {reg.role} {reg.rank} was refused: {answer.reason}"
            log = Log("refused", text, role=reg.role, rank=reg.rank, container=reg.container)
            out: list[Action] = [Refuse(answer.reason), log]
            return out + self._carry_out(answer.decisions, now)
        welcome = pb.Welcome(
            heartbeat_s=self.heartbeat_s,
            am_silence_s=self.config.block.am_silence,
            restarts_per_minute=RESTARTS_PER_MINUTE,
            attempt=self.config.attempt,
        )
        out = [Tell(reg.container, pb.ToAgent(welcome=welcome))]
        return out + self._carry_out(answer.decisions, now)

    @property
    def heartbeat_s(self) -> float:
        """Period of an agent's heartbeats: what all of them together allow."""
        count = self.config.server.instances + self.config.worker.instances
        return max(HEARTBEAT_LEAST_S, count / CONTAINERS_PER_HEARTBEAT_S)

    def _on_agent_went(self, event: i.AgentWent, now: float) -> list[Action]:
        return self._carry_out(self.members.agent_gone(event.container, now), now)

    def _on_agent_said(self, event: i.AgentSaid, now: float) -> list[Action]:
        kind = event.message.WhichOneof("kind")
        if kind == "role_started":
            started = event.message.role_started
            return self._carry_out(self.members.role_started(event.container, started, now), now)
        if kind == "role_exited":
            return self._role_exited(event, event.message.role_exited, now)
        if kind == "role":
            return self._role_said(event.container, event.message.role, now)
        return []

    def _role_exited(self, event: i.AgentSaid, exited: pb.RoleExited, now: float) -> list[Action]:
        member = self.training.crew.get(exited.incarnation.id)
        who = self.members.rank_of(event.container)
        if self.programs is not None and who is not None:
            work = self.programs.work(*who)
        else:
            work = Work(
                asked=member.asked if member else True,
                rows=member.rows if member else 0,
                input_left=not self.training.course.over,
            )
        decisions = self.members.role_exited(event.container, exited, now, work, event.peak)
        out = self._carry_out(decisions, now)
        if self.programs is not None and who is not None and self.members.is_finished(*who):
            out += self.programs.ended_well(*who, now)
        # A program that ended well is no death for the members; the training forgets it as well.
        return out + self._gone([exited.incarnation.id], now)

    def _role_said(self, container: str, says: pb.RoleSays, now: float) -> list[Action]:
        member = self.training.crew.get(says.incarnation.id)
        if member is None:
            return []
        kind = says.message.WhichOneof("kind")
        out: list[Action] = []
        if kind == "hello":
            said = self.members.said_hello(container, member.process, now)
            out += self._carry_out(said, now)
        elif kind == "failed":
            failed = says.message.failed
            self.members.role_failed(container, member.process, failed, now)
            return [member.log("error", f"{member.name}: {failed.error}")]
        elif kind == "finished":
            if self.training.course.over:
                member.through = True
                out += self._carry_out(self.members.finished(member.role, member.rank, now), now)
            return out
        return out + self.training.said(member, says.message, now)

    # ------------------------------------------------------------ inputs: nodes of ps-lite

    def _on_port_opened(self, event: i.PortOpened, now: float) -> list[Action]:
        return self.programs.port_opened(event) if self.programs is not None else []

    def _on_port_lost(self, event: i.PortLost, now: float) -> list[Action]:
        text = f"the port of {event.role} {event.rank} is lost: {event.error}"
        return self._carry_out(self.members.lost_touch(event.role, event.rank, text, now), now)

    def _on_node_said(self, event: i.NodeSaid, now: float) -> list[Action]:
        if self.programs is None:
            return []
        out = self.programs.heard(event, now)
        if any(isinstance(action, Log) and action.kind == "joined" for action in out):
            out += self._joined(event.role, event.rank, now)
        return out

    def _on_tracker_up(self, event: i.TrackerUp, now: float) -> list[Action]:
        return self.programs.tracker_up(event, now) if self.programs is not None else []

    def _on_tracker_down(self, event: i.TrackerDown, now: float) -> list[Action]:
        if self.programs is None:
            return []
        out, decisions = self.programs.tracker_down(event, now)
        return out + self._carry_out(decisions, now)

    def _joined(self, role: str, rank: int, now: float) -> list[Action]:
        """A node that has joined is up: by way of its agent and of its port, in any order."""
        if self.programs is None or not self.programs.has_joined(role, rank):
            return []
        container = self.members.place_of(role, rank).container
        return self._carry_out(self.members.said_hello(container, 0, now), now)

    # ------------------------------------------------------------ inputs: time

    def _on_expired(self, event: i.Expired, now: float) -> list[Action]:
        self._waiting_reason = event.reason
        return self._carry_out(self.members.expire(event.expiry, now), now)

    def _on_ticked(self, event: i.Ticked, now: float) -> list[Action]:
        return [] if self.outcome is not None else self.training.ticked(now)

    def overdue(self, now: float, spoke: MutableMapping[int, float]) -> list[Expiry]:
        """Role processes that say nothing, or nothing of their work, though their agents live.

        `spoke`: when each incarnation was last heard, as far as that counts against it. One that
        was never heard (by this process of the AM) counts from now on, and is put in there.
        """
        training, limits = self.training, self.members.settings.limits
        expected = training.expected_to_speak(limits.silence, limits.process_start)
        out = [
            Expiry("frozen", member.role, member.rank, member.container)
            for member, limit in expected
            if now - spoke.setdefault(member.id, now) >= limit
        ]
        ledger = training.course.ledger
        late = ledger.overdue(now, limits.batch) if ledger and training.routes.complete else []
        for worker, _ in late:
            member = training.crew.get(worker)
            if member is not None:
                out.append(Expiry("stuck", member.role, member.rank, member.container))
        return out + (self.programs.overdue(now) if self.programs is not None else [])

    # ------------------------------------------------------------ decisions into actions

    def _carry_out(self, decisions: Sequence[Decision], now: float) -> list[Action]:
        out: list[Action] = []
        lost = {(d.role, d.rank) for d in decisions if isinstance(d, GaveUp)}
        for decision in decisions:
            if isinstance(decision, Request):
                retry = decision.retry_memory
                out.append(Ask(decision.role, decision.nonce, dict(decision.env), retry))
            elif isinstance(decision, Release):
                out.append(GiveBack(decision.container, decision.text, decision.polite))
            elif isinstance(decision, StopProcess):
                stop = pb.StopRole(reason=decision.text, grace_s=STOP_GRACE_S)
                out.append(Tell(decision.container, pb.ToAgent(stop=stop)))
            elif isinstance(decision, StartProcess) and self.programs is not None:
                out += self.programs.start(decision)
            elif isinstance(decision, StartProcess):
                start = start_message(self.config, decision.role, decision.processes)
                out.append(Tell(decision.container, pb.ToAgent(start=start)))
            elif isinstance(decision, Up):
                out += self._up(decision, now)
            elif isinstance(decision, Died):
                out += self._died(decision, now)
                if (decision.role, decision.rank) not in lost:
                    out += self._programs_died(decision, now)
            elif isinstance(decision, GaveUp):
                out += self._gave_up(decision)
            elif isinstance(decision, Note):
                note = decision
                out.append(Log("note", note.text, note.role, note.rank, note.container))
        return out

    def _up(self, up: Up, now: float) -> list[Action]:
        one = up.incarnation
        member = RoleProcess(
            id=one.id,
            role=up.role,
            rank=up.rank,
            container=one.container,
            process=one.process,
            start=one.start,
            node=up.node,
            address=up.address,
            nth=up.nth,
            server_rank=up.rank * self.config.server.processes + one.process,
        )
        text = f"{member.name} has started on {up.node}"
        self.training.up(member)
        return [member.log("up", text), *self._joined(up.role, up.rank, now)]

    def _died(self, died: Died, now: float) -> list[Action]:
        then = "restarted in its container" if died.restarting_in_place else "a new container"
        text = f"{died.role} {died.rank} died on {died.node or 'an unknown node'}: {died.text}"
        log = Log(
            "death",
            text,
            role=died.role,
            rank=died.rank,
            container=died.container,
            incarnation=self._nth_of(died),
            node=died.node,
            data={"cause": died.cause.value, "charged": died.charged, "then": then},
        )
        return [log, *self._gone([one.id for one in died.incarnations], now)]

    def _programs_died(self, died: Died, now: float) -> list[Action]:
        """What the death of one program means for the others."""
        if self.programs is None or self.outcome is not None:
            return []
        out, decisions = self.programs.died(died, now)
        return out + self._carry_out(decisions, now)

    def _nth_of(self, died: Died) -> int | None:
        """Which start of the rank has died, where it got so far."""
        live = (self.training.crew.get(one.id) for one in died.incarnations)
        return next((member.nth for member in live if member is not None), None)

    def _gone(self, incarnations: Sequence[int], now: float) -> list[Action]:
        """The training side goes on without them; after the job's end nothing goes on."""
        return [] if self.outcome is not None else self.training.died(incarnations, now)

    def _gave_up(self, gone: GaveUp) -> list[Action]:
        text = gone.text
        if gone.cause is Cause.START_TIMEOUT and self._waiting_reason:
            text += f". {self._waiting_reason}"
        self._failures.append(Failure(gone.cause, text, gone.role, gone.rank, gone.traceback))
        return [Log("gave_up", text, gone.role, gone.rank, data={"cause": gone.cause.value})]

    # ------------------------------------------------------------ the outcome

    def _judge(self, now: float) -> list[Action]:
        """Whether the job has ended by now."""
        if self.outcome is not None:
            return []
        course = self.training.course
        if course.over and self._over_since is None:
            self._over_since = now
        facts = rule.Facts(
            roles=self._rules,
            plan_ended=self._all_done(now),
            model_in_place=course.model_written or self.programs is not None,
            skipped_splits=len(course.ledger.skipped) if course.ledger else 0,
            killed=self._killed,
            failures=tuple(self._failures),
        )
        self.outcome = rule.decide(facts)
        if self.outcome is None:
            return []
        self.ended = now
        text = f"the job has ended: {self.outcome.state}"
        text += f": {self.outcome.cause}" if self.outcome.cause else ""
        out: list[Action] = [Log("end", text, data={"cause": self.outcome.cause_code})]
        out += self._carry_out(self.members.shutdown("the job has ended"), now)
        return [*out, End(self.outcome)]

    def _all_done(self, now: float) -> bool:
        """Whether the plan is at its end, and the programs are."""
        if self.programs is not None:
            return self.programs.over(now)
        return self.training.course.over and self._workers_done(now)

    def _workers_done(self, now: float) -> bool:
        """Whether every worker's program has ended, or has had its time."""
        if self._over_since is not None and now - self._over_since > PROGRAM_END_LIMIT_S:
            return True
        rows = self.members.processes(now)
        return all(r.state in ("finished", "failed") for r in rows if r.role == "worker")

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """The durable state, to take the place of a long journal."""
        return {
            "started": self.started,
            "members": self.members.snapshot(),
            "training": self.training.snapshot(),
            "programs": self.programs.snapshot() if self.programs is not None else None,
            "others": self._others.snapshot(),
            "failures": [_failure_dict(f) for f in self._failures],
            "over_since": self._over_since,
            "killed": self._killed.text if self._killed else None,
        }

    def restore(self, data: dict[str, Any], now: float) -> None:
        """Put back what `snapshot` gave."""
        self.started = data["started"]
        self.members.restore(data["members"])
        self.training.restore(data["training"])
        if self.programs is not None:
            self.programs.restore(data["programs"])
        self._others.restore(data["others"])
        self._failures[:] = [
            Failure(**{**item, "cause": Cause(item["cause"])}) for item in data["failures"]
        ]
        self._killed = Killed(data["killed"]) if data["killed"] is not None else None
        self._over_since = data["over_since"]


def _failure_dict(failure: Failure) -> dict[str, Any]:
    return {**vars(failure), "cause": failure.cause.value}


def _is_heartbeat(event: i.NodeSaid) -> bool:
    from yarnps.pslite.wire import is_heartbeat

    return is_heartbeat(event.message)


def _programs(config: Config, members: Members, failures: list[Failure]) -> Programs | None:
    """The programs of a runtime that is not ours."""
    # Each only where it is wanted: a start waits for every import.
    if config.block.runtime == "dmlc":
        from yarnps.am.programs.dmlc import Dmlc

        return Dmlc(config, members, failures)
    if config.block.runtime == "xgboost":
        from yarnps.am.programs.xgboost import Xgboost

        return Xgboost(config, members, failures)
    return None


def _plan(role: Role, block: Block) -> RolePlan:
    """What the members need to know of a role."""
    retry_memory, ours = block.retry_memory, block.runtime == "native"
    if ours:
        joins = "has not called yarnps.connect()"
    else:
        joins = "has not joined the others"
    return RolePlan(
        instances=role.instances,
        processes=role.processes,
        max_restarts=role.max_restarts,
        allow_failures=role.allow_failures,
        memory=role.memory,
        retry_memory=round(role.memory * retry_memory) if retry_memory else None,
        own_program=ours and (role.name == "server" or not role.script),
        by_order=not ours,
        needed=not ours and (role.name == "server" or block.dmlc.restart != "worker"),
        joins=joins,
    )
