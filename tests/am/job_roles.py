"""The role processes of a job in miniature, by the rules of the real ones."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from yarnps.protocol import control_pb2 as pb
from yarnps.worker.leases import Held, Leases

if TYPE_CHECKING:
    from job_boxes import Box

STEP_S = 0.2
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
