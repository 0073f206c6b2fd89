"""Small calls that share messages: what each of them means stays the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_harness import client_of_servers

from yarnps._errors import ServerRefused
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.shards import frozen, shard_numbers
from yarnps.protocol.tables import Adagrad, Add, Optimizer, Sgd, TableSpec
from yarnps.protocol.wire import Header, Message, Op
from yarnps.worker import gather
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.gather import Sharing
from yarnps.worker.routing import Part, Router
from yarnps.worker.tables import CurrentBatch, SparseTable


class World:
    """Servers, a client, and a count of the messages that it sends."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def table(self, name: str, optimizer: Optimizer, dim: int = 1, **more: Any) -> SparseTable:
        spec = TableSpec(name, "sparse", (dim,), "float64", optimizer, **more)
        self.client.open(spec)
        return SparseTable(self.client, spec, CurrentBatch())

    @property
    def messages(self) -> int:
        """Number of the next request."""
        return next(self.client._numbers)


@pytest.fixture(scope="module", params=[1, 3])
def world(request: Any, tmp_path_factory: Any) -> Iterator[World]:
    with client_of_servers(tmp_path_factory.mktemp("gather"), request.param) as client:
        yield World(client)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine makes pauses between calls; these tests are about calls without."""
    monkeypatch.setattr(gather, "PAUSE_S", 60.0)


def test_keys_in_one_message_go_to_their_own_servers() -> None:
    """Servers in any order, one of them without a shard."""
    owner = [shard % 3 for shard in range(16)]
    routes = pb.Routes(owner=owner)
    for rank in (7, 2, 5, 1):
        routes.servers.add(server_rank=rank)
    router = Router(routes)
    keys = frozen(np.random.default_rng(3).integers(-100, 100, 60))
    values = frozen(np.arange(120.0).reshape(60, 2))
    spec = TableSpec("few", "sparse", (2,), "float64")
    parts = router.small(keys, values, spec)
    assert [part.server for part in parts] == [2, 5, 7]
    assert sorted(np.concatenate([part.places for part in parts])) == list(range(60))
    for part in parts:
        np.testing.assert_array_equal(part.keys, keys[part.places])
        np.testing.assert_array_equal(part.values, values[part.places])
        shards = shard_numbers(part.keys, 4)
        assert set(router.owner[shards]) == {part.server}
        named, counts = part.sections.T
        np.testing.assert_array_equal(np.repeat(named, counts), shards)
        assert len(set(named)) == len(named)
        # Repeated keys stay in the order in which they were given.
        for key in set(part.keys):
            assert (np.diff(part.places[part.keys == key]) > 0).all()


class Sent:
    """In the place of a client: keeps what is sent, and answers when it is told to."""

    def __init__(self) -> None:
        routes = pb.Routes(owner=[0] * 16)
        routes.servers.add(server_rank=0)
        self.router = Router(routes)
        self.lock = threading.RLock()
        self.broken = None
        self.under_way: list[Call] = []
        self.sharing = Sharing(self)
        self.kind = gather.Kind(Header(Op.PUSH), TableSpec("w", "sparse", (1,)), "push to table w")

    def submit(self, call: Call, parts: list[Part]) -> Call:
        assert len(parts) == 1
        call.left = 1
        self.under_way.append(call)
        return call

    def wait(self, call: Call, timeout: float | None = None) -> None:
        raise AssertionError("nobody waits here")

    def push(self, calls: int) -> None:
        for key in range(calls):
            self.sharing.share(self.kind, np.array([key]), np.ones((1, 1), np.float32))

    @property
    def sizes(self) -> list[int]:
        """Calls in each message that has no answer."""
        return [call.calls for call in self.under_way if isinstance(call, gather.Shared)]

    def answer(self) -> None:
        """To the message that was sent first."""
        nothing = Part(0, np.empty((0, 2), np.uint32), None, None, None)
        self.under_way.pop(0).answered(nothing, Message(Header(Op.OK), b"", b"", b""))


def test_how_many_calls_are_under_way_at_a_time_is_learnt() -> None:
    sent = Sent()
    sent.push(64)
    assert sent.sizes == [1, 16, 17]
    sent.sharing.flush()
    for _ in range(4):
        sent.answer()
    sent.push(64)
    assert sent.sizes == [32, 32]
    sent.answer()
    sent.answer()
    # One that somebody waits for goes at once, and the next one by itself.
    sent.push(1)
    assert sent.sizes == []
    sent.sharing.flush()
    sent.answer()
    sent.push(1)
    assert sent.sizes == [1]


def test_a_wait_sends_what_is_wanted_or_enough_and_lets_little_grow() -> None:
    sent = Sent()
    sent.push(34)
    assert sent.sizes == [1, 16, 17]
    sent.push(3)
    gathered, first = sent.sharing._gathered, sent.under_way[0]
    assert gathered is not None and gathered.calls == 3
    assert sent.sharing.may_grow(first)
    assert not sent.sharing.may_grow(gathered)
    sent.push(14)  # as much as half of what the server has to do
    assert not sent.sharing.may_grow(first)


def test_after_a_pause_a_call_is_sent_whatever_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent()
    sent.push(64)
    sent.sharing.flush()
    for _ in range(4):
        sent.answer()
    monkeypatch.setattr(gather, "PAUSE_S", -1.0)
    sent.push(1)
    assert sent.sizes == [1]


def test_many_calls_need_few_messages(world: World) -> None:
    table = world.table("few", Add())
    before = world.messages
    pushes = [table.push([n % 7], [1.0]) for n in range(64 * 3)]
    assert not any(push.done() for push in pushes[1:])
    for push in pushes:
        assert push.wait() is None
    # The first, 16, then as many as are under way (17, 34, 68), and the rest; each but the first
    # may be for every server. The count itself takes a number.
    assert world.messages - before <= 2 + 5 * len(world.client.router.servers)
    got = table.pull(np.arange(7)).wait()
    np.testing.assert_array_equal(got, [28, 28, 28, 27, 27, 27, 27])


def test_each_pull_has_its_own_answer(world: World) -> None:
    table = world.table("own", Add(), dim=3)
    keys = np.arange(100)
    values = np.random.default_rng(0).normal(size=(100, 3))
    table.push(keys, values).wait()
    order = np.random.default_rng(1).permutation(100)
    pulls = [table.pull(order[n : n + 1 + n % 8]) for n in range(90)]
    for n, pull in enumerate(pulls):
        np.testing.assert_array_equal(pull.wait(), values[order[n : n + 1 + n % 8]])


def test_a_pull_sees_the_pushes_before_it_and_not_those_after(world: World) -> None:
    table = world.table("order", Add())
    pulls = []
    for _ in range(30):
        table.push([5], [1.0])
        table.push([6], [1.0])
        pulls.append(table.pull([5, 6]))
    assert [p.wait().tolist() for p in pulls] == [[n, n] for n in range(1, 31)]


@pytest.mark.parametrize("optimizer", [Adagrad(0.1), Sgd(0.1), Add()], ids=lambda o: o.name)
def test_pushes_of_one_key_in_one_message_are_applied_one_after_another(
    world: World, optimizer: Optimizer
) -> None:
    """Adagrad would take another step if they were summed."""
    together = world.table(f"together {optimizer.name}", optimizer)
    apart = world.table(f"apart {optimizer.name}", optimizer)
    grads = np.random.default_rng(2).normal(size=50)
    futures = [together.push([9], [grad]) for grad in grads]
    for grad in grads:
        apart.push([9], [grad]).wait()
    for future in futures:
        future.wait()
    np.testing.assert_allclose(together.pull([9]).wait(), apart.pull([9]).wait(), rtol=1e-12)


def test_one_bad_call_is_refused_and_the_others_count(world: World) -> None:
    table = world.table("bad", Add())
    pushes = [table.push([1], [np.nan if n == 17 else 1.0]) for n in range(40)]
    for n, push in enumerate(pushes):
        if n == 17:
            with pytest.raises(ServerRefused, match="NaN"):
                push.wait()
        else:
            push.wait()
    assert table.pull([1]).wait().tolist() == [39.0]


def test_a_call_is_sent_at_once_when_nothing_is_under_way(world: World) -> None:
    table = world.table("alone", Add())
    table.pull([1]).wait()
    assert world.client.outstanding == 0
    push = table.push([1], [1.0])
    assert world.client.outstanding == 1
    push.wait()


def test_a_call_after_a_pause_is_sent_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.table("pause", Add())
    monkeypatch.setattr(gather, "PAUSE_S", -1.0)
    before = world.messages
    pushes = [table.push([1], [1.0]) for _ in range(5)]
    assert world.messages - before == 6
    for push in pushes:
        push.wait()


def test_what_counts_as_a_whole_keeps_its_own_message(world: World) -> None:
    momentum = TableSpec("m", "sparse", (1,), optimizer=Sgd(0.1, momentum=0.9))
    assert gather.may_share(TableSpec("a", "sparse", (1,), optimizer=Add()))
    assert not gather.may_share(TableSpec("a", "sparse", (1,), admit=2))
    assert not gather.may_share(TableSpec("a", "sparse", (1,), nonfinite="skip"))
    assert gather.may_share(momentum) == (not momentum.optimizer.counts_steps)
    repeated = world.table("wide", Add(), dim=200)
    before = world.messages
    for push in [repeated.push([n], np.ones((1, 200))) for n in range(4)]:
        push.wait()
    assert world.messages - before == 5


def test_the_callers_arrays_are_free_at_once(world: World) -> None:
    table = world.table("free", Add())
    keys, values = np.array([3]), np.array([1.0])
    first = table.push(keys, values)
    second = table.push(keys, values)
    keys[0], values[0] = 4, 9.0
    first.wait()
    second.wait()
    assert table.pull([3, 4]).wait().tolist() == [2.0, 0.0]


def test_a_small_pull_in_a_batch_says_where_the_batch_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers let it wait for that; calls for another place do not share its message."""
    table = world.table("step", Add())
    kinds = []
    share = world.client.sharing.share

    def noted(kind: gather.Kind, *rest: Any) -> Any:
        kinds.append(kind)
        return share(kind, *rest)

    monkeypatch.setattr(world.client.sharing, "share", noted)
    for step in (3, 4):
        batch: Any = SimpleNamespace(
            phase="train",
            part=None,
            lease=None,
            in_step=lambda header, step=step: header._replace(batch=step),
        )
        monkeypatch.setattr(table._batches, "now", batch)
        table.pull([1])
    monkeypatch.setattr(table._batches, "now", None)
    table.pull([1]).wait()
    assert [kind.header.batch for kind in kinds] == [3, 4, 0]


def test_settling_waits_for_what_nobody_has_waited_for(world: World) -> None:
    table = world.table("unasked", Add())
    for key in range(200):
        table.push([key % 10], [1.0])
    world.client.settle()
    assert world.client.outstanding == 0
    assert table.pull(list(range(10))).wait().tolist() == [20.0] * 10


@pytest.mark.parametrize("calls", [1, 40])
def test_a_refusal_that_nobody_has_heard_of_is_told_in_the_end(
    tmp_path_factory: Any, calls: int
) -> None:
    with client_of_servers(tmp_path_factory.mktemp("unheard"), 1) as client:
        table = World(client).table("unheard", Add())
        for number in range(calls):
            table.push([number], [np.nan if number == calls // 2 else 1.0])
        with pytest.raises(ServerRefused, match="push to table unheard"):
            client.settle()


def test_a_refusal_that_was_heard_is_not_told_again(tmp_path_factory: Any) -> None:
    with client_of_servers(tmp_path_factory.mktemp("heard"), 1) as client:
        table = World(client).table("heard", Add())
        futures = [table.push([number], [np.nan]) for number in range(3)]
        for future in futures:
            with pytest.raises(ServerRefused):
                future.wait()
        client.settle()
