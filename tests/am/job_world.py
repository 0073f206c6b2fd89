"""A whole job in miniature around a `JobMachine`: containers, agents, roles, links, and mishaps.

What the shell does with actions is done here with delays, on a clock of its own. Roles follow the
rules of the real ones: servers apply a batch once by their marks, save and load cuts; workers push
what they lease to every server and commit when all have answered. The ApplicationMaster dies and
comes back from the journal, through JSON, at times through a snapshot.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from job_boxes import Box
from job_roles import ROWS, Batch, Role, Shards, Worker

from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask, DeleteCuts, GiveBack, Log, Publish, Tell, WriteManifest
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.config import Config
from yarnps.am.durable import durable
from yarnps.am.job import JobMachine
from yarnps.protocol import control_pb2 as pb

TICK_S = 0.5
AM_AWAY_S = 3.0


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
        if durable(event, actions):
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
        for index, line in enumerate(self.journal):
            record = json.loads(line)
            if "snapshot" in record:
                self.machine.restore(record["snapshot"])
                continue
            if index == 0:
                self.machine = JobMachine(self.config, record["now"])
            self.machine.handle(i.decode(record["event"]), record["now"])
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
        losses = (m.training.course.losses.snapshot() for m in (before, self.machine))
        assert next(losses) == next(losses)

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
