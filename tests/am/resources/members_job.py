"""A job's `Members`, with short words for its inputs."""

from __future__ import annotations

from typing import TypeVar

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.decisions import (
    Decision,
    Limits,
    Registration,
    Request,
    RolePlan,
    Settings,
    Work,
)
from yarnps.am.resources.members import Members
from yarnps.protocol import control_pb2 as pb

GIB = 1 << 30
SKEIN = "Container failed during execution, see logs for more information."
WORKER = RolePlan(1, memory=GIB)

D = TypeVar("D")


def only(kind: type[D], decisions: list[Decision]) -> D:
    """The one decision of a kind."""
    found = [d for d in decisions if isinstance(d, kind)]
    assert len(found) == 1, decisions
    return found[0]


def kinds(decisions: list[Decision]) -> list[str]:
    return [type(d).__name__ for d in decisions]


class Job:
    """A `Members` with short words for its inputs."""

    def __init__(
        self,
        plans: dict[str, RolePlan] | None = None,
        limits: Limits | None = None,
        nodes: int = 2,
    ) -> None:
        settings = Settings("1.0", b"secret", limits or Limits())
        self.members = Members(plans or {"worker": WORKER}, settings)
        self.now = 0.0
        self.first = self.members.start(self.now, nodes)
        self.requests = [r for r in self.first if isinstance(r, Request)]

    def place(self, request: Request, container: str) -> list[Decision]:
        return self.members.request_placed(request.nonce, container, self.now)

    def grant(self, container: str, node: str = "n1", role: str = "worker") -> list[Decision]:
        info = ContainerInfo(container, role, "running", node)
        return self.members.container_changed(info, self.now)

    def end(self, container: str, message: str = SKEIN, tail: str = "") -> list[Decision]:
        info = ContainerInfo(container, "worker", "ended", "n1", exit_message=message)
        peak = self.members.peak_of(container)
        return self.members.container_changed(info, self.now, peak=peak, tail=tail)

    def register(
        self, request: Request, container: str, running: tuple[pb.Incarnation, ...] = ()
    ) -> Registration:
        reg = pb.Register(
            container=container,
            role=request.role,
            rank=request.rank,
            nonce=request.nonce,
            host="n1",
            address="10.0.0.1",
            version="1.0",
            running=running,
        )
        return self.members.registered(reg, self.now)

    def started(self, container: str, start: int = 0, process: int = 0) -> list[Decision]:
        started = pb.RoleStarted(incarnation=incarnation(container, start, process))
        return self.members.role_started(container, started, self.now)

    def hello(self, container: str, process: int = 0) -> None:
        self.members.said_hello(container, process)

    def exits(
        self,
        container: str,
        code: int,
        start: int = 0,
        *,
        restarting: bool = False,
        tail: str = "",
        work: Work | None = None,
    ) -> list[Decision]:
        exited = pb.RoleExited(
            incarnation=incarnation(container, start),
            exit_code=code,
            restarting=restarting,
            output_tail=tail,
        )
        peak = self.members.peak_of(container)
        return self.members.role_exited(container, exited, self.now, work=work, peak=peak)

    def run(self, request: Request, container: str, node: str = "n1") -> None:
        """Bring a rank up."""
        self.place(request, container)
        self.grant(container, node, request.role)
        assert self.register(request, container).accepted
        for process in range(self.members.plans[request.role].processes):
            self.started(container, process=process)
            self.hello(container, process)

    def wait(self, seconds: int, responsive: bool = True) -> list[Decision]:
        """Let time pass, a tick a second."""
        out: list[Decision] = []
        for _ in range(seconds):
            self.now += 1.0
            for expiry in self.members.due(self.now, responsive):
                out += self.members.expire(expiry, self.now)
        return out

    def state(self, rank: int = 0) -> str:
        return self.members.processes(self.now)[rank].state

    def note(self, rank: int = 0) -> str:
        return self.members.processes(self.now)[rank].note


def incarnation(container: str, start: int = 0, process: int = 0) -> pb.Incarnation:
    number = int.from_bytes(f"{container}/{process}/{start}".encode()[-7:], "big")
    return pb.Incarnation(container=container, start=start, process=process, id=number)


def running(plan: RolePlan = WORKER, limits: Limits | None = None) -> Job:
    """One worker that is up in container ``c``."""
    job = Job({"worker": plan}, limits)
    job.run(job.requests[0], "c")
    assert job.state() == "running"
    return job
