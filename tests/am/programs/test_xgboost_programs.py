"""Workers of XGBoost, their tracker, and what becomes of both. No process, no clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask, GiveBack, Log, StartTracker, StopTracker, Tell
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.config import Config
from yarnps.am.durable import durable
from yarnps.am.job import JobMachine
from yarnps.am.programs.xgboost import GIVEN_UP_S
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.identity import incarnation
from yarnps.spec import load
from yarnps.status import Outcome

NO_PACKAGE = "XGBoost cannot be imported"


class World:
    """A job of two workers, whose containers come and whose processes start at once."""

    def __init__(self, folder: Path, **worker: Any) -> None:
        size = {"memory": "1 GiB", "vcores": 2}
        role = {"instances": 2, "resources": size, "script": "python train.py", **worker}
        path = folder / "job.yaml"
        document = {"name": "x", "services": {"worker": role}, "yarnps": {"runtime": "xgboost"}}
        path.write_text(yaml.safe_dump(document))
        self.config = Config(load(path, site=[]), "app", 1, "/job", "", b"secret", "1")
        self.now = 100.0
        self.machine = JobMachine(self.config, self.now)
        self.journal: list[Any] = []
        self.done: list[Action] = []
        self.env: dict[int, dict[str, str]] = {}  # what each worker's newest process was given
        self.starts: dict[str, int] = {}
        self.where: dict[int, str] = {}
        self.feed(i.Started(nodes=2))

    def feed(self, event: i.Input) -> None:
        actions = self.machine.handle(event, self.now)
        if durable(event, actions):
            self.journal.append(json.loads(json.dumps([self.now, i.encode(event)])))
        self.done += actions
        for action in actions:
            if isinstance(action, Ask):
                self.place(action)
            elif isinstance(action, Tell):
                self.obey(action.container, action.message)
            elif isinstance(action, GiveBack):
                ended = ContainerInfo(action.container, "worker", "ended", "n1")
                self.feed(i.Changed(ended))

    def place(self, ask: Ask) -> None:
        container = f"worker_{len(self.starts)}"
        self.starts[container] = 0
        self.feed(i.Placed(ask.nonce, container))
        self.feed(i.Changed(ContainerInfo(container, "worker", "running", "n1")))
        rank = int(ask.env["YARNPS_RANK"])
        self.where[rank] = container
        register = pb.Register(
            container=container,
            role="worker",
            rank=rank,
            nonce=ask.nonce,
            host="n1",
            address="10.0.0.2",
            am_host="10.0.0.1",
            version="1",
        )
        self.feed(i.AgentCame(register))

    def obey(self, container: str, message: pb.ToAgent) -> None:
        rank = next(r for r, c in self.where.items() if c == container)
        if message.HasField("start"):
            self.env[rank] = dict(message.start.env)
            self.starts[container] += 1
            started = pb.RoleStarted(incarnation=self.who(rank))
            self.feed(i.AgentSaid(container, pb.FromAgent(role_started=started)))
        elif message.HasField("stop"):
            self.exit(rank, -15, ordered=True)

    def who(self, rank: int) -> pb.Incarnation:
        container = self.where[rank]
        return incarnation("app", container, 0, self.starts[container] - 1)

    def exit(self, rank: int, code: int, *, ordered: bool = False) -> None:
        exited = pb.RoleExited(incarnation=self.who(rank), exit_code=code, ordered=ordered)
        self.feed(i.AgentSaid(self.where[rank], pb.FromAgent(role_exited=exited)))

    def tracker(self, number: int) -> None:
        """The tracker of a round is up."""
        assert self.of(StartTracker)[-1].round == number
        self.feed(i.TrackerUp(number, 7000 + number, 42, 4200))

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for container in self.where.values():
            self.machine.members.heard(container, self.now)
        due = self.machine.members.due(self.now)
        for expiry in due + self.machine.overdue(self.now, {}):
            self.feed(i.Expired(expiry))
        self.feed(i.Ticked())

    def of(self, kind: type[Any]) -> list[Any]:
        return [action for action in self.done if isinstance(action, kind)]

    def said(self, kind: str) -> list[str]:
        return [log.text for log in self.of(Log) if log.kind == kind]

    @property
    def outcome(self) -> Outcome:
        assert self.machine.outcome is not None, [log.text for log in self.of(Log)]
        return self.machine.outcome


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_workers_start_when_there_is_a_tracker(world: World) -> None:
    (order,) = world.of(StartTracker)
    assert (order.workers, order.host, order.limit_s) == (2, "10.0.0.1", 600.0)
    assert world.env == {}
    world.tracker(0)
    assert sorted(world.env) == [0, 1]
    for rank, env in world.env.items():
        assert env["DMLC_TASK_ID"] == str(rank)
        assert (env["DMLC_TRACKER_URI"], env["DMLC_TRACKER_PORT"]) == ("10.0.0.1", "7000")
        assert (env["OMP_NUM_THREADS"], env["DMLC_NUM_ATTEMPT"]) == ("2", "0")
    assert world.machine.programs is not None and world.machine.programs.state == "TRAINING"


def test_the_job_ends_when_all_programs_have(world: World) -> None:
    world.tracker(0)
    world.exit(0, 0)
    world.feed(i.TrackerDown(0))
    assert world.machine.outcome is None
    world.exit(1, 0)
    assert world.outcome.state == "SUCCEEDED"
    assert world.of(StopTracker) == [StopTracker(0)]


def test_a_death_starts_all_again_with_a_tracker_of_their_own(world: World) -> None:
    world.tracker(0)
    world.exit(0, 0)  # even one that is through
    world.exit(1, -9)
    assert StopTracker(0) in world.of(StopTracker)
    world.tick(5.0)
    world.feed(i.TrackerDown(0, "all went wrong"))  # of a round that is over
    world.tracker(1)
    assert {env["DMLC_NUM_ATTEMPT"] for env in world.env.values()} == {"1"}
    assert {env["DMLC_TRACKER_PORT"] for env in world.env.values()} == {"7001"}
    for rank in (0, 1):
        world.exit(rank, 0)
    assert world.outcome.state == "SUCCEEDED"


def test_deaths_without_end_end_the_job(tmp_path: Path) -> None:
    world = World(tmp_path, max_restarts=1)
    for number in range(2):
        world.tracker(number)
        world.exit(1, 7)
        world.tick(5.0)
    assert world.outcome.state == "FAILED"
    assert "exit status 7" in world.outcome.cause


def test_without_xgboost_nothing_is_tried_again(world: World) -> None:
    world.feed(i.TrackerDown(0, NO_PACKAGE, no_package=True))
    assert (world.outcome.state, world.outcome.cause_code) == ("FAILED", "environment")
    assert NO_PACKAGE in world.outcome.cause


def test_a_tracker_that_gives_up_waits_for_the_reason(world: World) -> None:
    world.tracker(0)
    world.feed(i.TrackerDown(0, "a worker is gone"))
    world.tick(GIVEN_UP_S - 1)
    assert len(world.of(StartTracker)) == 1
    world.exit(1, -9)  # here it is
    assert len(world.said("death")) == 1
    world.tick(5.0)
    world.tracker(1)
    world.tick(GIVEN_UP_S + 1)
    assert len(world.said("death")) == 1


def test_a_worker_that_goes_on_without_its_tracker_is_started_again(world: World) -> None:
    world.tracker(0)
    world.exit(0, 0)  # it never came to the tracker, and the other waits there
    world.feed(i.TrackerDown(0, "Poll timeout"))
    world.tick(GIVEN_UP_S)
    (death,) = world.said("death")
    assert death.startswith("worker 1 died") and "tracker has given its workers up" in death
    world.tick(5.0)
    world.tracker(1)
    assert {env["DMLC_NUM_ATTEMPT"] for env in world.env.values()} == {"1"}


def test_a_restarted_application_master_knows_its_tracker(world: World) -> None:
    world.tracker(0)
    world.exit(0, 0)
    again = JobMachine(world.config, 100.0)
    for now, event in world.journal:
        again.handle(i.decode(event), now)
    assert again.snapshot() == world.machine.snapshot()
    restored = JobMachine(world.config, world.now)
    restored.restore(json.loads(json.dumps(again.snapshot())))
    assert restored.snapshot() == again.snapshot()


def test_a_tracker_that_was_ordered_and_not_heard_of_is_ordered_again(world: World) -> None:
    infos = tuple(ContainerInfo(c, "worker", "running", "n1") for c in world.starts)
    world.feed(i.Reconciled(infos))
    assert len(world.of(StartTracker)) == 2
    world.tracker(0)
    world.feed(i.Reconciled(infos))
    assert len(world.of(StartTracker)) == 2
