"""A pretend cluster with agents, driven by a seeded generator, for `Members` under fire."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import (
    Decision,
    Died,
    GaveUp,
    Incarnation,
    Registration,
    Release,
    Request,
    RolePlan,
    Settings,
    StartProcess,
    Up,
)
from yarnps.am.resources.members import Members
from yarnps.protocol import control_pb2 as pb

NODES = [f"n{i}" for i in range(7)]
SETTINGS = Settings("1", b"seed")
ENDS = (
    "Container preempted by scheduler",
    "Container released on a *lost* node",
    "Container failed during execution, see logs for more information.",
    "1.2 GB of 1 GB physical memory used",
    "Container exited with a non-zero exit code 139.",
)


@dataclass
class Box:
    """A container with its agent and processes."""

    id: str
    role: str
    rank: int
    nonce: str
    node: str = ""
    state: str = "requested"
    message: str = ""
    registers_at: float | None = None
    connected: bool = False
    frozen: bool = False  # its node hangs: nothing comes from it
    restarts: int = 0
    running: dict[int, pb.Incarnation] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)

    def info(self) -> ContainerInfo:
        state: Any = self.state
        return ContainerInfo(self.id, self.role, state, self.node, exit_message=self.message)


class World:
    """Everything around one `Members`; checks its promises after every input."""

    def __init__(self, seed: int, max_restarts: int) -> None:
        self.random = random.Random(seed)
        self.plans = {
            "server": RolePlan(2, processes=2, max_restarts=-1),
            "worker": RolePlan(4, max_restarts=max_restarts, memory=1 << 30),
        }
        self.now = 1000.0
        self.members = Members(self.plans, SETTINGS)
        self.journal: list[tuple[str, tuple[Any, ...]]] = []
        self.decided: list[Decision] = []
        self.boxes: dict[str, Box] = {}
        self.todo: list[tuple[float, str, Any]] = []  # what is on its way, and when it arrives
        self.live: dict[Incarnation, tuple[str, int]] = {}
        self.told: dict[tuple[str, int], str] = {}
        self.released: set[str] = set()
        self.gave_up: dict[tuple[str, int], GaveUp] = {}
        self.charged: dict[tuple[str, int], int] = {}
        self.am_restarts = 0
        self.feed("start", self.now, len(NODES))

    # ---------------------------------------------------------------- inputs and decisions

    def feed(self, name: str, *args: Any) -> Any:
        """One durable input."""
        self.journal.append((name, args))
        result = getattr(self.members, name)(*args)
        decisions = decisions_of(result)
        for decision in decisions:
            self.decided.append(decision)
            self.carry_out(decision)
        self.check()
        return result

    def later(self, seconds: float, kind: str, what: Any) -> None:
        self.todo.append((self.now + seconds, kind, what))

    def carry_out(self, decision: Decision) -> None:
        match decision:
            case Request():
                self.later(self.random.uniform(0, 4), "place", decision)
            case Release():
                self.released.add(decision.container)
                self.later(self.random.uniform(0, 5), "end", decision.container)
            case StartProcess():
                who = (decision.role, decision.rank)
                before = self.told.get(who)
                if before and before != decision.container:
                    ended = before not in self.boxes or self.boxes[before].state == "ended"
                    assert before in self.released or ended, f"two containers run for {who}"
                assert decision.container not in self.released
                self.told[who] = decision.container
                self.later(self.random.uniform(0, 1), "start", decision.container)
            case Up():
                assert decision.incarnation not in self.live, "up twice"
                self.live[decision.incarnation] = (decision.role, decision.rank)
            case Died():
                who = (decision.role, decision.rank)
                self.charged[who] = self.charged.get(who, 0) + decision.charged
                for incarnation in decision.incarnations:
                    assert self.live.pop(incarnation) == who, "died without having been up"
            case GaveUp():
                who = (decision.role, decision.rank)
                assert who not in self.gave_up, "gave up twice"
                self.gave_up[who] = decision

    def check(self) -> None:
        ranks = self.members.snapshot()["ranks"]
        alive: dict[str, set[Incarnation]] = {role: set() for role in self.plans}
        for rank in ranks:
            alive[rank["role"]] |= {
                Incarnation(rank["container"], process, state["start"], state["id"])
                for process, state in rank["processes"].items()
                if state["alive"]
            }
        for role, plan in self.plans.items():
            assert {i for i, who in self.live.items() if who[0] == role} == alive[role]
            for number in range(plan.instances):
                spent = self.charged.get((role, number), 0)
                if plan.max_restarts >= 0:
                    assert spent <= plan.max_restarts + 1
                    assert spent <= plan.max_restarts or (role, number) in self.gave_up
        for rank in ranks:
            # Never a hang: through, up, or with a limit by which something happens.
            waits = rank["up_by"] is not None or rank["phase"] == "running"
            assert waits or rank["phase"] in ("finished", "failed", "stopped"), rank

    # ---------------------------------------------------------------- time

    def step(self, chaos: bool) -> None:
        self.now += 1.0
        arrived = [item for item in self.todo if item[0] <= self.now]
        self.todo = [item for item in self.todo if item[0] > self.now]
        for _, kind, what in arrived:
            getattr(self, f"on_{kind}")(what)
        if chaos:
            self.harm()
        for box in list(self.boxes.values()):
            if box.state == "running" and not box.frozen:
                self.live_on(box)
        for expiry in self.members.due(self.now):
            self.feed("expire", expiry, self.now)

    def on_place(self, request: Request) -> None:
        if self.random.random() < 0.05:
            self.feed("request_failed", request.nonce, "queue is full", self.now)
            return
        box = Box(f"{request.role}_{len(self.boxes)}", request.role, request.rank, request.nonce)
        self.boxes[box.id] = box
        self.later(self.random.uniform(1, 8), "grant", box.id)
        if self.random.random() < 0.3:  # the cluster's list is faster than its answer
            self.feed("container_changed", box.info(), self.now)
        self.feed("request_placed", request.nonce, box.id, self.now)

    def on_grant(self, container: str) -> None:
        box = self.boxes[container]
        if box.state != "requested":
            return
        box.state, box.node = "running", self.random.choice(NODES)
        box.registers_at = self.now + self.random.uniform(0, 15)
        if self.random.random() < 0.04:
            box.registers_at = None  # its agent never comes up
        self.feed("container_changed", box.info(), self.now)

    def on_end(self, container: str, message: str = "Killed by user request.") -> None:
        box = self.boxes.get(container)
        if box is None or box.state == "ended":
            return
        box.state, box.message, box.connected = "ended", message, False
        box.running = {}
        self.feed("container_changed", box.info(), self.now)

    def on_start(self, container: str) -> None:
        box = self.boxes[container]
        if box.state != "running" or not box.connected or box.frozen:
            return
        for process in range(self.plans[box.role].processes):
            if process not in box.running:
                self.start_process(box, process)

    def start_process(self, box: Box, process: int) -> None:
        start = box.starts.get(process, -1) + 1
        box.starts[process] = start
        identity = zlib.crc32(f"{box.id}/{process}/{start}".encode())
        incarnation = pb.Incarnation(container=box.id, process=process, start=start, id=identity)
        box.running[process] = incarnation
        if box.connected:
            self.feed("role_started", box.id, pb.RoleStarted(incarnation=incarnation), self.now)
            self.later(1, "hello", (box.id, incarnation))

    def on_hello(self, what: tuple[str, pb.Incarnation]) -> None:
        box = self.boxes[what[0]]
        if box.connected and box.running.get(what[1].process) == what[1]:
            self.feed("said_hello", box.id, what[1].process)

    def on_restart(self, what: tuple[str, int]) -> None:
        box = self.boxes[what[0]]
        if box.state == "running" and what[1] not in box.running:
            self.start_process(box, what[1])

    def live_on(self, box: Box) -> None:
        """An agent registers, or comes back, and sends its heartbeat."""
        if box.registers_at is not None and self.now >= box.registers_at and not box.connected:
            reg = pb.Register(
                container=box.id,
                role=box.role,
                rank=box.rank,
                nonce=box.nonce,
                host=box.node,
                version="1",
                running=box.running.values(),
            )
            box.connected = True
            answer = self.feed("registered", reg, self.now)
            if not answer.accepted:
                assert box.id in self.released, answer.reason
                self.on_end(box.id, "Container exited with a non-zero exit code 1.")
                return
            for incarnation in box.running.values():
                self.later(1, "hello", (box.id, incarnation))
        if box.connected:
            self.members.heard(box.id, self.now)

    # ---------------------------------------------------------------- harm

    def harm(self) -> None:
        if self.random.random() > 0.08:
            return
        boxes = [box for box in self.boxes.values() if box.state == "running"]
        if not boxes:
            return
        box = self.random.choice(boxes)
        match self.random.choice(("process", "process", "container", "stream", "freeze", "am")):
            case "process":
                self.kill_process(box)
            case "container":
                self.on_end(box.id, self.random.choice(ENDS))
            case "stream":
                self.break_stream(box)
            case "freeze":
                box.frozen = True
                self.members.agent_gone(box.id, self.now)
                box.connected = False
                self.later(self.random.uniform(20, 150), "thaw", box.id)
            case "am":
                self.restart_am()

    def kill_process(self, box: Box) -> None:
        if not box.running:
            return
        process, incarnation = self.random.choice(sorted(box.running.items()))
        del box.running[process]
        box.restarts += 1
        restarting = box.restarts % 4 != 0
        exited = pb.RoleExited(incarnation=incarnation, exit_code=-9, restarting=restarting)
        if restarting:
            self.later(self.random.uniform(0, 2), "restart", (box.id, process))
        if box.connected:
            for _ in range(self.random.choice((1, 1, 2))):  # an agent may say it again
                self.feed("role_exited", box.id, exited, self.now)

    def break_stream(self, box: Box) -> None:
        if box.connected:
            box.connected = False
            box.registers_at = self.now + self.random.uniform(1, 90)
            self.members.agent_gone(box.id, self.now)

    def on_thaw(self, container: str) -> None:
        box = self.boxes[container]
        box.frozen = False
        if self.random.random() < 0.5:
            self.on_end(container, "Container released on a *lost* node")

    def restart_am(self) -> None:
        """The ApplicationMaster's process dies with all that it had not carried out."""
        self.am_restarts += 1
        self.todo = [i for i in self.todo if i[1] not in ("place", "end", "start", "hello")]
        self.members, again = self.replayed(), self.members.snapshot()
        assert self.members.snapshot() == again
        for box in self.boxes.values():
            if box.state == "running" and box.connected:
                box.connected, box.registers_at = False, self.now + self.random.uniform(0, 6)
        infos = [box.info() for box in self.boxes.values()]
        self.feed("reconcile", infos, self.now)

    def replayed(self) -> Members:
        """A second `Members` that was fed the journal, half of it through a snapshot."""
        fresh = Members(self.plans, SETTINGS)
        decided: list[Decision] = []
        for index, (name, args) in enumerate(self.journal):
            if index == len(self.journal) // 2:
                text = json.dumps(fresh.snapshot())
                fresh = Members(self.plans, SETTINGS)
                fresh.restore(json.loads(text))
            result = getattr(fresh, name)(*args)
            decided += decisions_of(result)
        assert decided == self.decided
        return fresh


def decisions_of(result: Any) -> Sequence[Decision]:
    """What an input has led to; some lead to nothing at once."""
    return result.decisions if isinstance(result, Registration) else result or ()
