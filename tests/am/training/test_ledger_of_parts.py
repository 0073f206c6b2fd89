"""`PartLedger`: the streams of BSP parts, rule by rule and in jobs where everything dies."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from made_splits import failure, splits

from yarnps.am.training.parts import PartGrant, PartLedger
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.wire import Header, Op
from yarnps.server.steps import Contribution, Place, Steps, Verdict

ROWS = 10  # of each batch


def begun(count: int = 8, parts: int = 4, **settings: Any) -> PartLedger:
    ledger = PartLedger(splits(count), splits(2), parts=parts, epochs=2, **settings)
    ledger.begin(1, "train")
    return ledger


def said(
    grant: PartGrant, *, split: int = 0, batches: int = 0, stream: int = 0, done: bool = False
) -> pb.Progress:
    """So many batches of the stream, and of its split number `split`, are committed."""
    return pb.Progress(
        epoch=grant.epoch,
        phase="train",
        split=grant.splits[split].split.id,
        token=grant.token,
        batches=batches,
        rows=batches * ROWS,
        done=done,
        part=pb.PartProgress(part=grant.part, batches=stream, step=stream),
    )


def over(grant: PartGrant) -> pb.Progress:
    """The part's stream is through."""
    part = pb.PartProgress(part=grant.part, ended=True)
    return pb.Progress(epoch=grant.epoch, phase="train", token=grant.token, part=part)


# ---------------------------------------------------------------- the streams


def test_splits_are_dealt_by_seed_and_epoch_alone() -> None:
    one, same, other = begun(20), begun(20), begun(20, seed=2)
    assert one.streams == same.streams != other.streams
    assert sorted(sum(one.streams, ())) == list(range(20))
    assert [len(stream) for stream in one.streams] == [5] * 4
    first = one.streams
    one.begin(2, "train")
    assert one.streams != first


def test_parts_get_about_as_many_bytes_each() -> None:
    uneven = [*splits(4, length=300), *splits(12)]
    made = [copy.copy(split) for split in uneven]
    for number, split in enumerate(made):
        object.__setattr__(split, "id", number)
        object.__setattr__(split, "path", f"f{number}")
        object.__setattr__(split, "file_size", split.length)
    ledger = PartLedger(made, parts=4)
    ledger.begin(1, "train")
    sizes = [sum(made[i].length for i in stream) for stream in ledger.streams]
    assert max(sizes) - min(sizes) <= 300


# ---------------------------------------------------------------- leases


def test_parts_are_shared_out_and_a_joiner_takes_its_own() -> None:
    ledger = begun()
    assert [grant.part for grant in ledger.lease_parts(1, "n0", 0)] == [0, 1, 2, 3]
    assert ledger.lease_parts(2, "n1", 0) == []
    taken = [ledger.spread(2)]
    assert [grant.part for grant in ledger.lease_parts(2, "n1", 0)] == [0]
    taken.append(ledger.spread(2))
    assert [grant.part for grant in ledger.lease_parts(2, "n1", 0)] == [1]
    assert [revoked.part for revoked in taken if revoked] == [0, 1]
    assert ledger.spread(2) is None
    ledger.lost(1)
    assert [grant.part for grant in ledger.lease_parts(2, "n1", 0)] == [2, 3]


def test_a_lost_part_goes_on_from_its_last_committed_batch() -> None:
    ledger = begun(8, parts=2)
    first = ledger.lease_parts(1, "n0", 0)[0]
    ledger.progress(1, said(first, batches=3, stream=3, done=True), 1)
    ledger.progress(1, said(first, split=1, batches=2, stream=5), 1)
    (revoked, _) = ledger.lost(1)
    assert (revoked.part, revoked.token) == (first.part, first.token)
    again = ledger.lease_parts(2, "n1", 2)[0]
    assert (again.part, again.batches, again.step) == (first.part, 5, 5)
    assert [g.split for g in again.splits] == [g.split for g in first.splits[1:]]
    assert (again.splits[0].from_batch, again.splits[0].from_rows) == (2, 20)
    assert ledger.rows == 50
    assert not ledger.progress(1, said(first, split=1, batches=4, stream=7), 3).accepted
    assert not ledger.progress(1, over(first), 3).accepted


def test_the_phase_is_over_when_every_part_has_ended() -> None:
    ledger = begun(3, parts=4)  # one part has nothing to do
    for grant in ledger.lease_parts(1, "n0", 0):
        for number in range(len(grant.splits)):
            done = said(grant, split=number, batches=1, stream=number + 1, done=True)
            assert ledger.progress(1, done, 1) == (True, True)
        assert not ledger.phase_done
        assert ledger.progress(1, over(grant), 1).accepted
        assert ledger.progress(1, over(grant), 1).accepted  # said again
    assert ledger.phase_done and ledger.rows == 30
    ledger.begin(1, "test")
    assert len(ledger.grants(1, "n0", 9, 1)) == 2  # as many splits as other jobs' workers hold
    assert not ledger.grants(1, "n0", 1, 1)[:0]


def test_a_split_that_cannot_be_read_is_left_out_of_its_part() -> None:
    ledger = begun(4, parts=2)
    for attempt in range(3):
        grant = ledger.lease_parts(1, "n0", 100.0 * attempt)[0]
        assert grant.part == 0
        failed = ledger.failed(1, failure(grant.splits[0]), "n0", 100.0 * attempt)
        assert failed.accepted and failed.dead_letter == (attempt == 2)
    behind = ledger.lease_parts(1, "n0", 400)[0]
    assert [g.split for g in behind.splits] == [g.split for g in grant.splits[1:]]


def test_a_part_goes_elsewhere_when_its_split_has_failed_on_a_node() -> None:
    ledger = begun(4, parts=2)
    for grant in ledger.lease_parts(1, "n0", 0):
        ledger.failed(1, failure(grant.splits[0]), "n0", 0)
    ledger.lease_parts(2, "n1", 1)
    assert ledger.lease_parts(1, "n0", 1) == []


def test_only_those_who_hold_up_the_step_are_overdue() -> None:
    ledger = begun(8, parts=2)
    ledger.lease_parts(1, "n0", 0)
    ledger.spread(2)
    (fast,) = ledger.lease_parts(2, "n1", 0)
    ledger.progress(2, said(fast, batches=1, stream=1), 0)
    assert [worker for worker, _ in ledger.overdue(1000, 600)] == [1]


# ---------------------------------------------------------------- cuts


def at(ledger: PartLedger, places: list[dict[int, Place]], closed: int, ended: bool) -> pb.StepsAt:
    """What a server says, given by (index in the stream) -> place."""
    found = pb.StepsAt(epoch=1, closed=closed)
    for stream, known in zip(ledger.streams, places, strict=True):
        part = found.parts.add(batches=sum(p.batches for p in known.values()), ended=ended)
        for number, place in known.items():
            part.splits.add(split=stream[number], batches=place.batches, rows=place.rows)
    return found


def test_a_cut_has_the_positions_of_the_servers_not_of_the_ledger() -> None:
    """The ledger is ahead of the step in one part, and has not heard of the other's progress."""
    ledger = begun(6, parts=2)
    ahead, behind = ledger.lease_parts(1, "n0", 0)
    ledger.progress(1, said(ahead, batches=2, stream=2, done=True), 1)
    ledger.progress(1, said(ahead, split=1, batches=2, stream=4), 1)
    places = [{0: Place(2, 20), 1: Place(1, 10)}, {0: Place(3, 30)}]
    cut = json.loads(json.dumps(ledger.at_steps([at(ledger, places, 3, False)])))
    ledger.restore_cut(cut)
    assert (ledger.rows, ledger.splits_done, ledger.splits_leased) == (60, 1, 0)
    again = ledger.lease_parts(1, "n0", 2)
    assert [(g.batches, g.step) for g in again] == [(3, 3), (3, 3)]
    assert [(g.splits[0].from_batch, g.splits[0].from_rows) for g in again] == [(1, 10), (3, 30)]
    assert again[0].splits[0].split == ahead.splits[1].split
    assert again[1].splits[0].split == behind.splits[0].split


def test_going_back_to_rows_that_nobody_had_told_of_keeps_the_estimate() -> None:
    """Two bytes a row: 6 splits of 100 bytes have 300 rows, in each of 2 epochs."""
    ledger = begun(6, parts=2)
    told, _ = ledger.lease_parts(1, "n0", 0)
    message = said(told, batches=2, stream=2)
    message.bytes = 40
    ledger.progress(1, message, 1)
    assert ledger.rows_total == 600
    places = [{0: Place(4, 40)}, {0: Place(3, 30)}]
    ledger.restore_cut(ledger.at_steps([at(ledger, places, 4, False)]))
    assert (ledger.rows, ledger.rows_total, ledger.bytes) == (70, 600, 140)


def test_where_servers_differ_the_least_counts() -> None:
    ledger = begun(4, parts=1)
    ledger.lease_parts(1, "n0", 0)
    less, more = [{0: Place(2, 20)}], [{0: Place(2, 20), 1: Place(1, 10)}]
    cut = ledger.at_steps([at(ledger, more, 5, False), at(ledger, less, 5, False)])
    ledger.restore_cut(cut)
    (grant,) = ledger.lease_parts(1, "n0", 0)
    assert (grant.batches, grant.step, ledger.rows) == (2, 5, 20)


def test_servers_that_have_not_heard_of_the_epoch_save_at_its_beginning() -> None:
    ledger = begun(6, parts=2)
    over_with = [
        {number: Place(2, 20) for number, _ in enumerate(stream)} for stream in ledger.streams
    ]
    first = at(ledger, over_with, 6, True)
    ledger.begin(2, "train")
    ledger.lease_parts(1, "n0", 0)
    ledger.restore_cut(json.loads(json.dumps(ledger.at_steps([first, first]))))
    assert (ledger.epoch, ledger.rows, ledger.splits_done) == (2, 0, 0)
    again = ledger.lease_parts(1, "n0", 0)
    assert [(g.batches, g.step, len(g.splits)) for g in again] == [(0, 0, 3), (0, 0, 3)]


# ---------------------------------------------------------------- a job in miniature


@dataclass
class Server:
    """The real steps over tables that only count."""

    steps: Steps
    applied: Counter[tuple[int, int, int]] = field(default_factory=Counter)

    def say(self, header: Header, place: Place, split: int) -> Verdict:
        verdict = self.steps.judge(header)
        if verdict is Verdict.TAKE:
            if header.op == Op.END_PART:
                self.steps.end(header.split)
            else:
                self.steps.hold(wire.Message(header._replace(op=Op.PUSH), b"", b"", b""))
                self.steps.announce(header, split, place)
        while self.steps.closable:
            self.steps.close()
        return verdict


@dataclass
class Held:
    """A part in a worker's hand."""

    grant: PartGrant
    batches: int
    step: int
    split: int = 0  # of the grant's
    index: int = 0  # of the split's batches
    told: int = 0  # servers that have heard of the next batch

    @staticmethod
    def of(grant: PartGrant) -> Held:
        first = grant.splits[0].from_batch if grant.splits else 0
        return Held(grant, grant.batches, grant.step, 0, first)


class World:
    """Workers, servers and a ledger; everything dies, and nothing may be lost or done twice."""

    PARTS, SERVERS, EPOCHS = 4, 2, 2

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sizes = [self.random.randrange(0, 5) for _ in range(14)]
        self.train = splits(len(self.sizes))
        self.ledger = self.new_ledger()
        self.begin = self.ledger.snapshot()
        self.servers = [self.new_server() for _ in range(self.SERVERS)]
        self.workers: dict[int, list[Held]] = {}
        self.zombies: list[list[Held]] = []
        self.next_worker = 0
        self.cut: tuple[Any, list[Any]] | None = None
        self.now = 0.0
        self.early = False  # the cut was taken before servers had heard of its epoch
        self.rollbacks = self.back_early = 0
        for _ in range(3):
            self.join()

    def new_ledger(self) -> PartLedger:
        return PartLedger(self.train, parts=self.PARTS, epochs=self.EPOCHS, seed=3)

    def new_server(self) -> Server:
        server: Server

        def apply(step: list[Contribution], number: int) -> None:
            for contribution in step:
                header = contribution.pushes[0].header
                server.applied[header.epoch, header.dim, header.keys] += 1  # split, batch

        server = Server(Steps(self.PARTS, 0, apply))
        return server

    def join(self) -> None:
        self.next_worker += 1
        self.workers[self.next_worker] = []

    # ------------------------------------------------------------ what happens

    def step(self, *, chaos: bool) -> None:
        self.now += 1
        chance = self.random.random()
        if chaos and chance < 0.03:
            mishaps = [self.die, self.die, self.restart_am, self.lose_server, self.save]
            self.random.choice(mishaps)()
        else:
            self.work(self.random.choice(list(self.workers)))
        begun = self.ledger.epoch > 0
        if not begun or (self.ledger.phase_done and self.ledger.epoch < self.EPOCHS):
            self.ledger.begin(self.ledger.epoch + 1, "train")
            if chaos and self.random.random() < 0.5:
                self.save()  # before any server has heard of the epoch

    @property
    def through(self) -> bool:
        return self.ledger.phase_done and self.ledger.epoch == self.EPOCHS

    def work(self, worker: int) -> None:
        parts = self.workers[worker]
        grants = self.ledger.lease_parts(worker, "n0", self.now)
        while not grants and (taken := self.ledger.spread(worker)) is not None:
            for others in self.workers.values():
                others[:] = [h for h in others if h.grant.token != taken.token]
            grants = self.ledger.lease_parts(worker, "n0", self.now)
        parts += [Held.of(grant) for grant in grants]
        if parts:
            self.go_on(worker, min(parts, key=lambda h: (h.step, h.grant.part)))

    def go_on(self, worker: int, held: Held) -> None:
        """Tell one more server of the next batch; commit it when all have heard."""
        grant = held.grant
        while held.split < len(grant.splits):
            split = grant.splits[held.split].split.id
            if held.index < self.sizes[split]:
                break
            self.say(worker, held, done=True)
            held.split, held.index = held.split + 1, 0
        over_now = held.split == len(grant.splits)
        split = 0 if over_now else grant.splits[held.split].split.id
        header = Header(
            Op.END_PART if over_now else Op.ANNOUNCE,
            epoch=grant.epoch,
            split=grant.part,
            token=grant.token,
            batch=held.batches,
            clock=held.step,
            weight=ROWS,
            dim=split,
            keys=held.index,
        )
        place = Place(held.index + 1, ROWS * (held.index + 1))
        verdict = self.servers[held.told].say(header, place, split)
        assert verdict in (Verdict.TAKE, Verdict.WAIT, Verdict.REPEATED, Verdict.STALE)
        if verdict in (Verdict.WAIT, Verdict.STALE):
            assert verdict is Verdict.WAIT or worker not in self.workers
            return
        held.told += 1
        if held.told < self.SERVERS:
            return
        held.told = 0
        if over_now:
            answer = self.ledger.progress(worker, over(grant), self.now)
            assert answer.accepted == (worker in self.workers)
            self.workers.get(worker, [held]).remove(held)
            return
        held.index, held.batches, held.step = held.index + 1, held.batches + 1, held.step + 1
        if self.random.random() < 0.5:  # told now and then
            self.say(worker, held)

    def say(self, worker: int, held: Held, *, done: bool = False) -> None:
        message = said(
            held.grant, split=held.split, batches=held.index, stream=held.batches, done=done
        )
        answer = self.ledger.progress(worker, message, self.now)
        assert answer.accepted == (worker in self.workers), "a zombie was heard"

    # ------------------------------------------------------------ mishaps

    def die(self) -> None:
        worker = self.random.choice(list(self.workers))
        parts = self.workers.pop(worker)
        revoked = self.ledger.lost(worker)
        assert {r.token for r in revoked} == {h.grant.token for h in parts}
        for held in parts[:1]:  # a message of the dead that was under way
            self.go_on(-worker, held)
        self.join()

    def restart_am(self) -> None:
        data = json.loads(json.dumps(self.ledger.snapshot()))
        self.ledger = self.new_ledger()
        self.ledger.restore(data)
        assert json.loads(json.dumps(self.ledger.snapshot())) == data

    def save(self) -> None:
        """Stop, agree on a step, reach it, save, go on."""
        if self.ledger.epoch == 0 or self.ledger.phase_done:
            return
        for server in self.servers:
            server.steps.stop_at(server.steps.epoch, server.steps.closed)
        target = max((s.steps.epoch, s.steps.closed) for s in self.servers)
        for server in self.servers:
            server.steps.stop_at(*target)
        for _ in range(300):
            if all(server.steps.at_limit for server in self.servers):
                break
            self.work(self.random.choice(list(self.workers)))
        assert all(server.steps.at_limit for server in self.servers), "the step is never reached"
        ledger = self.ledger.at_steps([server.steps.positions() for server in self.servers])
        saved = [(s.steps.snapshot(), s.applied.copy()) for s in self.servers]
        self.cut = json.loads(json.dumps(ledger)), saved
        self.early = target[0] < self.ledger.epoch
        for server in self.servers:
            server.steps.go_on()
            while server.steps.closable:
                server.steps.close()

    def lose_server(self) -> None:
        """A rollback: all servers and the ledger go back to the cut."""
        self.rollbacks += 1
        self.back_early += self.early
        ledger, saved = self.cut or (self.begin, [])
        self.servers = [self.new_server() for _ in range(self.SERVERS)]
        for server, (steps, applied) in zip(self.servers, saved, strict=False):
            server.steps.restore(json.loads(json.dumps(steps)))
            server.applied.update(applied)
        self.ledger.restore_cut(ledger)
        for parts in self.workers.values():
            parts.clear()


def test_some_cuts_are_taken_before_servers_have_heard_of_the_epoch() -> None:
    """The jobs in miniature go back to such cuts, too."""
    worlds = [World(seed) for seed in range(10)]
    for world in worlds:
        for _ in range(1500):
            world.step(chaos=True)
    assert sum(world.back_early for world in worlds) >= 3


@pytest.mark.parametrize("seed", range(30))
def test_every_batch_of_every_epoch_is_applied_once(seed: int) -> None:
    world = World(seed)
    for _ in range(1500):
        world.step(chaos=True)
    for _ in range(5000):
        if world.through:
            break
        world.step(chaos=False)
    assert world.through, "it hangs"
    assert world.ledger.rows == world.EPOCHS * ROWS * sum(world.sizes)
    wanted = Counter(
        (epoch, split, batch)
        for epoch in range(1, world.EPOCHS + 1)
        for split, size in enumerate(world.sizes)
        for batch in range(size)
    )
    for server in world.servers:
        assert server.applied == wanted
