"""A job in miniature around a `Ledger`: workers, two servers with marks, cuts, and mishaps.

Every batch that a worker pushes is applied by both servers unless it is stale (a lower token than
the highest seen) or marked already. What has been applied how often is counted apart from the
marks, so a batch applied twice, or lost, is found.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from made_splits import MadeSplit, failure, said, splits

from yarnps.am.training.ledger import AVOID_NODE_S, Ledger
from yarnps.am.training.ledger_records import Grant, Revoked

NODES = 4
Batch = tuple[int, int, int]  # epoch, split, index


@dataclass
class Server:
    marks: set[Batch] = field(default_factory=set)
    applied: Counter[Batch] = field(default_factory=Counter)
    tokens: dict[tuple[int, int], int] = field(default_factory=dict)

    def push(self, batch: Batch, token: int) -> bool:
        split = batch[:2]
        if token < self.tokens.get(split, 0):
            return False
        self.tokens[split] = token
        if batch not in self.marks:
            self.marks.add(batch)
            self.applied[batch] += 1
            assert self.applied[batch] == 1, "a batch was applied twice"
        return True


@dataclass
class Worker:
    id: int
    node: str
    grants: list[Grant] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)  # token -> batches that are pushed


class World:
    """One run with a seed."""

    def __init__(self, seed: int, *, epochs: int = 3, count: int = 40, workers: int = 8) -> None:
        self.random = random.Random(seed)
        self.epochs = epochs
        self.train = splits(count, nodes=NODES)
        self.test = splits(5)
        self.batches = [self.random.randrange(0, 6) for _ in self.train]
        self.attempt = 1
        self.now = 0.0
        self.ledger = self.new_ledger()
        self.start = self.ledger.snapshot()
        self.servers = [Server(), Server()]
        self.next_id = 0
        self.workers: list[Worker] = []
        self.zombies: list[Worker] = []
        self.cut: tuple[dict[str, Any], list[Server]] = (self.start, copy.deepcopy(self.servers))
        self.half_cut: tuple[dict[str, Any], list[Server | None]] | None = None
        self.tokens_seen: dict[tuple[int, str, int], int] = {}
        self.floor = 0
        self.broken: set[int] = set()
        for _ in range(workers):
            self.new_worker()

    def new_ledger(self) -> Ledger:
        return Ledger(self.train, self.test, epochs=self.epochs, seed=7, attempt=self.attempt)

    def new_worker(self) -> None:
        self.next_id += 1
        self.workers.append(Worker(self.next_id, f"n{self.random.randrange(NODES)}"))

    def rows(self, batches: int) -> int:
        return 10 * batches

    # ------------------------------------------------------------ what happens

    def step(self, chaos: bool) -> None:
        self.now += self.random.random()
        chance = self.random.random()
        if chaos and chance < 0.12:
            self.mishap()
        elif chance < 0.15:
            self.save()
        else:
            self.work(self.random.choice(self.workers))
        self.check()
        if self.ledger.phase_done or self.ledger.epoch == 0:
            self.next_phase()

    @property
    def through(self) -> bool:
        ledger = self.ledger
        return ledger.phase_done and ledger.epoch == self.epochs and ledger.phase == "test"

    def next_phase(self) -> None:
        ledger = self.ledger
        if self.through:
            return
        if ledger.phase == "train":
            assert ledger.begin(ledger.epoch, "test") == []
        else:
            assert ledger.begin(ledger.epoch + 1, "train") == []
        self.floor = ledger.rows

    def work(self, worker: Worker) -> None:
        if len(worker.grants) < 2:
            self.ask(worker)
        if worker.grants:
            self.go_on(worker, worker.grants[0])

    def ask(self, worker: Worker) -> None:
        ledger = self.ledger
        before = ledger.snapshot() if self.random.random() < 0.2 else None
        grants = ledger.lease(worker.id, worker.node, 2 - len(worker.grants), self.now)
        if before is not None and ledger.phase == "train":
            self.check_choice(worker, before, grants)
        for grant in grants:
            key = (grant.epoch, grant.phase, grant.split.id)
            assert grant.token > self.tokens_seen.get(key, 0), "a token was used again"
            self.tokens_seen[key] = grant.token
            worker.grants.append(grant)
            worker.at[grant.token] = grant.from_batch
            assert grant.from_rows == self.rows(grant.from_batch)

    def check_choice(self, worker: Worker, before: dict[str, Any], grants: list[Grant]) -> None:
        """A local split first; and no free split is left while a worker asks for one."""
        free = {s.id: s for s in self.train if before["state"][s.id] == "0"}
        failures = dict(before["sets"]["train"]["failures"])
        if grants and not failures and any(worker.node in s.hosts for s in free.values()):
            assert isinstance(grants[0].split, MadeSplit)
            assert worker.node in grants[0].split.hosts, "a local split was free"
        if not grants:
            waiting = {i for i in failures if self.now - failures[i][-1]["time"] < AVOID_NODE_S}
            assert set(free) <= waiting, "a free split was kept back"

    def go_on(self, worker: Worker, grant: Grant) -> None:
        """One batch more of a lease, or its end."""
        at = worker.at[grant.token]
        if grant.phase == "test":
            message = said(grant, 1, 5, done=True, sums={"loss": [0.1 * grant.split.id, 1.5]})
        elif grant.split.id in self.broken and at == self.batches[grant.split.id] // 2:
            self.ledger.failed(worker.id, failure(grant), worker.node, self.now)
            worker.grants.remove(grant)
            return
        elif at == self.batches[grant.split.id]:
            message = said(grant, at, self.rows(at), done=True, size=100)
        else:
            batch = (grant.epoch, grant.split.id, at)
            heard = [server.push(batch, grant.token) for server in self.servers]
            if False in heard:
                return
            at += 1
            worker.at[grant.token] = at
            message = said(grant, at, self.rows(at), size=min(100, 20 * at))
        before = self.ledger.snapshot()
        answer = self.ledger.progress(worker.id, message, self.now)
        if worker in self.zombies:
            assert not answer.accepted, "a zombie was heard"
            assert self.ledger.snapshot() == before
            return
        assert answer.accepted
        if self.random.random() < 0.1:
            again = self.ledger.progress(worker.id, message, self.now)
            assert again == (True, False), "a repeated message did something"
        if message.done:
            assert answer.split_done
            worker.grants.remove(grant)

    # ------------------------------------------------------------ mishaps

    def mishap(self) -> None:
        kinds = [
            self.die,
            self.die,
            self.zombie_speaks,
            self.fail,
            self.restart_am,
            self.lose_server,
        ]
        self.random.choice([*kinds, self.new_attempt])()

    def die(self) -> None:
        worker = self.workers.pop(self.random.randrange(len(self.workers)))
        revoked = self.ledger.lost(worker.id)
        assert {r.token for r in revoked} == {g.token for g in worker.grants}
        self.zombies.append(worker)
        self.new_worker()

    def zombie_speaks(self) -> None:
        for zombie in self.zombies[-3:]:
            for grant in list(zombie.grants):
                self.go_on(zombie, grant)

    def fail(self) -> None:
        worker = self.random.choice(self.workers)
        if worker.grants and worker.grants[0].split.id in self.broken:
            grant = worker.grants.pop(0)
            self.ledger.failed(worker.id, failure(grant), worker.node, self.now)

    def restart_am(self) -> None:
        data = json.loads(json.dumps(self.ledger.snapshot()))
        self.ledger = self.new_ledger()
        self.ledger.restore(data)
        assert self.ledger.snapshot() == data

    def save(self) -> None:
        """First the ledger, then one server after the other; durable when both have saved."""
        if self.half_cut is None:
            data = json.loads(json.dumps(self.ledger.snapshot()))
            self.half_cut = (data, [None, None])
            return
        data, saved = self.half_cut
        index = saved.index(None)
        saved[index] = copy.deepcopy(self.servers[index])
        if None not in saved:
            self.cut, self.half_cut = (data, [s for s in saved if s is not None]), None

    def lose_server(self) -> None:
        index = self.random.randrange(2)
        self.servers[index] = copy.deepcopy(self.cut[1][index])
        held = {grant.token for worker in self.workers for grant in worker.grants}
        assert {revoked.token for revoked in self.go_back()} == held

    def go_back(self) -> list[Revoked]:
        revoked = self.ledger.restore_cut(self.cut[0])
        for worker in self.workers:
            worker.grants.clear()
        self.half_cut = None
        self.same_as_cut()
        return revoked

    def same_as_cut(self) -> None:
        """The totals are those of the cut, and nothing is leased."""
        then = self.new_ledger()
        then.restore(self.cut[0])
        now = self.ledger
        assert (now.epoch, now.phase, now.rows) == (then.epoch, then.phase, then.rows)
        assert now.splits_leased == 0 and now.splits_done == then.splits_done
        if now.phase != "test":  # a test split that was in work starts again
            assert now.bytes == then.bytes
        self.floor = now.rows

    def new_attempt(self) -> None:
        self.attempt += 1
        self.ledger = self.new_ledger()
        self.servers = copy.deepcopy(self.cut[1])
        self.zombies = [*self.zombies, *(copy.copy(w) for w in self.workers)]
        for zombie in self.zombies:
            zombie.grants = []  # the old attempt's processes reach neither AM nor servers
        for worker in self.workers:
            self.next_id += 1
            worker.id = self.next_id
        self.go_back()

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        assert self.ledger.rows >= self.floor, "committed rows went back"
        self.floor = self.ledger.rows
        assert 0 <= self.ledger.fraction <= 1

    def check_end(self) -> None:
        ledger = self.ledger
        dead = {letter.split for letter in ledger.skipped}
        assert dead <= self.broken
        assert ledger.fraction == 1
        whole = sum(self.rows(n) for i, n in enumerate(self.batches) if i not in dead)
        for epoch in range(1, self.epochs + 1):
            for split in self.train:
                wanted = {(epoch, split.id, b) for b in range(self.batches[split.id])}
                for server in self.servers:
                    applied = {b for b in server.applied if b[:2] == (epoch, split.id)}
                    assert applied == wanted or split.id in dead, "a batch is missing"
        if not dead:
            assert ledger.snapshot()["rows_of_epoch"] == [whole] * self.epochs
            assert ledger.rows_total == ledger.rows
        sums = ledger.sums["loss"].tolist()
        assert sums == [0.1 * 0 + 0.1 * 1 + 0.1 * 2 + 0.1 * 3 + 0.1 * 4, 7.5]
