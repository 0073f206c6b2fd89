"""A server process: one thread between the workers' messages and the agent's channel."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence

from yarnps._memory import keep_pages
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel, exit_without_agent
from yarnps.protocol.settings import EngineSettings
from yarnps.server.clocks import Clocks
from yarnps.server.loading import load_shards
from yarnps.server.memory import Watch, resident, table_limit
from yarnps.server.port import Port
from yarnps.server.saving import Export, Save, Task
from yarnps.server.service import Reply, Service
from yarnps.server.step_cut import StepCut
from yarnps.server.steps import Steps
from yarnps.server.store import Store
from yarnps.server.summing import apply_step

log = logging.getLogger(__name__)

STATS_S = 1.0
# Variable with the bytes of the container's memory that are this process's.
MEMORY = "YARNPS_MEMORY"
# A save whose writer is busy is looked at again after this.
TASK_POLL_S = 0.002

# How long the gate of a new server waits for workers that do not say where they are. They do so
# as soon as they are told the new route, or at the end of the kernel that they are in.
_UNHEARD_S = 10.0


def owned_shards(routes: pb.Routes, server_rank: int) -> list[int]:
    """The shards that the routes give to a server."""
    index = next(
        (i for i, server in enumerate(routes.servers) if server.server_rank == server_rank), -1
    )
    return [shard for shard, owner in enumerate(routes.owner) if owner == index]


class ServerProcess:
    """Serves the shards that `Begin` names until the channel closes."""

    def __init__(
        self, channel: RoleChannel, begin: pb.Begin, told: Sequence[pb.ToRole] = ()
    ) -> None:
        keep_pages()
        self._channel = channel
        self._told_early = told  # what came right behind `begin`
        self._begin = begin
        self._settings = EngineSettings.from_job_json(begin.job_json)
        self._rank = begin.server_rank
        gated = not os.environ.get("YARNPS_FAULT_NO_GATE")
        self._service = Service(
            store=self._new_store(),
            clocks=Clocks(self._settings.staleness if gated else None),
            job=begin.job,
            token=begin.data_token,
            generation=max(begin.generation, begin.routes.generation),
            route=begin.routes.version,
            request_limit=self._settings.request_limit,
        )
        self._service.steps = self._new_steps()
        self._cutting = StepCut(self._service)
        self._port = Port(self._service)
        self._tasks: list[Task] = []
        self._saved: pb.FromRole | None = None
        self._stopping = False
        self._next_stats = 0.0
        self._unheard_until = 0.0
        self._ready = pb.ServerReady()
        self._watch = Watch()

    # ------------------------------------------------------------------ start

    def _new_store(self) -> Store:
        routes = self._begin.routes
        dedupe = not os.environ.get("YARNPS_FAULT_NO_MARKS")
        return Store(owned_shards(routes, self._rank), len(routes.owner), dedupe=dedupe)

    def _new_steps(self) -> Steps | None:
        """The steps of a BSP job."""
        parts, service = self._settings.parts, self._service
        if parts is None:
            return None
        return Steps(parts, self._settings.spare, lambda *step: apply_step(service.store, *step))

    def run(self) -> None:
        """Load, say that we are ready, and serve."""
        address = self._port.listen(self._begin.bind_address or "127.0.0.1")
        loaded = self._load()
        self._service.clocks.begin_at(self._service.store.clock)
        self._set_members(self._begin.members)
        # Workers that run already have clocks that this process has yet to hear of.
        self._service.clocks.wait_for(self._begin.members.incarnations)
        self._unheard_until = time.monotonic() + _UNHEARD_S
        self._ready = pb.ServerReady(address=address, loaded_cut=loaded)
        self._channel.send(pb.FromRole(server_ready=self._ready))
        self._service.store.memory_limit = self._memory_limit()
        for message in self._told_early:
            self._send(self._told(message))
        self._serve()
        self._service.own_functions.close()
        self._port.close()

    def _load(self) -> int:
        """Load the shards, and say meanwhile that this process is not frozen."""
        loaded = threading.Event()

        def speak() -> None:
            while not loaded.wait(STATS_S):
                try:
                    self._channel.send(pb.FromRole(stats=pb.Stats()))
                except OSError:
                    exit_without_agent()

        thread = threading.Thread(target=speak, name="loading", daemon=True)
        thread.start()
        try:
            return load_shards(self._service.store, self._begin.load, self._service.steps)
        finally:
            loaded.set()
            thread.join()

    def _memory_limit(self) -> int | None:
        """Bytes for tables: a share of this process's part of its container's memory."""
        memory = os.environ.get(MEMORY)
        if not memory:
            return None
        loaded = sum(table.nbytes for table in self._service.store.tables.values())
        return table_limit(int(memory), self._settings.table_memory, resident() - loaded)

    # ------------------------------------------------------------------ the loop

    def _serve(self) -> None:
        self._port.watch(self._channel.fileno())
        while not self._stopping:
            if self._port.wait(self._patience_s()):
                self._send(self._listen())
            self._step_tasks()
            self._send(self._service.step_functions())
            self._send(self._service.moved())
            now = time.monotonic()
            if now >= self._next_stats:
                self._next_stats = now + STATS_S
                self._send(self._each_second(now))

    def _say(self, message: pb.FromRole) -> None:
        """Tell the agent; without one this process ends."""
        try:
            self._channel.send(message)
        except OSError:
            exit_without_agent()

    def _send(self, replies: list[Reply]) -> None:
        for reply in replies:
            self._port.send(reply)
        self._port.flush()

    def _patience_s(self) -> float:
        """How long to wait for a request: not at all while a save has a shard to be copied, and
        only a moment while its writer has not taken what was copied."""
        if any(task.can_step for task in self._tasks):
            return 0.0
        beside = self._tasks or self._service.own_functions.busy
        return TASK_POLL_S if beside else STATS_S

    def _each_second(self, now: float) -> list[Reply]:
        if self._unheard_until and now >= self._unheard_until:
            self._unheard_until = 0.0
            if unheard := self._service.clocks.stop_waiting():
                text = f"the gate no longer waits for {len(unheard)} workers that say nothing"
                self._say(pb.FromRole(event=pb.RoleEvent(name="gate", text=text)))
        stats = pb.Stats(
            clock=self._service.clock,
            pushes=self._service.counts.pushes,
            pulls=self._service.counts.pulls,
            duplicates=self._service.store.duplicates,
        )
        stats.tables.extend(self._service.table_stats())
        self._say(pb.FromRole(stats=stats))
        store = self._service.store
        for text in self._watch.look(store.tables.values(), store.memory_limit):
            self._say(pb.FromRole(event=pb.RoleEvent(name="tables", text=text)))
        self._port.expire(now)
        return self._service.expire(now) + self._service.open_gate()

    # ------------------------------------------------------------------ tasks beside the requests

    def _step_tasks(self) -> None:
        """Copy one more shard for the first task, and report those that are through."""
        for task in self._tasks:
            if task.can_step:
                task.step()
                break
        order = self._cutting.due()
        if order is not None:
            self._tasks.append(self._save_task(order))
            self._cutting.copying(self._tasks[-1])
        self._cutting.check()
        for task in [task for task in self._tasks if task.finished]:
            self._tasks.remove(task)
            report = task.report()
            if report.HasField("save_done") and not task.error:
                self._saved = report
            self._say(report)

    # ------------------------------------------------------------------ the channel

    def _listen(self) -> list[Reply]:
        messages = self._channel.receive()
        if messages is None:
            exit_without_agent()
        return [reply for message in messages or [] for reply in self._told(message)]

    def _told(self, message: pb.ToRole) -> list[Reply]:
        kind = message.WhichOneof("kind")
        if kind == "begin":  # a restarted AM repeats it, and a rollback begins with it
            replies = self._go_back(message.begin)
            self._set_routes(message.begin.routes)
            return replies + self._set_members(message.begin.members)
        if kind == "routes":
            self._set_routes(message.routes)
        elif kind == "members":
            return self._set_members(message.members)
        elif kind in ("save", "export") and self._is_writing(message):
            log.info("told again what is under way: %s", kind)
        elif kind == "hold":
            if (held := self._cutting.hold(message.hold)) is not None:
                self._say(held)
        elif kind == "save" and message.save.HasField("step"):
            if error := self._cutting.save(message.save):
                refused = pb.SaveDone(cut=message.save.cut, error=error)
                self._say(pb.FromRole(save_done=refused))
        elif kind == "save":
            self._save(message.save)
        elif kind == "export":
            export = message.export
            self._tasks.append(
                Export(
                    self._service.store, export.path, self._rank, list(export.tables), export.text
                )
            )
        elif kind == "cut_durable":
            for done in message.cut_durable.done:
                self._service.store.marks.close(done.epoch, done.splits)
        elif kind == "stop":
            log.info("stopping: %s", message.stop.reason)
            self._stopping = True
        elif kind == "am_back":
            self._cutting.release()  # a restarted AM has given up the cut that was under way
            self._say(pb.FromRole(hello=pb.RoleHello(pid=os.getpid(), resync=True)))
            self._say(pb.FromRole(server_ready=self._ready))
        return []

    def _is_writing(self, message: pb.ToRole) -> bool:
        """Whether an order is under way already: it is said again when it may have got lost."""
        folder = message.save.path or message.export.path
        return any(task.folder == folder for task in self._tasks)

    def _save(self, save: pb.Save) -> None:
        """Begin a cut; one that is written already is told again, not written again."""
        if self._saved is not None and self._saved.save_done.cut == save.cut:
            self._say(self._saved)
            return
        self._tasks.append(self._save_task(save))

    def _save_task(self, save: pb.Save) -> Save:
        store, incarnation = self._service.store, self._begin.incarnation
        return Save(store, save.cut, save.path, self._rank, incarnation, self._service.steps)

    def _go_back(self, begin: pb.Begin) -> list[Reply]:
        """A rollback: the shards as they were at the cut; what is older is refused from now on."""
        service = self._service
        if begin.generation <= service.generation:
            return []
        log.info("back to checkpoint %d in generation %d", begin.load.cut, begin.generation)
        for task in self._tasks:
            task.abandon()
        self._tasks.clear()
        self._saved = None
        self._begin = begin
        opened = [table.spec for table in service.store.tables.values()]
        service.store = self._new_store()  # before loading, or memory would hold both
        service.steps = self._new_steps()
        self._cutting.release()
        self._load()
        for spec in opened:  # workers open a table once for each start of a server
            service.store.open(spec)
        service.store.memory_limit = self._memory_limit()
        service.generation = begin.generation
        return service.open_gate()

    def _set_routes(self, routes: pb.Routes) -> None:
        if routes.version < self._service.route:
            return
        owned = owned_shards(routes, self._rank)
        if owned != self._service.store.owned:
            # Shards move by messages of a later version; serving others' shards would lose pushes.
            raise SystemExit(
                f"routes {routes.version} give this server other shards than those it loaded"
            )
        self._service.route = routes.version

    def _set_members(self, members: pb.Members) -> list[Reply]:
        return self._service.set_members(list(members.incarnations), list(members.outside))
