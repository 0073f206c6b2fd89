"""A whole job in miniature around a `JobMachine`: containers, agents, roles, links, and mishaps.

What the shell does with actions is done here with delays, on a clock of its own. Roles follow the
rules of the real ones: servers apply a batch once by their marks, save and load cuts; workers push
what they lease to every server and commit when all have answered. The ApplicationMaster dies and
comes back from the journal, through JSON, at times through a snapshot.
"""

from __future__ import annotations

import copy
import heapq
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from yarnps.agent._backlog import Backlog
from yarnps.am import inputs as i
from yarnps.am.actions import (
    Action,
    Ask,
    DeleteCuts,
    GiveBack,
    Log,
    Publish,
    Refuse,
    Tell,
    WriteManifest,
)
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.config import Config
from yarnps.am.job import JobMachine
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.identity import incarnation
from yarnps.worker.leases import Held, Leases

TICK_S = 0.5
STEP_S = 0.2
RECONNECT_S = 1.0
AM_AWAY_S = 3.0
ROWS = 10  # of each batch

Batch = tuple[int, int, int]  # epoch, split, index


@dataclass
class Shards:
    """What a server holds, and what a cut keeps of it."""

    applied: Counter[Batch] = field(default_factory=Counter)
    tokens: dict[tuple[int, int], int] = field(default_factory=dict)
    closed: set[tuple[int, int]] = field(default_factory=set)  # split -1: the whole epoch

    def push(self, batch: Batch, token: int) -> bool:
        """False: the lease is stale."""
        epoch, split, _ = batch
        if token < self.tokens.get((epoch, split), 0):
            return False
        self.tokens[epoch, split] = token
        if not self.closed & {(epoch, -1), (epoch, split)} and not self.applied[batch]:
            self.applied[batch] += 1
        return True


class Role:
    """A role process."""

    def __init__(self, box: Box, who: pb.Incarnation) -> None:
        self.box, self.world, self.who = box, box.world, who
        self.alive, self.begun, self.frozen = True, False, False
        self.world.later(self.world.uniform(0.5, 2.0), self.hello)

    def say(self, **message: Any) -> None:
        if self.alive and not self.frozen:
            self.box.role_says(self, pb.FromRole(**message))

    def hello(self) -> None:
        self.say(hello=pb.RoleHello(pid=1))

    def hear(self, message: pb.ToRole) -> None:
        if not self.alive:
            return
        if self.frozen:
            self.world.later(1.0, self.hear, message)
            return
        self.on(message.WhichOneof("kind"), message)

    def on(self, kind: str | None, message: pb.ToRole) -> None:
        raise NotImplementedError


class Server(Role):
    """A server process; `ready` once it has loaded its shards."""

    shards = Shards()
    rank = -1
    ready: pb.ServerReady | None = None

    def on(self, kind: str | None, message: pb.ToRole) -> None:
        world = self.world
        if kind == "begin" and not self.begun:
            self.begun, self.rank = True, message.begin.server_rank
            world.later(world.uniform(0.2, 3.0), self.load, message.begin.load)
        elif kind == "save":
            world.later(world.uniform(0.0, 1.0), self.save, message.save)
        elif kind == "export":
            world.later(world.uniform(0.0, 2.0), self.export, message.export.path)
        elif kind == "cut_durable":
            for done in message.cut_durable.done:
                self.shards.closed |= {(done.epoch, s) for s in done.splits or [-1]}
        elif kind == "am_back" and self.begun:
            self.say(hello=pb.RoleHello(pid=1, resync=True))
            if self.ready:
                self.say(server_ready=self.ready)

    def load(self, load: pb.Load) -> None:
        self.shards = Shards()
        if load.cut >= 0:
            mine = [f.name for f in load.files if f.name.startswith(f"server-{self.rank}-")]
            assert mine, f"cut {load.cut} has no file of server {self.rank}"
            self.shards = copy.deepcopy(self.world.files[load.path, mine[0]])
        self.ready = pb.ServerReady(address=f"tcp://{self.who.id}", loaded_cut=load.cut)
        self.say(server_ready=self.ready)

    def save(self, order: pb.Save) -> None:
        if not self.alive or self.frozen:
            return
        if self.world.chance(0.05):
            self.say(save_done=pb.SaveDone(cut=order.cut, error="the disk is full"))
            return
        name = f"server-{self.rank}-{self.who.id:x}"
        self.world.files[order.path, name] = copy.deepcopy(self.shards)
        rows = sum(ROWS for b in self.shards.applied if b[1] % self.world.servers == self.rank)
        saved = pb.SavedFile(name=name, bytes=1, rows=1, table="yarnps.rows", sum=rows)
        done = pb.SaveDone(cut=order.cut, files=[saved])
        self.world.later(self.world.uniform(0.0, 2.0), lambda: self.say(save_done=done))

    def export(self, path: str) -> None:
        if not self.alive or self.frozen:
            return
        self.world.models.setdefault(path, {})[self.rank] = copy.deepcopy(self.shards.applied)
        self.say(export_done=pb.ExportDone(path=path, files=[pb.SavedFile(name="part")]))


class Worker(Role):
    """A worker process."""

    def __init__(self, box: Box, who: pb.Incarnation) -> None:
        super().__init__(box, who)
        self.leases = Leases()
        self.routes = pb.Routes()
        self.acked: set[int] = set()
        self.acked_of = (0, 0)  # token and batch
        self.told = 0.0

    def on(self, kind: str | None, message: pb.ToRole) -> None:
        if kind in ("begin", "routes"):
            routes = message.begin.routes if kind == "begin" else message.routes
            if routes.version >= self.routes.version:
                self.routes = routes
            if not self.begun:
                self.begun = True
                self.step()
        elif kind == "grant":
            self.leases.granted(message.grant)
        elif kind == "revoke":
            self.leases.revoked(message.revoke)
        elif kind == "end_of_data":
            self.leases.ended = True
        elif kind == "am_back":
            held = [lease.progress() for lease in self.leases.held if not lease.revoked]
            self.leases.forget_asked()
            self.say(hello=pb.RoleHello(pid=1, resync=True, held=held))

    @property
    def current(self) -> Held | None:
        return next((held for held in self.leases.held if not held.revoked), None)

    def step(self) -> None:
        """One round of the program's loop."""
        if not self.alive:
            return
        self.world.later(STEP_S, self.step)
        if self.frozen:
            return
        for held in self.leases.held:
            if held.revoked:
                self.leases.drop(held)
        want = None if self.leases.ended else self.leases.want()
        if want is not None:
            self.say(want=want)
        lease = self.current
        if lease is None:
            if self.leases.ended:
                self.say(finished=pb.Finished())
                self.world.later(0.1, self.box.exited, self, 0)
                self.frozen = True
        elif lease.phase == "train":
            self.train(lease)
        else:
            self.test(lease)

    def reach(self, rank: int) -> Server | None:
        """The server process that the routes name, if it is there."""
        if rank >= len(self.routes.servers):
            return None
        there = self.world.processes.get(self.routes.servers[rank].incarnation)
        usable = isinstance(there, Server) and there.alive and not there.frozen and there.ready
        return there if usable and isinstance(there, Server) else None

    def train(self, lease: Held) -> None:
        if lease.batches == self.world.batches[lease.split.id]:
            lease.done = True
            self.say(progress=lease.progress())
            self.leases.drop(lease)
            return
        batch = (lease.epoch, lease.split.id, lease.batches)
        if self.acked_of != (lease.token, lease.batches):
            self.acked, self.acked_of = set(), (lease.token, lease.batches)
        for rank in set(range(self.world.servers)) - self.acked:
            server = self.reach(rank)
            if server is None or self.world.chance(0.1):
                continue
            if not server.shards.push(batch, lease.token):
                lease.revoked = True
                return
            self.acked.add(rank)
        if len(self.acked) == self.world.servers:
            lease.batches, lease.rows = lease.batches + 1, lease.rows + ROWS
            if self.world.now - self.told >= 1:
                self.told = self.world.now
                self.say(progress=lease.progress())

    def test(self, lease: Held) -> None:
        servers = [self.reach(rank) for rank in range(self.world.servers)]
        if None in servers:
            return
        # A lease that is void, which the worker does not know yet, may meet any model.
        whole = self.world.whole(lease.epoch)
        right = all(server and server.shards.applied == whole for server in servers)
        loss = self.world.loss(lease.epoch) if right else 1e6
        lease.done, lease.batches, lease.rows = True, 1, ROWS
        progress = lease.progress()
        progress.sums.add(name="loss", values=[loss * ROWS, ROWS])
        self.say(progress=progress)
        self.leases.drop(lease)

    def late_push(self) -> None:
        """What a dead worker had sent arrives after its death."""
        lease = self.current
        if lease and lease.phase == "train" and lease.batches < self.world.batches[lease.split.id]:
            batch = (lease.epoch, lease.split.id, lease.batches)
            for rank in set(range(self.world.servers)) - self.acked:
                server = self.reach(rank)
                if server is not None:
                    server.shards.push(batch, lease.token)


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


class World:
    """One run with a seed.

    Mishaps happen every `mishaps_s` on the average, for `calm_after_s`. A job that has not ended
    `limit_s` after that waits for something that does not come.
    """

    def __init__(
        self,
        seed: int,
        config: Config,
        *,
        splits: int = 12,
        tests: int = 3,
        mishaps_s: float = 8.0,
        calm_after_s: float = 60.0,
        limit_s: float = 200.0,
    ) -> None:
        self.random = random.Random(seed)
        self.config = config
        self.servers, self.epochs = config.server_processes, config.block.train.epochs
        self.mishaps_s = mishaps_s
        self.end_s = 1000.0 + calm_after_s + limit_s
        self.now = 1000.0
        self.numbers = count(1)
        self.batches = [self.random.randrange(1, 8) for _ in range(splits)]
        self.train = tuple(
            pb.SplitInfo(id=k, path="f", start=100 * k, length=100) for k in range(splits)
        )
        self.test = tuple(
            pb.SplitInfo(id=k, path="t", start=100 * k, length=100) for k in range(tests)
        )
        self.todo: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.files: dict[tuple[str, str], Shards] = {}
        self.models: dict[str, dict[int, Counter[Batch]]] = {}
        self.boxes: dict[str, Box] = {}
        self.processes: dict[int, Role] = {}
        self.known: dict[str, ContainerInfo] = {}
        self.spoke: dict[int, float] = {}
        self.journal: list[str] = []
        self.logs: list[tuple[float, Log]] = []
        self.published: list[str] = []
        self.am_alive, self.am_life = True, 0
        self.harmless = False
        self.machine = JobMachine(config, self.now)
        self.feed(i.Started(nodes=3))
        self.am_later(0.5, self.list_input)
        self.later(TICK_S, self.tick)
        self.later(1.0, self.mishap)
        self.later(calm_after_s, setattr, self, "harmless", True)

    # ------------------------------------------------------------ time and chance

    def uniform(self, a: float, b: float) -> float:
        return self.random.uniform(a, b)

    def chance(self, p: float) -> bool:
        return not self.harmless and self.random.random() < p

    def at(self, when: float, what: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self.todo, (when, next(self.numbers), what, args))

    def later(self, delay: float, what: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay, what, *args)

    def am_later(self, delay: float, what: Callable[..., None], *args: Any) -> None:
        """Background work of the ApplicationMaster: it dies with it."""
        life = self.am_life

        def work() -> None:
            if self.am_alive and self.am_life == life:
                what(*args)

        self.later(delay, work)

    def run(self) -> JobMachine:
        """Until the job has ended."""
        self.until(lambda: self.machine.outcome is not None and self.am_alive)
        return self.machine

    def until(self, condition: Callable[[], object]) -> None:
        """Until something holds."""
        while not condition():
            self.now, _, what, args = heapq.heappop(self.todo)
            assert self.now < self.end_s, f"stuck:\n{self.story()}"
            what(*args)

    def logged(self, kind: str, words: str = "") -> list[Log]:
        """The events of a kind so far."""
        return [log for _, log in self.logs if log.kind == kind and words in log.text]

    def box_of(self, role: str, rank: int) -> Box:
        """The container of a rank."""
        rank_of = self.machine.members.rank_of
        return next(box for name, box in self.boxes.items() if rank_of(name) == (role, rank))

    # ------------------------------------------------------------ the shell

    def feed(self, event: i.Input) -> list[Action]:
        actions = self.machine.handle(event, self.now)
        if JobMachine.durable(event, actions):
            record = {"now": self.now, "event": i.encode(event)}
            self.journal.append(json.dumps(record))
            if self.chance(0.01):
                self.journal = [json.dumps({"snapshot": self.machine.snapshot()})]
        for action in actions:
            self.do(action)
        return actions

    def do(self, action: Action) -> None:
        if isinstance(action, Tell):
            box = self.boxes.get(action.container)
            if box is not None and box.connection:
                box.from_am(action.message)
        elif isinstance(action, Ask):
            self.am_later(self.uniform(0.1, 1.0), self.place, action)
        elif isinstance(action, GiveBack):
            self.am_later(self.uniform(0.0, 1.0), self.give_back, action)
        elif isinstance(action, WriteManifest):
            self.am_later(self.uniform(0.0, 1.0), self.write_manifest, action)
        elif isinstance(action, Publish):
            self.am_later(self.uniform(0.0, 2.0), self.publish, action)
        elif isinstance(action, DeleteCuts):
            for number in action.numbers:
                folder = f"{self.config.job_dir}/cuts/{number}"
                for key in [key for key in self.files if key[0] == folder]:
                    del self.files[key]
        elif isinstance(action, Log):
            self.logs.append((self.now, action))

    def list_input(self) -> None:
        self.feed(i.Listed(self.train, self.test))

    def place(self, ask: Ask) -> None:
        name = f"{ask.role}_{len(self.boxes)}"
        self.boxes[name] = Box(self, name, ask.role, ask.env)
        if self.chance(0.03):
            self.am_dies()  # the container is there, and nobody has written down which it is
        else:
            self.feed(i.Placed(ask.nonce, name))

    def give_back(self, back: GiveBack) -> None:
        box = self.boxes[back.container]
        if back.polite and box.connection:
            box.from_am(pb.ToAgent(exit=pb.Exit(reason=back.reason)))
        self.later(self.uniform(0.5, 2.0), box.end, "Container killed by the ApplicationMaster.")

    def write_manifest(self, write: WriteManifest) -> None:
        self.feed(i.ManifestWritten(write.cut, "no space" if self.chance(0.05) else ""))

    def publish(self, publish: Publish) -> None:
        if self.chance(0.05):
            self.feed(i.Published(publish.kind, publish.source, "no space"))
            return
        if publish.kind == "final":
            self.published.append(publish.source)
        self.feed(i.Published(publish.kind, publish.source))

    def am_hears(self, box: Box, message: pb.FromAgent) -> None:
        self.machine.members.heard(box.id, self.now)
        if message.HasField("role"):
            self.spoke[message.role.incarnation.id] = self.now
        self.feed(i.AgentSaid(box.id, message))

    def tick(self) -> None:
        self.later(TICK_S, self.tick)
        for box in self.boxes.values():
            for role in box.running.values():
                if box.connection and role.alive and not role.frozen and role.begun:
                    self.spoke[role.who.id] = self.now
        if not self.am_alive:
            return
        for box in list(self.boxes.values()):
            info = box.info()
            if self.known.get(box.id) != info:
                self.known[box.id] = info
                self.feed(i.Changed(info))
            elif box.connection:
                self.machine.members.heard(box.id, self.now)
        due = self.machine.members.due(self.now)
        for expiry in due + self.machine.overdue(self.now, self.spoke):
            self.feed(i.Expired(expiry))
        self.feed(i.Ticked())

    # ------------------------------------------------------------ mishaps

    def mishap(self) -> None:
        self.later(self.random.expovariate(1 / self.mishaps_s), self.mishap)
        if self.harmless:
            return
        boxes = [box for box in self.boxes.values() if box.state == "running"]
        what = self.random.choice(["process"] * 4 + ["container", "stream", "freeze", "am", "node"])
        if what == "am":
            self.am_dies()
        elif what == "node":
            node = f"n{self.random.randrange(3)}"
            for box in boxes:
                if box.node == node:
                    box.end("Container released on a *lost* node")
        elif boxes:
            self.harm(self.random.choice(boxes), what)

    def harm(self, box: Box, what: str) -> None:
        role = box.running.get(0)
        if what == "stream" and box.connection:
            self.feed(i.AgentWent(box.id)) if self.am_alive else None
            box.drop()
        elif what == "container":
            box.end("Container exited with a non-zero exit code 137.")
        elif what == "process" and role is not None:
            box.exited(role, -9)
        elif what == "freeze" and role is not None and role.alive and role.begun:
            role.frozen = True
        if isinstance(role, Worker) and not role.alive:
            self.later(self.uniform(0.0, 10.0), role.late_push)

    def am_dies(self) -> None:
        if not self.am_alive:
            return
        self.am_alive, self.am_life = False, self.am_life + 1
        for box in self.boxes.values():
            box.drop()
        self.later(self.uniform(1.0, AM_AWAY_S), self.am_returns)

    def am_returns(self) -> None:
        before = self.machine
        self.machine = JobMachine(self.config, self.now)
        for line in self.journal:
            record = json.loads(line)
            if "snapshot" in record:
                self.machine.restore(record["snapshot"], self.now)
                continue
            event = i.decode(record["event"])
            if isinstance(event, i.Started):
                self.machine = JobMachine(self.config, record["now"])
            self.machine.handle(event, record["now"])
        self.check_replay(before)
        self.am_alive = True
        self.spoke = {}
        infos = [box.info() for box in self.boxes.values()]
        self.known = {info.id: info for info in infos}
        self.feed(i.Reconciled(tuple(infos)))
        if self.machine.training.course.ledger is None:
            self.am_later(0.5, self.list_input)

    # ------------------------------------------------------------ what must hold

    def check_replay(self, before: JobMachine) -> None:
        """The journal gives back what the dead process knew, but for figures and moments."""
        then, now = (m.training.course.ledger for m in (before, self.machine))
        assert (then is None) == (now is None)
        if then is None or now is None:
            return
        a, b = (json.loads(json.dumps(ledger.snapshot())) for ledger in (then, now))
        for snapshot in (a, b):
            del snapshot["rate"]
            snapshot["workers"] = [[w[0], w[1], w[3]] for w in snapshot["workers"]]
        assert a == b, "the replayed ledger is another one"
        assert before.members.snapshot() == self.machine.members.snapshot()
        routes = (m.training.routes.snapshot() for m in (before, self.machine))
        assert next(routes) == next(routes)

    def whole(self, epoch: int) -> Counter[Batch]:
        """Every batch of the epochs up to this one, once."""
        return Counter(
            (e, split, batch)
            for e in range(1, epoch + 1)
            for split, batches in enumerate(self.batches)
            for batch in range(batches)
        )

    def loss(self, epoch: int) -> float:
        """Of the model after an epoch: the best one is not the last."""
        return abs(epoch - 2) + 1.0

    def check_end(self, model_epoch: int) -> None:
        """The job has succeeded, and its model has every batch once."""
        outcome = self.machine.outcome
        assert outcome is not None and outcome.state == "SUCCEEDED", self.story()
        assert self.published
        model = self.models[self.published[-1]]
        assert sorted(model) == list(range(self.servers))
        for applied in model.values():
            assert applied == self.whole(model_epoch)
        for result in self.machine.training.course.history.results:
            assert result.metrics == {"test_loss": self.loss(result.epoch)}, result
        ledger = self.machine.training.course.ledger
        assert ledger is not None
        assert ledger.rows == ROWS * sum(self.batches) * ledger.epoch
        for _, log in self.logs:
            if log.kind == "audit":
                assert log.data["servers"] == log.data["ledger"], log.text

    def story(self) -> str:
        """The last events, for a person who looks for the reason."""
        lines = [f"{when:9.1f} {log.kind:10} {log.text}" for when, log in self.logs[-60:]]
        course = self.machine.training.course
        lines.append(f"step {course.step}, missing {self.machine.members.missing()}")
        if course.saver is not None:
            cuts = course.saver.cuts
            lines.append(f"open {cuts.open}, lacks {cuts.missing}, export {course.saver.export}")
        return "\n".join(lines)
