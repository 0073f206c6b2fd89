"""The steps of bulk synchronous training, as a server closes them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from engine_values import (
    SHARDS,
    Peer,
    as_bytes,
    of,
    service,
    sorted_by_shard,
    sparse,
    text,
)

from yarnps.protocol import wire
from yarnps.protocol.tables import Adagrad, Add, Sgd, TableSpec
from yarnps.protocol.wire import Code, Flag, Op
from yarnps.server.dense import DenseTable, Stretch
from yarnps.server.service import Service
from yarnps.server.steps import Steps
from yarnps.server.store import Store
from yarnps.server.summing import apply_step

PARTS = 3
KEYS = np.arange(40)
STEP = int(Flag.STEP | Flag.LEASED)


def stepping(parts: int = PARTS, spare: int = 0) -> Service:
    served = service()
    served.steps = Steps(parts, spare, lambda all_, step: apply_step(served.store, all_, step))
    return served


class Part(Peer):
    """A worker that holds one part."""

    def __init__(self, served: Service, number: int, token: int = 1) -> None:
        self.number, self.token = number, token
        self.batch = self.step = 0
        self.crowd = {b"%d" % (100 * token + number): self}
        super().__init__(served, 100 * token + number)

    def send(self, frames: list[Any], now: float = 0.0) -> wire.Message | None:
        for reply in self.served.handle(self.identity, frames, now):
            message = wire.decode(reply.frames)
            if (peer := self.crowd.get(reply.peer)) is not None:
                peer.answers[message.header.request] = message
        return self.answers.get(self.requests)

    def at(self, **fields: Any) -> dict[str, Any]:
        known = {
            "flags": STEP,
            "epoch": 1,
            "split": self.number,
            "token": self.token,
            "batch": self.batch,
            "clock": self.step,
        }
        return {**known, **fields}

    def gives(self, spec: TableSpec, values: Any, keys: Any = KEYS, **fields: Any) -> wire.Message:
        return self.push(spec, keys, values, **self.at(**fields))

    def announces(self, rows: int = 10, **fields: Any) -> wire.Message:
        place = np.array([self.number, self.batch + 1, rows * (self.batch + 1)], np.int64)
        return self.ask(Op.ANNOUNCE, keys=place, **self.at(weight=rows, **fields))

    def ends(self) -> wire.Message:
        return self.ask(Op.END_PART, **self.at())

    def goes_on(self) -> None:
        self.batch += 1
        self.step += 1

    def wants(self, spec: TableSpec, keys: Any = KEYS) -> wire.Message | None:
        """A pull, which may have to wait."""
        ordered, sections, _ = sorted_by_shard(keys)
        header = self.header(Op.PULL, **of(spec), **self.at())
        return self.send(wire.encode(header, as_bytes(sections), as_bytes(ordered)))


def parts_of(served: Service, spec: TableSpec, count: int = PARTS) -> list[Part]:
    parts = [Part(served, number) for number in range(count)]
    parts[0].open(spec)
    return parts


def weights(served: Service, spec: TableSpec, keys: Any = KEYS) -> Any:
    return Peer(served, 999).pull(spec, keys)[:, 0]


def ops(messages: Sequence[wire.Message]) -> list[int]:
    return [message.header.op for message in messages]


# ---------------------------------------------------------------- closing


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_arrival_changes_nothing(seed: int) -> None:
    """Parts and their pushes in any order: the sum is that of the parts' order, to the last bit."""
    found = []
    for shuffled in (False, True):
        rng, order = np.random.default_rng(seed), random.Random(seed)
        served = stepping()
        spec = sparse(dtype="float64", optimizer=Adagrad(0.1))
        parts = parts_of(served, spec)
        for _ in range(5):
            grads = [rng.normal(size=(2, len(KEYS))) for _ in parts]
            for part in order.sample(parts, PARTS) if shuffled else parts:
                for push in order.sample(range(2), 2) if shuffled else range(2):
                    part.gives(spec, grads[part.number][push], push=push, weight=7)
                assert part.announces(7 + part.number).header.op == Op.OK
                part.goes_on()
        found.append(weights(served, spec))
    assert np.array_equal(*found) and found[0].any()


def test_gradients_are_averaged_by_rows_and_the_optimizer_runs_once() -> None:
    served = stepping()
    spec = sparse(dtype="float64", optimizer=Adagrad(0.5, epsilon=1e-10))
    grads, rows = np.random.default_rng(1).normal(size=(PARTS, len(KEYS))), (10, 30, 5)
    for part in parts_of(served, spec):
        part.gives(spec, grads[part.number])
        part.announces(rows[part.number])
    mean = np.average(grads, axis=0, weights=rows)
    expected = -0.5 * mean / (np.abs(mean) + 1e-10)
    np.testing.assert_allclose(weights(served, spec), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "combine", "expected"),
    [(Add(), None, 6.0), (Sgd(1.0), None, -2.0), (Sgd(1.0), "sum", -6.0), (Add(), "mean", 2.0)],
)
def test_a_table_says_how_its_parts_are_combined(
    optimizer: Any, combine: Any, expected: float
) -> None:
    served = stepping()
    spec = sparse(optimizer=optimizer, combine=combine)
    for part in parts_of(served, spec):
        part.gives(spec, np.full(len(KEYS), part.number + 1))
        part.announces()
    assert (weights(served, spec) == expected).all()


def test_one_part_is_the_plain_push_to_the_last_bit() -> None:
    grads = np.random.default_rng(2).normal(size=len(KEYS)).astype(np.float32)
    served, plain = stepping(parts=1), Peer(service())
    spec = sparse(optimizer=Adagrad(0.1))
    (part,) = parts_of(served, spec, 1)
    plain.open(spec)
    for _ in range(3):
        part.gives(spec, grads)
        part.announces(17)
        part.goes_on()
        plain.push(spec, KEYS, grads)
    assert np.array_equal(weights(served, spec), plain.pull(spec, KEYS)[:, 0])


def test_parts_with_other_keys_and_none_at_all() -> None:
    served = stepping()
    spec = sparse(dtype="float64", optimizer=Sgd(1.0))
    one, two, three = parts_of(served, spec)
    one.gives(spec, np.full(10, 3.0), KEYS[:10])
    two.gives(spec, np.full(10, 6.0), KEYS[5:15])
    for part in (one, two, three):
        part.announces()
    expected = np.zeros(len(KEYS))
    expected[:10] -= 1
    expected[5:15] -= 2
    np.testing.assert_allclose(weights(served, spec), expected, rtol=1e-12, atol=0)
    assert served.store.table(wire.Header(0, table=wire.table_id("w"))).rows == 15


def test_a_dense_table_steps_only_where_it_was_pushed() -> None:
    spec = TableSpec("b", "dense", (100,), "float64", optimizer=Adagrad(1.0))
    store = Store(list(range(SHARDS)), SHARDS)
    table = store.open(spec)
    assert isinstance(table, DenseTable)
    steps = Steps(2, 0, lambda all_, step: apply_step(store, all_, step))
    bounds = table.bounds_of(spec, SHARDS)
    for number, (first, end, value) in enumerate([(10, 40, 2.0), (30, 60, 4.0)]):
        low = np.clip(bounds[:-1], first, end)
        high = np.clip(bounds[1:], first, end)
        sections = np.stack([np.arange(SHARDS), high > low], axis=1).astype(np.uint32)
        keys = np.stack([low, high], axis=1)[high > low].reshape(-1)
        header = wire.Header(
            Op.PUSH,
            flags=int(Flag.STEP | Flag.LEASED | Flag.RANGES),
            table=wire.table_id("b"),
            dtype=int(wire.DType.FLOAT64),
            dim=1,
            epoch=1,
            split=number,
            clock=0,
            weight=1,
        )
        steps.judge(header)
        steps.hold(wire.Message(header, sections, keys, np.full(end - first, value)))
        steps.announce(header, 0, (1, 1))  # type: ignore[arg-type]
    assert steps.closable
    steps.close()
    moved = table.pull([Stretch(0, 100, 0)])
    # The mean over both parts' rows is 1, 1 + 2 or 2: Adagrad's first step is 1 for each of them.
    assert (moved[:10] == 0).all() and (moved[60:] == 0).all()
    np.testing.assert_allclose(moved[10:60], -1, rtol=1e-9)


def test_the_last_assignment_in_the_order_of_parts_stands() -> None:
    served = stepping()
    spec = sparse(optimizer=Add())
    parts = parts_of(served, spec)
    for part in reversed(parts):
        ordered, sections, _ = sorted_by_shard(KEYS)
        rows = np.full((len(KEYS), 1), part.number + 1, np.float32)
        part.ask(Op.ASSIGN, shards=sections, keys=ordered, values=rows, **of(spec), **part.at())
        part.announces()
    assert (weights(served, spec) == PARTS).all()


# ---------------------------------------------------------------- waiting


def test_a_pull_waits_for_the_close_of_the_step_before() -> None:
    served = stepping()
    spec = sparse(optimizer=Add())
    one, two, three = parts_of(served, spec)
    for part in (one, two):
        part.gives(spec, np.ones(len(KEYS)))
        part.announces()
        part.goes_on()
        assert part.wants(spec) is None
    assert served.waiting == 2
    assert (weights(served, spec) == 0).all()  # held, not applied
    three.gives(spec, np.ones(len(KEYS)))
    assert served.waiting == 2  # not announced yet
    three.announces()
    assert served.waiting == 0
    assert (weights(served, spec) == PARTS).all()


def test_pushes_for_a_later_step_wait_too() -> None:
    """A program that never pulls is held back by its acknowledgements."""
    served = stepping(2)
    spec = sparse(optimizer=Add())
    one, two = parts_of(served, spec, 2)
    one.gives(spec, np.ones(len(KEYS)))
    one.announces()
    one.goes_on()
    ordered, sections, _ = sorted_by_shard(KEYS)
    rows = np.ones((len(KEYS), 1), np.float32).tobytes()
    header = one.header(Op.PUSH, **of(spec), **one.at())
    assert one.send(wire.encode(header, as_bytes(sections), as_bytes(ordered), rows)) is None
    two.gives(spec, np.ones(len(KEYS)))
    two.announces()
    assert served.waiting == 0
    assert (weights(served, spec) == 2).all()


def test_a_wait_that_is_too_long_names_the_parts_that_are_missing() -> None:
    served = stepping()
    spec = sparse(optimizer=Add())
    one, *_ = parts_of(served, spec)
    one.announces()
    one.goes_on()
    assert one.wants(spec) is None
    (reply,) = served.expire(served.request_limit + 1)
    answer = wire.decode(reply.frames)
    assert answer.header.code == Code.GATE
    assert "step 0 of epoch 1 is open; parts that are missing: 1, 2" in text(answer)


def test_parts_that_have_ended_are_not_waited_for() -> None:
    served = stepping()
    spec = sparse(optimizer=Add())
    one, two, three = parts_of(served, spec)
    three.ends()
    for _ in range(2):
        for part in (one, two):
            part.gives(spec, np.ones(len(KEYS)))
            part.announces()
            part.goes_on()
    two.ends()
    one.gives(spec, np.ones(len(KEYS)))
    one.announces()
    one.goes_on()
    one.ends()
    assert served.steps is not None and served.steps.finished
    assert (weights(served, spec) == 5).all()
    # The next epoch begins with whoever comes first, with all parts.
    three.batch = three.step = 0
    assert three.gives(spec, np.ones(len(KEYS)), epoch=2).header.op == Op.OK
    assert (served.steps.epoch, served.steps.closed) == (2, 0)


def test_a_new_epoch_waits_for_the_end_of_the_old_one() -> None:
    served = stepping(2)
    spec = sparse(optimizer=Add())
    one, two = parts_of(served, spec, 2)
    one.announces()
    one.goes_on()
    ended = one.ends()
    assert ended.header.op == Op.OK
    header = one.header(Op.END_PART, **one.at(epoch=2))
    assert one.send(wire.encode(header)) is None
    two.announces()
    two.goes_on()
    two.ends()
    assert served.waiting == 0 and served.steps is not None and served.steps.epoch == 2


# ---------------------------------------------------------------- repeated, stale, late


def test_repeated_messages_change_nothing() -> None:
    served = stepping(2)
    spec = sparse(optimizer=Add())
    one, two = parts_of(served, spec, 2)
    for _ in range(3):
        one.gives(spec, np.ones(len(KEYS)))
        one.announces()
    two.gives(spec, np.ones(len(KEYS)))
    two.announces()
    for part in (one, two):  # and again when the step is closed
        assert part.gives(spec, np.ones(len(KEYS))).header.op == Op.OK
        assert part.announces().header.op == Op.OK
    assert (weights(served, spec) == 2).all()
    assert served.steps is not None and served.steps.closed == 1
    assert served.store.duplicates == 4


def test_whoever_takes_a_part_over_goes_on_with_it() -> None:
    """The first holder dies between its push and its announcement, or after that unheard."""
    served = stepping(2)
    spec = sparse(optimizer=Add())
    one, two = parts_of(served, spec, 2)
    one.gives(spec, np.ones(len(KEYS)))
    heir = Part(served, 0, token=2)
    heir.gives(spec, np.ones(len(KEYS)))
    assert ops([one.gives(spec, np.ones(len(KEYS))), one.announces()]) == [Op.STALE_LEASE] * 2
    heir.announces()
    two.gives(spec, np.ones(len(KEYS)))
    two.announces()
    assert (weights(served, spec) == 2).all()
    third = Part(served, 0, token=3)  # has not heard of the heir's batch
    third.gives(spec, np.ones(len(KEYS)))
    third.announces()
    assert (weights(served, spec) == 2).all()


def test_a_late_part_is_told_and_done_again_in_a_later_step() -> None:
    served = stepping(spare=1)
    spec = sparse(optimizer=Add())
    one, two, slow = parts_of(served, spec)
    slow.gives(spec, np.full(len(KEYS), 100.0))  # not all that it has for the step
    for part in (one, two):
        part.gives(spec, np.ones(len(KEYS)))
        part.announces()
        part.goes_on()
    assert (weights(served, spec) == 2).all()
    late = slow.announces()
    assert (late.header.op, late.header.clock) == (Op.LATE, 1)
    slow.step = late.header.clock
    for part in (slow, one):
        part.gives(spec, np.full(len(KEYS), 10.0))
        part.announces()
        part.goes_on()
    assert (weights(served, spec) == 22).all()
    assert served.steps is not None and served.steps.late == 1


def test_with_spare_parts_the_last_one_alive_is_waited_for() -> None:
    served = stepping(spare=2)
    spec = sparse(optimizer=Add())
    one, two, three = parts_of(served, spec)
    one.ends()
    two.ends()
    three.gives(spec, np.ones(len(KEYS)))
    assert served.steps is not None and not served.steps.closable
    three.announces()
    assert (weights(served, spec) == 1).all()


class Spares:
    """One worker for each part, several servers, and all that happens in a random order."""

    def __init__(self, seed: int, *, spare: int) -> None:
        self.random = random.Random(seed)
        self.batches = [3 + seed % 3, 5, 8]
        self.spec = sparse(dtype="float64", optimizer=Add())
        self.servers = [stepping(PARTS, spare) for _ in range(3)]
        self.late = 0
        self.parts = []
        crowds: list[dict[bytes, Part]] = [{} for _ in self.servers]
        for number in range(PARTS):
            peers = [Part(server, number) for server in self.servers]
            for peer, crowd in zip(peers, crowds, strict=True):
                peer.crowd = crowd
                crowd[peer.identity] = peer
                peer.open(self.spec)
            self.parts.append(peers)

    def run(self) -> None:
        programs = [self.program(number) for number in range(PARTS)]
        for _ in range(20_000):
            if not programs:
                return
            program = self.random.choice(programs)
            if next(program, None) is None:
                programs.remove(program)
        raise AssertionError("it hangs")

    def program(self, number: int) -> Iterator[bool]:
        """One part's stream; at every `yield` others may go first."""
        step = batch = 0
        while batch < self.batches[number]:
            answered: list[wire.Message] = []
            yield from self.pulled(number, batch, step)
            for peer in self.random.sample(self.parts[number], len(self.servers)):
                yield True
                answered.append(peer.gives(self.spec, [1.0], [number]))
            for peer in self.random.sample(self.parts[number], len(self.servers)):
                yield True
                answered.append(peer.announces())
            late = [a.header.clock for a in answered if a.header.op == Op.LATE]
            self.late += bool(late)
            step = max(step + 1, *late) if late else step + 1
            batch += not late
        for peer in self.parts[number]:
            peer.batch, peer.step = batch, step
            yield True
            peer.ends()

    def pulled(self, number: int, batch: int, step: int) -> Iterator[bool]:
        """A pull from every server, which may have to wait for the step."""
        for peer in self.parts[number]:
            peer.batch, peer.step = batch, step
            peer.wants(self.spec, [number])
        while any(peer.requests not in peer.answers for peer in self.parts[number]):
            yield True


@pytest.mark.parametrize("spare", [0, 1, 2])
@pytest.mark.parametrize("seed", range(15))
def test_every_server_applies_every_batch_once_however_late(seed: int, spare: int) -> None:
    """Servers differ in which parts a step had; no batch is lost or applied twice on any."""
    world = Spares(seed, spare=spare)
    world.run()
    for server in world.servers:
        assert weights(server, world.spec, list(range(PARTS))).tolist() == world.batches
        assert server.steps is not None and server.steps.finished
        if spare == 0:
            assert server.steps.closed == max(world.batches)
    assert (world.late > 0) == (spare > 0)
