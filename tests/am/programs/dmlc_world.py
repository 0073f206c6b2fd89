"""A job of ps-lite programs in miniature: containers, agents, nodes that follow ps-lite's protocol
as MXNet does, and mishaps. What the shell does with actions is done here, on a clock of its own.

Each node checks that whoever it is introduced to is of its own try: a gang that is mixed of two
tries would train wrong.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask, ClosePort, GiveBack, Log, OpenPort, SendNode, Tell
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.config import Config
from yarnps.am.durable import durable
from yarnps.am.job import JobMachine
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.identity import incarnation
from yarnps.pslite import wire_pb2 as ps
from yarnps.pslite.rounds import Rounds
from yarnps.pslite.scheduler import Round
from yarnps.pslite.wire import EVERYONE, HALL, SCHEDULER_ID, WORKER_GROUP, Address, Command, Seat
from yarnps.spec import load

TICK_S = 0.5
AM_AWAY_S = 3.0
BATCHES = 4  # that workers wait for one another after
HOST = "10.0.0.2"


def config(folder: Path, *, workers: int = 3, servers: int = 2, **block: Any) -> Config:
    size = {"memory": "1 GiB", "vcores": 1}
    document = {
        "name": "simulated",
        "services": {
            "server": {"instances": servers, "resources": size},
            "worker": {"instances": workers, "resources": size, "script": "python train.py"},
        },
        "yarnps": {"runtime": "dmlc", **block},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return Config(load(path, site=[]), "app", 1, "/job", "", b"secret", "1")


class Node:
    """A process that runs a ps-lite program."""

    def __init__(self, world: World, box: Box, order: pb.StartRole, start: int) -> None:
        self.world, self.box = world, box
        self.env = dict(order.env)
        self.seat = Seat(self.env["DMLC_ROLE"], int(self.env["DMLC_TASK_ID"]))
        self.port = int(self.env["DMLC_PS_ROOT_PORT"])
        self.try_number = world.tries
        self.address = next(world.numbers)
        self.who = incarnation("app", box.id, 0, start)
        self.alive, self.known, self.stopped, self.frozen = True, False, False, False
        self.peers: dict[int, int] = {}  # node id -> port
        self.busy = False
        self._sent = count(1)
        self._life = self._server() if self.seat.role == "server" else self._worker()
        world.nodes[self.address] = self
        world.later(world.uniform(0.1, 2.0), self.act)

    def act(self, *_: Any) -> None:
        """Go on with what the program does next."""
        if self.alive and not self.frozen:
            next(self._life, None)

    def _worker(self) -> Iterator[None]:
        yield from self._join()
        if not self.recovered:
            self.world.later(self.world.uniform(0.0, 2.0), self.act)
            yield
            yield from self._wait_at(WORKER_GROUP)  # its first key
        self.world.later(self.world.work_s(), self.act)
        self.busy = True
        yield
        self.busy = False
        for _ in range(BATCHES):
            yield from self._wait_at(WORKER_GROUP)
        if self.seat.rank == 0:
            for peer, port in self.peers.items():
                if peer % 2 == 0:  # a server
                    self.world.later(0.01, self.world.stop_server, port)
        yield from self._wait_at(EVERYONE)
        self.exit(0)

    def _server(self) -> Iterator[None]:
        yield from self._join()
        while not self.stopped:
            yield
        yield from self._wait_at(EVERYONE)
        self.exit(0)

    def _join(self) -> Iterator[None]:
        node = ps.Node(
            role={"server": 0, "worker": 1}[self.seat.role], hostname=HOST, port=self.address
        )
        control = ps.Control(cmd=Command.ADD_NODE, node=[node])
        self.say(ps.Meta(control=control, timestamp=0), b"anonymous")
        while not self.known:
            yield
        if not self.recovered:
            yield from self._wait_at(EVERYONE)

    def _wait_at(self, group: int) -> Iterator[None]:
        self.released = False
        control = ps.Control(cmd=Command.BARRIER, barrier_group=group)
        meta = ps.Meta(control=control, request=True, app_id=0, timestamp=next(self._sent))
        self.say(meta, self.seat.name)
        while not self.released:
            yield

    def say(self, meta: ps.Meta, sender: bytes) -> None:
        message = meta.SerializeToString()
        self.world.later(0.01, self.world.arrives, self.port, sender, message)

    def hear(self, message: bytes) -> None:
        if not self.alive:
            return
        meta = ps.Meta.FromString(message)
        if meta.control.cmd == Command.ADD_NODE:
            for node in meta.control.node:
                self._meet(node)
            self.known = True
        elif meta.control.cmd == Command.BARRIER:
            assert not meta.request
            self.released = True
        self.act()

    def _meet(self, node: ps.Node) -> None:
        if node.id == SCHEDULER_ID:
            listening = self.world.ports.get(node.port, HALL)
            assert listening in (self.seat, HALL), "it is sent to another node's port"
            self.port = node.port
            return
        self.peers[node.id] = node.port
        if node.port == self.address:
            assert node.id == self.seat.id
            self.recovered = node.is_recovery
        if self.world.gang:
            assert self.world.nodes[node.port].try_number == self.try_number, "two tries meet"

    def exit(self, code: int, *, ordered: bool = False) -> None:
        if self.alive:
            self.alive = False
            self.box.exited(self, code, ordered)


class Box:
    """A container and its agent; `node` is its process."""

    def __init__(self, world: World, name: str, role: str, env: dict[str, str]) -> None:
        self.world, self.id, self.role, self.env = world, name, role, env
        self.rank = int(env["YARNPS_RANK"])
        self.state, self.message = "requested", ""
        self.node: Node | None = None
        self.connected = False
        self.never = False  # the cluster does not grant it
        self.starts = count()
        self.unsent: list[pb.FromAgent] = []

    def info(self) -> ContainerInfo:
        state: Any = self.state
        return ContainerInfo(self.id, self.role, state, "n1", exit_message=self.message)

    def heartbeat(self) -> pb.Heartbeat:
        busy = self.node is not None and self.node.busy
        return pb.Heartbeat(usage=[pb.ProcessUsage(cpu_percent=90.0 if busy else 0.5)])

    def grant(self) -> None:
        if self.state == "requested" and not self.never:
            self.state = "running"
            self.world.changed(self)
            self.world.later(0.2, self.register)

    def register(self) -> None:
        if self.state != "running" or not self.world.am_alive:
            return
        running = [self.node.who] if self.node is not None and self.node.alive else []
        self.connected = True
        register = pb.Register(
            container=self.id,
            role=self.role,
            rank=self.rank,
            nonce=self.env["YARNPS_NONCE"],
            host="n1",
            address=HOST,
            am_host="10.0.0.1",
            version="1",
            running=running,
        )
        self.world.feed(i.AgentCame(register))
        for message in self.unsent:
            self.world.feed(i.AgentSaid(self.id, message))
        self.unsent = []

    def tell(self, message: pb.FromAgent) -> None:
        if self.connected:
            self.world.later(0.01, self.world.agent_said, self, message)
        else:
            self.unsent.append(message)

    def obey(self, message: pb.ToAgent) -> None:
        if self.state != "running":
            return
        kind = message.WhichOneof("kind")
        running = self.node is not None and self.node.alive
        if kind == "start" and not running:
            start = next(self.starts)
            self.node = Node(self.world, self, message.start, start)
            self.tell(pb.FromAgent(role_started=pb.RoleStarted(incarnation=self.node.who)))
        elif kind in ("stop", "exit") and self.node is not None:
            self.node.exit(-15, ordered=kind == "stop")
            if kind == "exit":
                self.end("")

    def exited(self, node: Node, code: int, ordered: bool) -> None:
        exited = pb.RoleExited(incarnation=node.who, exit_code=code, ordered=ordered)
        self.tell(pb.FromAgent(role_exited=exited))

    def end(self, message: str) -> None:
        if self.state != "ended":
            self.state, self.message = "ended", message
            if self.node is not None:
                self.node.alive = False
            self.world.changed(self)


class World:
    """Everything around one `JobMachine`."""

    def __init__(self, seed: int, config: Config, *, work_s: float = 5.0) -> None:
        self.random = random.Random(seed)
        self.config = config
        self.gang = config.block.dmlc.restart != "worker"
        self.numbers = count(20_000)
        self.now = 1000.0
        self.todo: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count()
        self._work_s = work_s
        self.journal: list[str] = []
        self.logs: list[Log] = []
        self.boxes: dict[str, Box] = {}
        self.nodes: dict[int, Node] = {}
        self.ports: dict[int, Seat] = {}  # that the ApplicationMaster listens on
        self.am_alive = True
        self.whole_rounds = 0
        self.deaf = False  # what comes to its ports is lost: it is about to die
        self.machine = JobMachine(config, self.now)
        # Words that the thread of the ports has read, and the machine has still to hear.
        self.said: deque[tuple[int, Seat, bytes, bytes]] = deque()
        self.rounds = Rounds(self._usual, self._hear, self._send_all)
        self.feed(i.Started(nodes=3))
        self.later(TICK_S, self.tick)

    # ------------------------------------------------------------ time

    def uniform(self, a: float, b: float) -> float:
        return self.random.uniform(a, b)

    def work_s(self) -> float:
        return self.uniform(0.2, 1.0) * self._work_s

    def later(self, delay: float, what: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self.todo, (self.now + delay, next(self._order), what, args))

    @property
    def tries(self) -> int:
        """How many times all have started again."""
        assert self.machine.programs is not None
        return self.machine.programs.gang.restarts

    def until(self, condition: Callable[[], object], limit_s: float = 300.0) -> None:
        end = self.now + limit_s
        while not condition():
            assert self.now < end, f"it hangs\n{self.story()}"
            self.now, _, what, args = heapq.heappop(self.todo)
            what(*args)

    def run(self, limit_s: float = 300.0) -> str:
        """To the job's end; how it ended."""
        self.until(lambda: self.machine.outcome is not None, limit_s)
        assert self.machine.outcome is not None
        return self.machine.outcome.state

    def tick(self) -> None:
        self.later(TICK_S, self.tick)
        if self.am_alive:
            due = self.machine.members.due(self.now, responsive=True)
            for box in self.boxes.values():
                if box.connected and box.state == "running":
                    self.machine.members.heard(box.id, self.now, box.heartbeat())
            for expiry in due + self.machine.overdue(self.now, {}):
                self.feed(i.Expired(expiry))
            self.feed(i.Ticked())

    # ------------------------------------------------------------ the ApplicationMaster

    def feed(self, event: i.Input) -> None:
        actions = self.machine.handle(event, self.now)
        if durable(event, actions):
            self.journal.append(i.record(event, self.now).decode())
        for action in actions:
            self.do(action)

    def do(self, action: Action) -> None:
        if isinstance(action, Tell):
            box = self.boxes[action.container]
            if box.connected:
                self.later(0.01, box.obey, action.message)
        elif isinstance(action, Ask):
            self.later(self.uniform(0.1, 1.0), self.place, action)
        elif isinstance(action, GiveBack):
            ending = "Container killed by the ApplicationMaster."
            self.later(self.uniform(0.1, 1.0), self.boxes[action.container].end, ending)
        elif isinstance(action, OpenPort):
            self.do(ClosePort(action.role, action.rank))
            port = next(self.numbers)
            self.ports[port] = Seat(action.role, action.rank)
            self.feed(i.PortOpened(action.role, action.rank, port))
        elif isinstance(action, ClosePort):
            self.rounds.pause()
            seat = Seat(action.role, action.rank)
            self.ports = {port: s for port, s in self.ports.items() if s != seat}
        elif isinstance(action, SendNode):
            to = Address(action.host, action.port)
            self.send(Seat(action.role, action.rank), to, action.message)
        elif isinstance(action, Log):
            self.logs.append(action)

    def place(self, ask: Ask) -> None:
        if not self.am_alive:
            return
        box = Box(self, f"{ask.role}_{len(self.boxes)}", ask.role, ask.env)
        self.boxes[box.id] = box
        self.feed(i.Placed(ask.nonce, box.id))
        self.later(self.uniform(0.1, 3.0), box.grant)

    def changed(self, box: Box) -> None:
        if self.am_alive:
            self.feed(i.Changed(box.info()))

    def agent_said(self, box: Box, message: pb.FromAgent) -> None:
        if self.am_alive and box.connected:
            self.feed(i.AgentSaid(box.id, message))
        else:
            box.unsent.append(message)

    def arrives(self, port: int, sender: bytes, message: bytes) -> None:
        """At a port of the scheduler's; while nobody listens, zmq keeps it and tries again."""
        if self.deaf:
            return  # it has arrived, and is in no journal
        if not self.am_alive:
            self.later(0.5, self.arrives, port, sender, message)
        elif port in self.ports:
            self.rounds.heard(self.ports[port], sender, message)
            self.later(self.uniform(0.0, 0.002), self.rounds.pause)

    def send(self, seat: Seat, to: Address, message: bytes) -> None:
        node = self.nodes[to.port]
        assert to.host == HOST and node.seat == seat
        self.later(0.01, node.hear, message)

    def _usual(self, group: int) -> Round | None:
        assert self.machine.programs is not None
        return self.machine.programs.round(group) if not self.said else None

    def _hear(self, seat: Seat, sender: bytes, message: bytes) -> None:
        (port,) = [port for port, at in self.ports.items() if at == seat]
        self.said.append((port, seat, sender, message))
        self.later(self.uniform(0.0, 0.002), self.deliver)

    def deliver(self) -> None:
        """The machine hears what has come to ports that are still open."""
        while self.said:
            port, seat, sender, message = self.said[0]
            if port in self.ports:
                self.feed(i.NodeSaid(*seat, sender, message))
            self.said.popleft()

    def _send_all(self, nodes: Mapping[Seat, Address], message: bytes) -> None:
        self.whole_rounds += 1
        for seat, to in nodes.items():
            self.send(seat, to, message)

    def stop_server(self, port: int) -> None:
        """Worker 0 tells a server that the work is done."""
        self.nodes[port].stopped = True
        self.nodes[port].act()

    # ------------------------------------------------------------ harm

    def box_of(self, role: str, rank: int) -> Box:
        return self.boxes[self.machine.members.place_of(role, rank).container]

    def process(self, role: str, rank: int) -> Node:
        node = self.box_of(role, rank).node
        assert node is not None and node.alive
        return node

    def kill(self, role: str, rank: int) -> None:
        self.process(role, rank).exit(-9)

    def working(self) -> bool:
        """Whether all are past the first barrier."""
        return any(log.kind == "barrier" and "start" in log.text for log in self.logs)

    def mishap(self) -> None:
        running = [b for b in self.boxes.values() if b.state == "running"]
        kind = self.random.choice(["process", "process", "container", "am"])
        if kind == "am" and self.am_alive:
            self.am_dies()
        elif running and kind != "am":
            box = self.random.choice(running)
            if kind == "container":
                box.end("Container released on a *lost* node")
            elif box.node is not None:
                box.node.exit(-9)

    def am_dies(self) -> None:
        self.rounds.pause()
        self.deliver()
        self.am_alive = False
        for box in self.boxes.values():
            box.connected = False
        self.later(AM_AWAY_S, self.am_returns)

    def am_returns(self) -> None:
        began = json.loads(self.journal[0])["now"]
        before, self.machine = self.machine, JobMachine(self.config, began)
        for line in self.journal:
            record = json.loads(line)
            self.machine.handle(i.decode(record["event"]), record["now"])
        assert self.machine.snapshot() == before.snapshot(), "the replayed job is another one"
        taken = json.loads(json.dumps(before.snapshot()))
        self.machine = JobMachine(self.config, self.now)
        self.machine.restore(taken)
        self.am_alive = True
        assert self.machine.programs is not None
        known = dict(self.machine.programs.open_ports())
        assert set(known.values()) <= set(self.ports)
        self.feed(i.Reconciled(tuple(box.info() for box in self.boxes.values())))
        for box in self.boxes.values():
            self.later(self.uniform(0.1, 1.5), box.register)

    # ------------------------------------------------------------ what it says

    def logged(self, kind: str, words: str = "") -> list[Log]:
        return [log for log in self.logs if log.kind == kind and words in log.text]

    def story(self) -> str:
        lines = [f"{log.kind:10} {log.text}" for log in self.logs[-60:]]
        rows = self.machine.members.processes(self.now)
        lines += [f"{row.role} {row.rank} {row.state} {row.note}" for row in rows]
        return "\n".join(lines)
