"""What follows from the members' decisions: actions, and news for the training and the programs."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

from yarnps.am.actions import Action, Ask, GiveBack, Log, Tell
from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.resources.decisions import (
    Decision,
    Died,
    GaveUp,
    Note,
    Release,
    Request,
    StartProcess,
    StopProcess,
    Up,
)
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure
from yarnps.am.training.crew import RoleProcess
from yarnps.am.training.greeting import start_message
from yarnps.am.training.roles import Training
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

STOP_GRACE_S = 5.0  # of a program that is ended to be started again


class Consequences:
    """Carries decisions on; what may end the job goes into `failures`.

    Attributes
    ----------
    over
        The job has ended: nothing goes on in the place of what ends now.
    waiting_reason
        Why the cluster lets requests wait, as far as it has said so.
    """

    def __init__(
        self,
        config: Config,
        members: Members,
        training: Training,
        programs: Programs | None,
        failures: MutableSequence[Failure],
    ) -> None:
        self.over = False
        self.waiting_reason = ""
        self._config = config
        self._members = members
        self._training = training
        self._programs = programs
        self._failures = failures

    def of(self, decisions: Sequence[Decision], now: float) -> list[Action]:
        """The actions that decisions mean, in their order."""
        given_up = {(d.role, d.rank) for d in decisions if isinstance(d, GaveUp)}
        out: list[Action] = []
        for decision in decisions:
            if isinstance(decision, Up):
                out += self._up(decision)
            elif isinstance(decision, Died):
                out += self._died(decision, now)
                if (decision.role, decision.rank) not in given_up:
                    out += self._programs_died(decision, now)
            elif isinstance(decision, GaveUp):
                out += self._gave_up(decision)
            elif isinstance(decision, StartProcess):
                out += self._start(decision)
            else:
                out.append(_as_action(decision))
        return out

    def _start(self, order: StartProcess) -> list[Action]:
        if self._programs is not None:
            return self._programs.start(order)
        start = start_message(self._config, order.role, order.processes)
        return [Tell(order.container, pb.ToAgent(start=start))]

    # ------------------------------------------------------------ starts

    def _up(self, up: Up) -> list[Action]:
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
            server_rank=up.rank * self._config.server.processes + one.process,
        )
        text = f"{member.name} has started on {up.node}"
        self._training.up(member)
        self.joined(up.role, up.rank)
        return [member.log("up", text)]

    def joined(self, role: str, rank: int) -> None:
        """A program of another runtime is up: by way of its agent and of its port, in any order."""
        if self._programs is not None and self._programs.has_joined(role, rank):
            container = self._members.place_of(role, rank).container
            self._members.said_hello(container, process=0)

    # ------------------------------------------------------------ ends

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
        return [log, *self.gone([one.id for one in died.incarnations], now)]

    def _nth_of(self, died: Died) -> int | None:
        """Which start of the rank has died, where it got so far."""
        live = (self._training.crew.get(one.id) for one in died.incarnations)
        return next((member.nth for member in live if member is not None), None)

    def gone(self, incarnations: Sequence[int], now: float) -> list[Action]:
        """The training goes on without them."""
        return [] if self.over else self._training.died(incarnations, now)

    def _programs_died(self, died: Died, now: float) -> list[Action]:
        """What the death of one program means for the others."""
        if self._programs is None or self.over:
            return []
        out, decisions = self._programs.died(died, now)
        return out + self.of(decisions, now)

    def _gave_up(self, gone: GaveUp) -> list[Action]:
        text = gone.text
        if gone.cause is Cause.START_TIMEOUT and self.waiting_reason:
            text += f". {self.waiting_reason}"
        self._failures.append(
            Failure(gone.cause, text, gone.role, gone.rank, gone.traceback, gone.exit_code)
        )
        return [Log("gave_up", text, gone.role, gone.rank, data={"cause": gone.cause.value})]


def _as_action(decision: Request | Release | StopProcess | Note) -> Action:
    """Decisions that mean one action, and nothing to anybody else."""
    if isinstance(decision, Request):
        env = dict(decision.env)
        return Ask(decision.role, decision.nonce, env, decision.retry_memory)
    if isinstance(decision, Release):
        return GiveBack(decision.container, decision.text, decision.polite)
    if isinstance(decision, StopProcess):
        stop = pb.StopRole(reason=decision.text, grace_s=STOP_GRACE_S)
        return Tell(decision.container, pb.ToAgent(stop=stop))
    return Log("note", decision.text, decision.role, decision.rank, decision.container)
