"""Unmodified ps-lite programs: the ApplicationMaster is their scheduler. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from yarnps.am import inputs as i
from yarnps.am.actions import Action, ClosePort, Log, OpenPort, SendNode, Tell
from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.programs.gang import Gang
from yarnps.am.programs.lost_words import LostWords
from yarnps.am.resources.decisions import Decision, Died, Expiry, StartProcess, Work
from yarnps.am.resources.decode import Ending
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb
from yarnps.pslite.barriers import Passed, Waiting
from yarnps.pslite.contract import CLEARED, Contract, program_command
from yarnps.pslite.scheduler import (
    Complete,
    Effect,
    Joined,
    Refused,
    Round,
    Scheduler,
    Send,
)
from yarnps.pslite.wire import EVERYONE, HALL, Address, Seat

# Servers get so long to end by themselves when all workers have ended.
SERVERS_END_S = 60.0
# A barrier that is not over after this is shown where people look.
LONG_WAIT_S = 10.0

_GROUPS = {2: "the servers", 4: "the workers", 6: "all", 7: "all"}
# Nobody meets the others without it.
_FIRST = Seat("worker", 0)
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Dmlc(Programs):
    """The programs of one job, and the scheduler that they believe to be one of them.

    `failures` is the job's list of what may end it.
    """

    def __init__(self, config: Config, members: Members, failures: list[Failure]) -> None:
        self.config = config
        self.failures = failures
        self._members = members
        self._policy = config.block.dmlc.restart
        self.gang = Gang(members, self._policy, config.attempt)
        self.scheduler = self._new_scheduler()
        self._done_since: float | None = None  # all workers have ended well
        self._lost_words = LostWords()
        failures += self.gang.first_failure()

    def _new_scheduler(self) -> Scheduler:
        workers, servers = self.config.worker, self.config.server
        resend = any(role.env.get("PS_RESEND", "0") != "0" for role in (workers, servers))
        return Scheduler(workers.instances, servers.instances, resend=resend)

    # ------------------------------------------------------------ starts

    def start(self, order: StartProcess) -> list[Action]:
        """Each process is told apart by its own port; then it can be started."""
        own = OpenPort(order.role, order.rank)
        with_hall = Seat(order.role, order.rank) == _FIRST and not self.scheduler.complete
        return [OpenPort(*HALL), own] if with_hall else [own]

    def port_opened(self, event: i.PortOpened) -> list[Action]:
        """The port is there: the process can be told of it."""
        seat = Seat(event.role, event.rank)
        if seat == HALL:
            self.scheduler.hall_opened(event.port)
            return []
        place = self._members.place_of(*seat)
        if not place.container:
            return [ClosePort(*seat)]
        here = Address(place.am_host, event.port)
        self.scheduler.opened(seat, here, self._host_of(seat, place.address))
        return [Tell(place.container, pb.ToAgent(start=self._start_message(seat, here)))]

    def _host_of(self, seat: Seat, address: str) -> str:
        """The address that its node must have; empty where the job file lets it choose."""
        env = self.config.job.roles[seat.role].env
        chosen = {"DMLC_NODE_HOST", "DMLC_INTERFACE"} & env.keys()
        return "" if chosen or self.config.block.network.interface else address

    def _start_message(self, seat: Seat, here: Address) -> pb.StartRole:
        config, role = self.config, self.config.job.roles[seat.role]
        contract = Contract(
            seat,
            workers=config.worker.instances,
            servers=config.server.instances,
            scheduler=here,
            host=self._host_of(seat, self._members.place_of(*seat).address),
            interface=config.block.network.interface or "",
            attempt=self.gang.attempt(*seat),
            cluster=config.cluster,
            vcores=role.vcores,
        )
        env = {name: str(role.vcores) for name in _THREADS} | contract.environment(role.env)
        script = role.script or config.worker.script
        command = program_command(script, config.block.dmlc.environment)
        return pb.StartRole(
            command=command,
            env=env,
            processes=1,
            restart=False,
            unset=CLEARED,
            hadoop=config.cluster == "yarn",
        )

    def open_ports(self) -> list[tuple[Seat, int]]:
        """The ports that its processes have been told of."""
        return self.scheduler.homes()

    def port_lost(self, event: i.PortLost) -> tuple[str, int] | None:
        """Whose node has to start again, as a port is lost; of that of all, with all others."""
        seat = Seat(event.role, event.rank)
        # A server's death lets all start again, whatever the policy; there is one to the very end.
        return next(iter(self.scheduler.hall_lost()), None) if seat == HALL else seat

    def returned(self, now: float) -> list[Action]:
        """The ApplicationMaster's process is back."""
        self._lost_words.returned = now
        return self._carry_out(self.scheduler.resumed())

    # ------------------------------------------------------------ what the nodes say

    def heard(self, event: i.NodeSaid, now: float) -> list[Action]:
        """A message of a node has come to its port."""
        seat = Seat(event.role, event.rank)
        return self._carry_out(self.scheduler.heard(seat, event.sender, event.message, now))

    def round(self, group: int) -> Round | None:
        """What a barrier of a group is, if it leaves no trace; asked in any thread."""
        return self.scheduler.round(group)

    def _carry_out(self, effects: Iterable[Effect]) -> list[Action]:
        out: list[Action] = []
        for effect in effects:
            if isinstance(effect, Send):
                out.append(SendNode(*effect.seat, *effect.to, effect.message))
            else:
                out += self._logged(effect)
        return out

    def _logged(self, effect: Joined | Complete | Passed | Refused) -> list[Action]:
        if isinstance(effect, Joined):
            again = " again" if effect.again else ""
            text = f"{effect.seat} has joined{again}, at {effect.address}"
            return [Log("joined", text, *effect.seat)]
        if isinstance(effect, Complete):
            return [Log("complete", "all servers and workers have joined and know each other")]
        if isinstance(effect, Refused):
            return [Log("refused", effect.text, *(effect.seat or ()))]
        return self._passed(effect)

    def _passed(self, effect: Passed) -> list[Action]:
        if effect.group != EVERYONE:
            return []  # some programs have one for every batch
        what = "the start" if effect.nth == 1 else "the end"
        return [Log("barrier", f"all have passed the barrier of {what}")]

    # ------------------------------------------------------------ ends

    def work(self, role: str, rank: int) -> Work:
        """What the end of a program means, if it is an end with exit status 0."""
        seat = Seat(role, rank)
        if self._done_since is not None:
            return Work(needless=True)
        return Work(by_itself=True, complaint=self._complaint(seat))

    def _complaint(self, seat: Seat) -> Ending | None:
        if not self.scheduler.has_joined(seat):
            text = (
                "its program ended with exit status 0 without having joined the others: every "
                "worker has to make its KVStore (ps-lite: call Start), and so does every server"
            )
            return Ending(Cause.NOT_JOINED, text, certain=True)
        if seat.role == "server" and not self.scheduler.may_leave(seat):
            return Ending(Cause.EXIT, "it ended with exit status 0 while the workers need it")
        return None

    def ended_well(self, role: str, rank: int, now: float) -> list[Action]:
        """A program is through: whoever waits for it at a barrier goes on."""
        seat = Seat(role, rank)
        out = self._carry_out(self.scheduler.ended(seat, well=True, now=now))
        if self._members.all_finished("worker") and self._done_since is None:
            self._done_since = now
            out.append(Log("end_of_work", "all workers have ended well"))
        out.append(ClosePort(*seat))
        all_through = self._done_since is not None and self._members.all_finished("server")
        return [*out, ClosePort(*HALL)] if all_through else out

    def died(self, died: Died, now: float) -> tuple[list[Action], list[Decision]]:
        """A program, or its container, is gone."""
        seat = Seat(died.role, died.rank)
        alone = not self.scheduler.complete or (
            self._policy == "worker" and died.role == "worker" and died.rank > 0
        )
        self.scheduler.ended(seat, well=False, now=now)
        all_again, decisions, failures = self.gang.died(died, now, alone=alone)
        self.failures += failures
        if not all_again:
            return [ClosePort(*seat)], decisions
        self.scheduler, self._done_since = self._new_scheduler(), None
        return [ClosePort(*each) for each in (HALL, *self.scheduler.seats)], decisions

    def over(self, now: float) -> bool:
        """Whether everything has ended, or has had its time."""
        if self._done_since is None:
            return False
        late = now - self._done_since > SERVERS_END_S
        return late or self._members.all_finished("server")

    def overdue(self, now: float) -> list[Expiry]:
        """Who has not come to a barrier within the limit."""
        limit = self.config.block.dmlc.barrier_limit
        late = [w.missing[0] for w in self.scheduler.waiting() if now - w.since > limit]
        unheard = self._unheard(now)
        return [
            Expiry(kind, *seat, self._members.place_of(*seat).container)
            for kind, seats in (("barrier", late), ("unheard", unheard))
            for seat in dict.fromkeys(seats)
        ]

    def _unheard(self, now: float) -> list[Seat]:
        """Whose word was lost with an earlier process of the ApplicationMaster."""
        awaited = [(w.missing[0], w.since) for w in self.scheduler.waiting()]
        awaited += [(seat, 0.0) for seat in self.scheduler.unregistered()]
        at_work = [] if awaited or not self.scheduler.complete else self.scheduler.at_work("worker")
        cpu_of = self._members.cpu_of
        return self._lost_words.of(awaited, at_work, lambda seat: cpu_of(*seat), now)

    # ------------------------------------------------------------ what it knows

    def has_joined(self, role: str, rank: int) -> bool:
        """Whether a rank's node has registered."""
        return self.scheduler.has_joined(Seat(role, rank))

    @property
    def state(self) -> str:
        """In the words of `yarnps.status.STATES`."""
        if self._done_since is not None:
            return "FINISHING"
        return "TRAINING" if self.scheduler.complete else "STARTING"

    def waits(self, now: float) -> list[str]:
        """Barriers that some have been waiting at for long."""
        return [_in_words(w, now) for w in self.scheduler.waiting() if now - w.since > LONG_WAIT_S]

    def snapshot(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "gang": self.gang.snapshot(),
            "scheduler": self.scheduler.snapshot(),
            "done_since": self._done_since,
            "returned": self._lost_words.returned,
        }

    def restore(self, data: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self.gang.restore(data["gang"])
        self.scheduler.restore(data["scheduler"])
        self._done_since = data["done_since"]
        self._lost_words.returned = data["returned"]


def _in_words(waiting: Waiting, now: float) -> str:
    group = _GROUPS.get(waiting.group, f"group {waiting.group}")
    missing = ", ".join(str(seat) for seat in waiting.missing[:5])
    more = f" and {len(waiting.missing) - 5} more" if len(waiting.missing) > 5 else ""
    return (
        f"a barrier of {group} has been waiting for {now - waiting.since:.0f} s, "
        f"for {missing}{more}"
    )
