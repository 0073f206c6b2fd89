"""What becomes of one rank: its starts, its deaths, its end. Inputs are `Members`' business."""

from __future__ import annotations

from collections.abc import Mapping

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources import decode, roster
from yarnps.am.resources.deaths import Deaths
from yarnps.am.resources.decisions import (
    Decision,
    GaveUp,
    Limits,
    RolePlan,
    StartProcess,
    StopProcess,
    Up,
)
from yarnps.am.resources.decode import Ending, Memory
from yarnps.am.resources.hearing import Hearing
from yarnps.am.resources.ranks import ProcessState, Rank
from yarnps.am.resources.requests import Requests
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb


class Lives:
    """The transitions of ranks. Shares its parts with the `Members` that owns it."""

    def __init__(
        self,
        plans: Mapping[str, RolePlan],
        limits: Limits,
        ranks: Mapping[tuple[str, int], Rank],
        requests: Requests,
        deaths: Deaths,
        hearing: Hearing,
    ) -> None:
        self._plans = plans
        self._limits = limits
        self._ranks = ranks
        self._requests = requests
        self._deaths = deaths
        self._hearing = hearing

    def let_go(
        self, rank: Rank, cause: Cause, text: str, *, polite: bool = False
    ) -> list[Decision]:
        """Release a rank's container, if it has one."""
        self._hearing.drop(rank.container)
        return self._requests.let_go(rank, cause, text, polite=polite)

    # ------------------------------------------------------------ starts

    def welcome(self, rank: Rank, reg: pb.Register, now: float) -> list[Decision]:
        """Bring an accepted agent and the rank together."""
        if rank.ended:
            return []
        plan = self._plans[rank.role]
        out: list[Decision] = []
        for incarnation in sorted(reg.running, key=lambda i: i.process):
            out += self.started(rank, incarnation, now)
            if rank.ended or rank.container != reg.container:
                return out
        if rank.stopping and reg.running:
            return [*out, self._stop(rank, rank.note)]  # the order was lost
        if not rank.alive:
            rank.stopping = False  # else the report of its end is about to come
        if len(reg.running) < plan.processes:
            # It was never told, or the message was lost, or the agent is restarting one.
            rank.told_at = now
            if not rank.processes:
                rank.phase = "starting"
                out.append(StartProcess(rank.container, rank.role, rank.rank, plan.processes))
        return out

    def started(self, rank: Rank, inc: pb.Incarnation, now: float) -> list[Decision]:
        """A process of the rank's container runs."""
        old = rank.processes.get(inc.process)
        if old is not None and (old.id == inc.id or old.start > inc.start):
            return []
        out: list[Decision] = []
        if old is not None and old.alive:
            # Its exit came while nobody listened.
            gone = pb.Incarnation(process=inc.process, start=old.start, id=old.id)
            ending = Ending(Cause.UNKNOWN, "its process was replaced unseen")
            exited = pb.RoleExited(incarnation=gone, restarting=True)
            container = rank.container
            out += self.died_in_place(rank, exited, ending, now)
            if rank.container != container:
                return out
        rank.processes[inc.process] = ProcessState(inc.start, inc.id)
        rank.processes = dict(sorted(rank.processes.items()))
        rank.starts += inc.process == 0
        if len(rank.alive) == self._plans[rank.role].processes:
            rank.phase, rank.told_at, rank.running_since = "running", None, now
        elif rank.phase != "restarting":
            rank.phase = "starting"
        who = rank.incarnation(inc.process)
        return [*out, Up(rank.role, rank.rank, who, rank.node, rank.address, rank.starts)]

    # ------------------------------------------------------------ ends

    def lose(
        self, rank: Rank, ending: Ending, now: float, *, ended: bool = False
    ) -> list[Decision]:
        """A rank loses its container (`ended`: it is gone, else we release it)."""
        charged, ending = self._deaths.account(rank, ending, now)
        out: list[Decision] = [
            roster.death(rank, rank.alive, ending, in_place=False, charged=charged)
        ]
        if ended:
            self._hearing.drop(rank.container)
            self._requests.ended(rank)
        else:
            out += self.let_go(rank, ending.cause, ending.text)
        if ending.certain or rank.budget.exhausted:
            return out + self.give_up(rank, ending)
        self._set_deadline(rank, now)
        if not charged:
            return [*out, self._requests.ask(rank)]
        rank.wait(now + rank.budget.delay_s, ending.text)
        return out

    def container_ended(
        self, rank: Rank, info: ContainerInfo, memory: Memory, tail: str, now: float
    ) -> list[Decision]:
        """The cluster says that a rank's container has ended."""
        if rank.ended:
            self._hearing.drop(rank.container)
            self._requests.ended(rank)
            return []
        ending = decode.container_ended(info.exit_message, memory, tail)
        reported = next((state for state in rank.processes.values() if state.error), None)
        if reported is not None and ending.cause in (Cause.EXIT, Cause.UNKNOWN):
            ending = decode.program_failed(
                reported.error, reported.traceback, user_error=reported.user_error
            )
        elif not rank.processes and ending.cause in (Cause.EXIT, Cause.UNKNOWN):
            ending = self._deaths.before_start(rank, ending)
        return self.lose(rank, ending, now, ended=True)

    def died_in_place(
        self, rank: Rank, exited: pb.RoleExited, ending: Ending, now: float
    ) -> list[Decision]:
        """A process died and the container lives on."""
        was_bigger = rank.bigger
        charged, ending = self._deaths.account(rank, ending, now)
        hopeless = ending.certain or rank.budget.exhausted
        stays = not hopeless and rank.bigger == was_bigger
        lost = tuple(i for i in rank.alive if not stays or i.process == exited.incarnation.process)
        out: list[Decision] = [roster.death(rank, lost, ending, in_place=stays, charged=charged)]
        if not stays:
            out += self.let_go(rank, ending.cause, ending.text)
        if hopeless:
            return out + self.give_up(rank, ending)
        self._set_deadline(rank, now)
        if not stays:
            rank.wait(now + rank.budget.delay_s, ending.text)
            return out
        # Also where its start was not heard of: a report that comes twice must find it here.
        gone = exited.incarnation
        rank.processes[gone.process] = ProcessState(gone.start, gone.id, alive=False)
        rank.phase, rank.told_at, rank.note = "restarting", now, ending.text
        if not exited.restarting:
            plan = self._plans[rank.role]
            out.append(StartProcess(rank.container, rank.role, rank.rank, plan.processes))
        return out

    def start_over(self, rank: Rank, text: str, now: float) -> list[Decision]:
        """End a rank's program, so that it starts again with all others."""
        if rank.phase in ("failed", "stopped"):
            return []
        if rank.phase == "finished":
            out = self.let_go(rank, Cause.OUR_KILL, text)
            self._set_deadline(rank, now)
            return [*out, self._requests.ask(rank)]
        if not rank.alive and rank.told_at is None:
            return []  # it is to be started anyway
        return [self._stop(rank, text)]

    def begin_again(self, rank: Rank, gone: pb.Incarnation, now: float) -> list[Decision]:
        """A process has ended that was ordered to; no death, also if it was faster by itself."""
        self._set_deadline(rank, now)
        rank.processes[gone.process] = ProcessState(gone.start, gone.id, alive=False)
        if rank.alive:
            return []  # others of its container are still to end
        rank.stopping, rank.phase, rank.told_at = False, "restarting", now
        plan = self._plans[rank.role]
        return [StartProcess(rank.container, rank.role, rank.rank, plan.processes)]

    def _stop(self, rank: Rank, text: str) -> StopProcess:
        rank.stopping, rank.note = True, text
        return StopProcess(rank.container, rank.role, rank.rank, text)

    def _set_deadline(self, rank: Rank, now: float) -> None:
        """From a death on, the rank has the start limit to be up again."""
        if rank.up_by is None:
            rank.up_by = now + self._limits.start_timeout

    def not_up(self, rank: Rank, now: float) -> list[Decision]:
        """The start limit of a rank has run out."""
        limit = self._limits.start_timeout
        others = any(r.up for r in self._ranks.values() if r.role == rank.role and r is not rank)
        needed = self._plans[rank.role].needed
        if rank.role == "worker" and rank.ever_up and others and not needed:
            # Others do its work meanwhile; a busy cluster is no reason to end a job that goes on.
            rank.up_by = now + limit
            return [roster.note(rank, f"not back after {limit:.0f} s: {roster.waits_for(rank)}")]
        missing = roster.some_of(roster.missing(self._ranks.values()))
        text = f"not up within {limit:.0f} s; missing: {missing}"
        return self.give_up(rank, Ending(Cause.START_TIMEOUT, text))

    def give_up(self, rank: Rank, ending: Ending) -> list[Decision]:
        """Nothing is started for the rank any more."""
        if rank.ended:
            return []
        out: list[Decision] = []
        if rank.alive:
            out.append(roster.death(rank, rank.alive, ending, in_place=False, charged=False))
        out += self.let_go(rank, ending.cause, ending.text)
        cause, text = roster.final_words(rank, ending)
        rank.end("failed", text)
        return [*out, GaveUp(rank.role, rank.rank, cause, text, ending.traceback, ending.exit_code)]
