"""Unmodified distributed XGBoost: the tracker runs beside the ApplicationMaster. No I/O, no clock.

All starts of the workers between two deaths are a round, and each round has a tracker of its own:
XGBoost's tracker does not take back a worker that its group has lost.
"""

from __future__ import annotations

from typing import Any

from yarnps._threads import THREAD_COUNTS
from yarnps.am import inputs as i
from yarnps.am.actions import Action, Log, StartTracker, StopTracker, Tell
from yarnps.am.config import Config
from yarnps.am.programs.base import Programs
from yarnps.am.programs.gang import Gang
from yarnps.am.resources.decisions import Decision, Died, Expiry, StartProcess, Work
from yarnps.am.resources.members import Members
from yarnps.am.resources.outcome import Failure
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb
from yarnps.pslite.contract import CLEARED
from yarnps.rabit.contract import environment

ROLE = "worker"
# A tracker gives its workers up because one of them has died, mostly: that death is on its way, and
# is the better reason.
GIVEN_UP_S = 15.0


class Xgboost(Programs):
    """The workers of one job, and the tracker that they find one another by.

    `failures` is the job's list of what may end it.
    """

    def __init__(self, config: Config, members: Members, failures: list[Failure]) -> None:
        self.config = config
        self.failures = failures
        self.gang = Gang(members, "gang", config.attempt)
        self._members = members
        self._round = 0
        self._asked = False  # for this round's tracker
        self._tracker: i.TrackerUp | None = None
        self._given_up: float | None = None  # since when the tracker has
        self._waiting: list[int] = []  # ranks whose container is there
        self._told: set[int] = set()  # ranks that have been started in this round
        self._done = False

    # ------------------------------------------------------------ starts

    def start(self, order: StartProcess) -> list[Action]:
        """A worker is started as soon as there is a tracker."""
        self._waiting.append(order.rank)
        if self._tracker is not None:
            return self._start_waiting()
        if self._asked:
            return []
        self._asked = True
        return [self._order()]

    def _order(self) -> StartTracker:
        host = self._members.place_of(ROLE, self._waiting[0]).am_host
        limit_s = self.config.block.start_timeout
        return StartTracker(self._round, self.config.worker.instances, host, limit_s)

    def returned(self, now: float) -> list[Action]:
        """A tracker that was ordered and not heard of is lost; one that was has been found."""
        lost = self._asked and self._tracker is None and self._waiting
        return [self._order()] if lost else []

    def tracker_up(self, event: i.TrackerUp, now: float) -> list[Action]:
        """The tracker is there: the workers can be told of it."""
        if event.round != self._round:
            return [StopTracker(event.round)]
        self._tracker = event
        text = f"XGBoost's tracker listens on port {event.port}"
        return [Log("tracker", text), *self._start_waiting()]

    def tracker_down(self, event: i.TrackerDown, now: float) -> tuple[list[Action], list[Decision]]:
        """The tracker has ended: all workers have taken leave, or it is of no more use."""
        if event.round != self._round or self._done:
            return [], []
        if not event.error:
            return [Log("tracker", "all workers have taken leave of XGBoost's tracker")], []
        out: list[Action] = [Log("tracker", f"XGBoost's tracker has ended: {event.error}")]
        if event.no_package or self._tracker is None:
            cause = Cause.ENVIRONMENT if event.no_package else Cause.AM
            self.failures.append(Failure(cause, event.error))
        else:
            self._given_up = now
        return out, []

    def _start_waiting(self) -> list[Action]:
        ranks, self._waiting = self._waiting, []
        return [action for rank in ranks for action in self._start(rank)]

    def _start(self, rank: int) -> list[Action]:
        place = self._members.place_of(ROLE, rank)
        if not place.container:
            return []
        self._told.add(rank)
        return [Tell(place.container, pb.ToAgent(start=self._start_message(rank, place.am_host)))]

    def _start_message(self, rank: int, host: str) -> pb.StartRole:
        config, role = self.config, self.config.worker
        assert self._tracker is not None
        threads = dict.fromkeys(THREAD_COUNTS, str(role.vcores))
        contract = environment(
            rank,
            role.instances,
            host,
            self._tracker.port,
            attempt=self.gang.attempt(ROLE, rank),
            cluster=config.cluster,
            given=role.env,
        )
        return pb.StartRole(
            command=["bash", "-c", role.script],
            env={**threads, **contract},
            processes=1,
            restart=False,
            unset=CLEARED,
        )

    # ------------------------------------------------------------ ends

    def work(self, role: str, rank: int) -> Work:
        return Work(by_itself=True)

    def ended_well(self, role: str, rank: int, now: float) -> list[Action]:
        if self._done or not self._members.all_finished(ROLE):
            return []
        self._done = True
        return [Log("end_of_work", "all workers have ended well"), StopTracker(self._round)]

    def died(self, died: Died, now: float) -> tuple[list[Action], list[Decision]]:
        """A worker is gone: its group is of no more use, so all start again."""
        self._waiting = [rank for rank in self._waiting if rank != died.rank]
        alone = not self._told - {died.rank} and self._given_up is None
        all_again, decisions, failures = self.gang.died(died, now, alone=alone)
        self.failures += failures
        if not self._told:
            return [], decisions
        old, self._round = self._round, self._round + 1
        self._asked, self._tracker, self._given_up = False, None, None
        self._waiting, self._told, self._done = [], set(), False
        return [StopTracker(old)], decisions if all_again else []

    def over(self, now: float) -> bool:
        return self._done

    def overdue(self, now: float) -> list[Expiry]:
        """One of those that go on though the tracker has given them up."""
        if self._given_up is None or now - self._given_up < GIVEN_UP_S or self._done:
            return []
        left = [r for r in sorted(self._told) if not self._members.is_finished(ROLE, r)]
        return [
            Expiry("tracker", ROLE, rank, self._members.place_of(ROLE, rank).container)
            for rank in left[:1]
        ]

    # ------------------------------------------------------------ what it knows

    def has_joined(self, role: str, rank: int) -> bool:
        return True  # nobody but the tracker knows who has come to it

    @property
    def tracker(self) -> i.TrackerUp | None:
        """The tracker that the workers have been told of."""
        return self._tracker

    @property
    def state(self) -> str:
        if self._done:
            return "FINISHING"
        return "TRAINING" if len(self._told) == self.config.worker.instances else "STARTING"

    def waits(self, now: float) -> list[str]:
        return []

    def snapshot(self) -> dict[str, Any]:
        return {
            "gang": self.gang.snapshot(),
            "round": self._round,
            "asked": self._asked,
            "tracker": None if self._tracker is None else vars(self._tracker),
            "given_up": self._given_up,
            "waiting": list(self._waiting),
            "told": sorted(self._told),
            "done": self._done,
        }

    def restore(self, data: dict[str, Any]) -> None:
        self.gang.restore(data["gang"])
        self._round, self._asked = data["round"], data["asked"]
        self._tracker = None if data["tracker"] is None else i.TrackerUp(**data["tracker"])
        self._given_up, self._done = data["given_up"], data["done"]
        self._waiting, self._told = list(data["waiting"]), set(data["told"])
