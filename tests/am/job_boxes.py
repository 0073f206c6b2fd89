"""The containers of a job in miniature, each with its agent and a stream that may break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from job_roles import Role, Server, Worker

from yarnps.agent._backlog import Backlog
from yarnps.am import inputs as i
from yarnps.am.actions import Refuse
from yarnps.am.clusters.base import ContainerInfo
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.identity import incarnation

if TYPE_CHECKING:
    from job_world import World

RECONNECT_S = 1.0


class Box:
    """A container with its agent."""

    def __init__(self, world: World, name: str, role: str, env: dict[str, str]) -> None:
        self.world, self.id, self.role = world, name, role
        self.rank, self.nonce = int(env["YARNPS_RANK"]), env["YARNPS_NONCE"]
        self.node = f"n{world.random.randrange(3)}"
        self.state, self.message = "running", ""
        self.running: dict[int, Role] = {}
        self.plan: pb.StartRole | None = None
        self.starts = 0
        self.backlog = Backlog()
        self.connection = 0
        self.down_at = self.up_at = 0.0
        self.hellos: dict[int, pb.FromRole] = {}
        world.later(world.uniform(0.3, 2.0), self.connect)

    def info(self) -> ContainerInfo:
        return ContainerInfo(
            self.id, self.role, self.state, node=self.node, exit_message=self.message
        )

    # ------------------------------------------------------------ the stream

    def connect(self) -> None:
        if self.state == "ended" or self.connection:
            return
        if not self.world.am_alive:
            self.world.later(RECONNECT_S, self.connect)
            return
        self.connection = next(self.world.numbers)
        running = [role.who for role in self.running.values()]
        reg = pb.Register(
            container=self.id, role=self.role, rank=self.rank, nonce=self.nonce, host=self.node,
            address="127.0.0.1", version="1", running=running,
        )  # fmt: skip
        for action in self.world.feed(i.AgentCame(reg)):
            if isinstance(action, Refuse):
                self.connection = 0
                self.end("Container exited with a non-zero exit code 70.")

    def drop(self) -> None:
        """The stream breaks; what is on its way is lost."""
        if self.connection:
            self.connection = 0
            self.world.later(self.world.uniform(0.5, 4.0), self.connect)

    def to_am(self, message: pb.FromAgent) -> None:
        self.backlog.add(message, sent=bool(self.connection), now=self.world.now)
        self.send(message)

    def send(self, message: pb.FromAgent) -> None:
        connection = self.connection
        if not connection:
            return
        self.up_at = max(self.up_at, self.world.now + self.world.uniform(0.0, 0.1))

        def arrive() -> None:
            if self.connection == connection and self.world.am_alive:
                self.world.am_hears(self, message)

        self.world.at(self.up_at, arrive)

    def from_am(self, message: pb.ToAgent) -> None:
        connection = self.connection
        self.down_at = max(self.down_at, self.world.now + self.world.uniform(0.0, 0.1))

        def arrive() -> None:
            if self.connection == connection and self.state == "running":
                self.obey(message)

        self.world.at(self.down_at, arrive)

    # ------------------------------------------------------------ the agent

    def obey(self, message: pb.ToAgent) -> None:
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            for said in self.backlog.take(self.world.now):
                self.send(said)
            for role in self.running.values():
                if role.begun:
                    role.hear(pb.ToRole(am_back=pb.AmBack()))
                elif role.who.id in self.hellos:
                    self.role_says(role, self.hellos[role.who.id])
        elif kind == "start":
            self.plan = message.start
            if not self.running:
                self.start()
        elif kind == "exit":
            self.end("")
        elif kind == "role":
            told = self.running.get(message.role.process)
            if told is None:
                return
            if not told.begun:
                meant = message.role.message.begin.incarnation.id in (0, told.who.id)
                if message.role.message.WhichOneof("kind") != "begin" or not meant:
                    return
            told.hear(message.role.message)

    def start(self) -> None:
        if self.state == "ended":
            return
        who = incarnation("app", self.id, 0, self.starts)
        self.starts += 1
        kind = Server if self.role == "server" else Worker
        role = self.running[0] = self.world.processes[who.id] = kind(self, who)
        self.to_am(pb.FromAgent(role_started=pb.RoleStarted(incarnation=role.who, pid=1)))

    def role_says(self, role: Role, message: pb.FromRole) -> None:
        says = pb.FromAgent(role=pb.RoleSays(incarnation=role.who, message=message))
        if message.HasField("hello") and not role.begun:
            self.hellos[role.who.id] = message
            self.send(says)
        else:
            self.to_am(says)

    def exited(self, role: Role, code: int) -> None:
        """The process has ended; the agent starts it again."""
        if not role.alive or self.state == "ended":
            return
        role.alive = False
        del self.running[0]
        again = code != 0 and self.starts % 4 != 0
        exited = pb.RoleExited(incarnation=role.who, exit_code=code, restarting=again)
        self.to_am(pb.FromAgent(role_exited=exited))
        if again:
            self.start()

    def end(self, message: str) -> None:
        """The container is gone with all in it."""
        if self.state == "ended":
            return
        self.state, self.message, self.connection = "ended", message, 0
        for role in self.running.values():
            role.alive = False
