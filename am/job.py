"""The state machine of a whole job: resources and training as one thing, without I/O.

`JobMachine.handle` takes an input (`yarnps.am.inputs`) and the time, and returns the actions
(`yarnps.am.actions`) that follow. The same inputs give the same state: that is how the
ApplicationMaster comes back after its process has died.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from yarnps.am import assembly
from yarnps.am import inputs as i
from yarnps.am.actions import Action, End, Log, Refuse, Tell
from yarnps.am.config import Config
from yarnps.am.consequences import Consequences
from yarnps.am.resources.decisions import Expiry, Work
from yarnps.am.resources.outcome import Failure
from yarnps.am.training.greeting import welcome_message
from yarnps.am.training.job_input import JobInput
from yarnps.am.training.roles import Training
from yarnps.am.verdict import Verdict
from yarnps.causes import Cause
from yarnps.data import Split
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Outcome


class JobMachine:
    """See the module's text. `outcome` is None until the job has ended."""

    def __init__(self, config: Config, now: float) -> None:
        self.config = config
        self.started = now
        self.outcome: Outcome | None = None
        self.ended: float | None = None
        self.training = Training(config, now)
        self.members = assembly.members_of(config)
        # One list, in the order in which things happened: the outcome rule takes the first.
        failures = self._failures = self.training.course.failures
        # Of a runtime that is not ours; the training side has nothing to do then.
        self.programs = assembly.programs_of(config, self.members, failures)
        self._others = assembly.services_of(config, failures)
        parts = (self.members, self.training, self.programs, failures)
        self._consequences = Consequences(config, *parts)
        self._verdict = Verdict(config, self.members, self.training.course, self.programs, failures)
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

    # ------------------------------------------------------------ inputs: the job

    def _on_started(self, event: i.Started, now: float) -> list[Action]:
        out: list[Action] = [
            Log("start", f"attempt {self.config.attempt} of {self.config.application} has started")
        ]
        return out + self._consequences.of(self.members.start(now, event.nodes), now)

    def _on_listed(self, event: i.Listed, now: float) -> list[Action]:
        train = [Split.from_pb(info) for info in event.train]
        test = [Split.from_pb(info) for info in event.test]
        files = len({split.path for split in train})
        text = f"input: {len(train)} splits of {files} files to train on, {len(test)} to test on"
        out: list[Action] = [Log("input", text)]
        out += [Log("input", note) for note in event.notes]
        found = JobInput(train, test, event.racks)
        return out + self.training.listed(found, event.resume, now)

    def _on_broken(self, event: i.Broken, now: float) -> list[Action]:
        self._failures.append(Failure(Cause(event.cause), event.text, traceback=event.traceback))
        return []

    def _on_kill_ordered(self, event: i.KillOrdered, now: float) -> list[Action]:
        text = f"killed by {event.user or 'a client'}"
        self._verdict.kill(f"{text}: {event.reason}" if event.reason else text)
        return []

    def _on_manifest_written(self, event: i.ManifestWritten, now: float) -> list[Action]:
        return self.training.manifest_written(event.cut, event.error, now)

    def _on_published(self, event: i.Published, now: float) -> list[Action]:
        return self.training.published(event.kind, event.path, event.error, now)

    # ------------------------------------------------------------ inputs: the cluster

    def _on_placed(self, event: i.Placed, now: float) -> list[Action]:
        placed = self.members.request_placed(event.nonce, event.container, now)
        return self._consequences.of(placed, now)

    def _on_not_placed(self, event: i.NotPlaced, now: float) -> list[Action]:
        failed = self.members.request_failed(event.nonce, event.error, now)
        return self._consequences.of(failed, now)

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
        return out + self._consequences.of(changed, now)

    def _on_reconciled(self, event: i.Reconciled, now: float) -> list[Action]:
        out: list[Action] = [Log("am_restart", "the ApplicationMaster's process is back")]
        for info in event.containers:
            out += self._others.seen(info)
        out += self._consequences.of(self.members.reconcile(event.containers, now), now)
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
            return out + self._consequences.of(answer.decisions, now)
        out = [Tell(reg.container, pb.ToAgent(welcome=welcome_message(self.config)))]
        return out + self._consequences.of(answer.decisions, now)

    def _on_agent_went(self, event: i.AgentWent, now: float) -> list[Action]:
        return self._consequences.of(self.members.agent_gone(event.container, now), now)

    def _on_agent_said(self, event: i.AgentSaid, now: float) -> list[Action]:
        kind = event.message.WhichOneof("kind")
        if kind == "role_started":
            said = event.message.role_started
            started = self.members.role_started(event.container, said, now)
            return self._consequences.of(started, now)
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
        out = self._consequences.of(decisions, now)
        if self.programs is not None and who is not None and self.members.is_finished(*who):
            out += self.programs.ended_well(*who, now)
        # A program that ended well is no death for the members; the training forgets it as well.
        return out + self._consequences.gone([exited.incarnation.id], now)

    def _role_said(self, container: str, says: pb.RoleSays, now: float) -> list[Action]:
        member = self.training.crew.get(says.incarnation.id)
        if member is None:
            return []
        kind = says.message.WhichOneof("kind")
        if kind == "hello":
            self.members.said_hello(container, member.process)
        elif kind == "failed":
            failed = says.message.failed
            self.members.role_failed(container, member.process, failed)
            return [member.log("error", f"{member.name}: {failed.error}")]
        elif kind == "finished":
            if self.training.course.over:
                member.through = True
                self.members.finished(member.role, member.rank)
            return []
        return self.training.said(member, says.message, now)

    # ------------------------------------------------------------ inputs: nodes of ps-lite

    def _on_port_opened(self, event: i.PortOpened, now: float) -> list[Action]:
        return self.programs.port_opened(event) if self.programs is not None else []

    def _on_port_lost(self, event: i.PortLost, now: float) -> list[Action]:
        own = event.role in ("server", "worker")
        whose = f"{event.role} {event.rank}" if own else "all"
        text = f"the port of {whose} is lost: {event.error}"
        lost = self.programs.port_lost(event) if self.programs is not None else None
        if lost is None:
            return []
        return self._consequences.of(self.members.lost_touch(*lost, text, now), now)

    def _on_node_said(self, event: i.NodeSaid, now: float) -> list[Action]:
        if self.programs is None:
            return []
        out = self.programs.heard(event, now)
        first = out[0] if out else None
        if isinstance(first, Log) and first.kind == "joined" and first.rank is not None:
            self._consequences.joined(first.role, first.rank)
        return out

    def _on_tracker_up(self, event: i.TrackerUp, now: float) -> list[Action]:
        return self.programs.tracker_up(event, now) if self.programs is not None else []

    def _on_tracker_down(self, event: i.TrackerDown, now: float) -> list[Action]:
        if self.programs is None:
            return []
        out, decisions = self.programs.tracker_down(event, now)
        return out + self._consequences.of(decisions, now)

    # ------------------------------------------------------------ inputs: time

    def _on_expired(self, event: i.Expired, now: float) -> list[Action]:
        self._consequences.waiting_reason = event.reason
        return self._consequences.of(self.members.expire(event.expiry, now), now)

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

    # ------------------------------------------------------------ the outcome

    def _judge(self, now: float) -> list[Action]:
        """Whether the job has ended by now."""
        if self.outcome is not None:
            return []
        self.outcome = self._verdict.reached(now)
        if self.outcome is None:
            return []
        self.ended, self._consequences.over = now, True
        text = f"the job has ended: {self.outcome.state}"
        text += f": {self.outcome.cause}" if self.outcome.cause else ""
        out: list[Action] = [Log("end", text, data={"cause": self.outcome.cause_code})]
        out += self._consequences.of(self.members.shutdown("the job has ended"), now)
        return [*out, End(self.outcome)]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """The durable state, to take the place of a long journal."""
        return {
            "started": self.started,
            "members": self.members.snapshot(),
            "training": self.training.snapshot(),
            "programs": self.programs.snapshot() if self.programs is not None else None,
            "others": self._others.snapshot(),
            "verdict": self._verdict.snapshot(),
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.started = data["started"]
        self.members.restore(data["members"])
        self.training.restore(data["training"])
        if self.programs is not None:
            self.programs.restore(data["programs"])
        self._others.restore(data["others"])
        self._verdict.restore(data["verdict"])
