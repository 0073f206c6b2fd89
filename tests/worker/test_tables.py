"""Tables through a real client and real server processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_harness import TOKEN, Player, playing, write_input

from yarnps._errors import ClusterError, InputError, ServerRefused
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol import wire
from yarnps.protocol.stream import Memory, Reader
from yarnps.protocol.tables import (
    Adam,
    Add,
    Clip,
    Ftrl,
    Init,
    Normal,
    Optimizer,
    Sgd,
    TableSpec,
    Zeros,
)
from yarnps.worker import routing
from yarnps.worker.client import Client
from yarnps.worker.tables import CurrentBatch, DenseTable, SparseTable


class World:
    """Servers, and a client of this process."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.begin = pb.Begin()
        self.begin.CopyFrom(player._begin(player.of("server", 0)))
        self.begin.incarnation.id = 4711
        self.client = Client(self.begin, request_limit=30.0)

    def sparse(self, name: str, dim: int = 1, **settings: Any) -> SparseTable:
        return SparseTable(
            self.client, self._open(name, "sparse", (dim,), **settings), CurrentBatch()
        )

    def dense(self, name: str, *shape: int, **settings: Any) -> DenseTable:
        return DenseTable(self.client, self._open(name, "dense", shape, **settings), CurrentBatch())

    def _open(
        self,
        name: str,
        kind: Any,
        shape: tuple[int, ...],
        dtype: str = "float64",
        optimizer: Optimizer | None = None,
        init: Init | None = None,
        **policies: Any,
    ) -> TableSpec:
        spec = TableSpec(name, kind, shape, dtype, optimizer or Add(), init or Zeros(), **policies)
        self.client.open(spec)
        return spec


@pytest.fixture(scope="module", params=[1, 3])
def world(request: Any, tmp_path_factory: Any) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("tables")
    block = {"data": {"train": write_input(folder / "in", 1, 1)}}
    with playing(folder, block, "", servers=request.param, start=False) as player:
        for rank in range(player.servers):
            player.start_server(rank)
        player.wait(lambda: all(s.address for s in player._routes.servers), "ready")
        world = World(player)
        yield world
        world.client.close()


def test_unsorted_and_repeated_keys(world: World) -> None:
    table = world.sparse("repeated", dim=2)
    keys = [5, -7, 5, 2**63 - 1, -(2**63), 5]
    values = np.arange(12.0).reshape(6, 2)
    table.push(keys, values).wait()
    got = table.pull(keys).wait()
    total = values[0] + values[2] + values[5]
    np.testing.assert_array_equal(got, [total, values[1], total, values[3], values[4], total])
    assert table.size().wait()[0] == 4
    assert table.contains([5, 6, -7]).wait().tolist() == [1, 0, 1]


def test_dim_one_is_flat(world: World) -> None:
    table = world.sparse("flat")
    table.push(np.array([3, 1]), [1.0, 2.0]).wait()
    assert table.pull([1, 2, 3]).wait().tolist() == [2.0, 0.0, 1.0]


def test_empty_calls(world: World) -> None:
    table = world.sparse("empty", dim=3)
    assert table.push([], np.empty((0, 3))).wait() is None
    assert table.pull([]).wait().shape == (0, 3)
    assert table.pull([]).done()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [1, 2, 17, 3000])
def test_any_dim_and_both_dtypes(world: World, dim: int, dtype: str) -> None:
    table = world.sparse(f"{dim} {dtype}", dim, dtype=dtype)
    rng = np.random.default_rng(dim)
    keys = rng.integers(-(2**63), 2**63 - 1, 200)
    keys[:3] = [-(2**63), 2**63 - 1, -1]
    keys[100:150] = keys[:50]
    values = rng.integers(-9, 9, (200, dim)).astype(dtype)
    flat = values[:, 0] if dim == 1 else values
    table.push(keys, flat).wait()
    unique, places = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(unique), dim), dtype)
    np.add.at(sums, places, values)
    out = np.full(flat.shape, 77, dtype)
    found = table.pull(keys, out=out).wait()
    assert found.dtype == dtype and np.shares_memory(found, out)
    np.testing.assert_array_equal(out.reshape(200, dim), sums[places])
    exported, rows = table.export().wait()
    np.testing.assert_array_equal(exported, unique)
    np.testing.assert_array_equal(rows.reshape(-1, dim), sums)


def test_every_call_has_a_future(world: World) -> None:
    """Ten of them under way at once; answers are asked for in another order."""
    table, dense = world.sparse("futures"), world.dense("dense futures", 50)
    futures = [
        table.assign([1, 2], [5.0, 6.0]),
        table.push([1], [1.0]),
        table.push_pull([2], [1.0]),
        table.pull([1, 2, 3]),
        table.contains([1, 2, 3]),
        table.size(),
        table.export(),
        table.clear(),
        table.size(),
        dense.push_pull(np.ones(50)),
    ]
    answers = [future.wait() for future in reversed(futures)][::-1]
    assert all(future.done() for future in futures)
    assert answers[:2] == [None, None] and answers[7] is None
    assert answers[2].tolist() == [7.0] and answers[3].tolist() == [6.0, 7.0, 0.0]
    assert answers[4].tolist() == [1, 1, 0] and answers[5][0] == 2 and answers[8][0] == 0
    assert [a.tolist() for a in answers[6]] == [[1, 2], [6.0, 7.0]]
    assert answers[9].tolist() == [1.0] * 50


def test_the_norm_of_a_push_is_limited_before_it_is_sent(world: World) -> None:
    clip = Clip(norm=5.0)
    table, dense = world.sparse("short", dim=2, clip=clip), world.dense("d", 600, clip=clip)
    table.push([7, 7, 8], [[3.0, 0.0], [3.0, 0.0], [0.0, 8.0]]).wait()  # (6, 8): norm 10
    np.testing.assert_allclose(table.pull([7, 8]).wait(), [[3.0, 0.0], [0.0, 4.0]])
    table.push([7], [[1.0, 0.0]]).wait()
    np.testing.assert_allclose(table.pull([7]).wait(), [[4.0, 0.0]])
    dense.push(np.ones(600)).wait()
    np.testing.assert_allclose(np.linalg.norm(dense.pull().wait()), 5.0)


def test_steps_count_in_every_shard_whatever_a_push_names(world: World) -> None:
    """SparseAdam's step is the table's: two pushes of other keys, and a third with this one."""
    table = world.sparse("adam", optimizer=Adam(0.1))
    table.push([1], [1.0]).wait()
    table.push([2], [1.0]).wait()
    table.push([3], [1.0]).wait()
    m, v, t = 0.1, 0.001, 3
    size = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    np.testing.assert_allclose(table.pull([3]).wait(), [-size * m / (np.sqrt(v) + 1e-8)])


def test_many_calls_under_way(world: World) -> None:
    table = world.sparse("many")
    keys = np.arange(1000)
    pushes = [table.push(keys[i::7], np.ones(len(keys[i::7]))) for i in range(7) for _ in range(30)]
    for push in pushes:
        push.wait()
    assert (table.pull(keys).wait() == 30).all()


def test_large_calls_are_cut_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PART_BYTES", 50_000)
    table = world.sparse("large", dim=5)
    keys = np.random.default_rng(0).permutation(20_000)
    values = np.random.default_rng(1).normal(size=(20_000, 5))
    table.push(keys, values).wait()
    np.testing.assert_array_equal(table.pull(keys).wait(), values)
    dense = world.dense("large dense", 300, 200)
    array = np.random.default_rng(2).normal(size=(300, 200))
    dense.push(array).wait()
    np.testing.assert_array_equal(dense.pull().wait(), array)


def test_assign_push_pull_clear_export(world: World) -> None:
    table = world.sparse("several", optimizer=Sgd(0.5))
    table.assign([9, 3, 9], [1.0, 2.0, 4.0]).wait()
    assert table.pull([3, 9]).wait().tolist() == [2.0, 4.0]
    assert table.push_pull([9, 4], [2.0, 2.0]).wait().tolist() == [3.0, -1.0]
    keys, rows = table.export().wait()
    assert (keys.tolist(), rows.tolist()) == ([3, 4, 9], [2.0, -1.0, 3.0])
    table.clear().wait()
    assert table.size().wait()[0] == 0
    with pytest.raises(InputError, match="repeated"):
        table.push_pull([1, 1], [1.0, 1.0])


def test_dense_arrays_and_row_ranges(world: World) -> None:
    table = world.dense("dense", 13, 7)
    array = np.arange(91.0).reshape(13, 7)
    table.assign(array).wait()
    np.testing.assert_array_equal(table.pull().wait(), array)
    table.push(np.ones((4, 7)), rows=(5, 9)).wait()
    array[5:9] += 1
    np.testing.assert_array_equal(table.pull().wait(), array)
    np.testing.assert_array_equal(table.pull((4, 6)).wait(), array[4:6])
    out = np.empty((2, 7))
    assert table.pull((0, 2), out=out).wait().base is not None
    np.testing.assert_array_equal(out, array[:2])
    assert table.size().wait()[0] == 91
    array += 1
    np.testing.assert_array_equal(table.push_pull(np.ones((13, 7))).wait(), array)
    array[12:] += 2
    found = table.push_pull(np.full((1, 7), 2.0), rows=(12, 13)).wait()
    np.testing.assert_array_equal(found, array[12:])
    np.testing.assert_array_equal(table.export().wait(), array)
    assert table.pull((3, 3)).wait().shape == (0, 7)
    table.clear().wait()
    assert not table.pull().wait().any()
    with pytest.raises(InputError, match=r"rows \[5, 14\)"):
        table.pull((5, 14))


def test_initial_values_do_not_depend_on_the_servers(world: World) -> None:
    keys = np.arange(-20, 20)
    values = world.sparse("init", dim=2, init=Normal(1.0)).pull(keys).wait()
    dense = world.dense("init dense", 40, init=Normal(1.0)).pull().wait()
    # Fixed numbers: one server or three, today or later, the rows are these.
    np.testing.assert_allclose(values[[0, 20, 39], 0], INITIAL_SPARSE, rtol=1e-12)
    np.testing.assert_allclose(dense[[0, 20, 39]], INITIAL_DENSE, rtol=1e-12)


INITIAL_SPARSE = [0.029124428217289264, 1.0072294092849272, -0.11178199330698078]
INITIAL_DENSE = [1.1676520782503192, 1.1285516641508893, 0.3519124034588247]


def test_table_and_caller_may_change_while_a_message_is_under_way(world: World) -> None:
    table = world.sparse("changing", dim=64)
    keys = np.arange(2000)
    for step in range(5):
        values = np.full((2000, 64), 1.0)
        pull = table.pull(keys)
        push = table.push(keys, values)
        got = pull.wait()
        assert (got == got[0, 0]).all() and got[0, 0] == step
        push.wait()
        values[:] = 99.0
    small = np.array([1.0])
    push = table.push([5000], np.broadcast_to(small, (1, 64)))
    small[0] = 7.0
    push.wait()
    assert (table.pull([5000]).wait() == 1).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.push([1, 2], [1.0]), "shape"),
        (lambda t: t.push([1.5], [1.0]), "float64"),
        (lambda t: t.push([1], ["text"]), "real numbers"),
        (lambda t: t.push([1], [1j]), "complex"),
        (lambda t: t.push([[1]], [1.0]), "one dimension"),
        (lambda t: t.pull([[1, 2]]), "one dimension"),
        (lambda t: t.pull([1], out=np.empty(1, np.float32)), "out"),
        (lambda t: t.pull([1], out=np.empty(2)), "out"),
    ],
)
def test_wrong_arguments(world: World, call: Any, words: str) -> None:
    table = world.sparse("wrong")
    with pytest.raises(InputError) as raised:
        call(table)
    assert words in str(raised.value) and raised.value.remedy


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, d: s.push([1, 2], np.ones((2, 4))), "2 keys of dim 3 need (2, 3)"),
        (lambda s, d: s.push([1, 2], [1.0, 2.0]), "2 keys of dim 3 need (2, 3)"),
        (lambda s, d: s.assign([1], np.ones((2, 3))), "1 keys of dim 3 need (1, 3)"),
        (lambda s, d: d.push(np.ones((7, 13))), "they need (13, 7)"),
        (lambda s, d: d.push(np.ones((2, 7)), rows=(0, 3)), "they need (3, 7)"),
        (lambda s, d: d.assign(np.ones((13, 7)) * 1j), "complex"),
        (lambda s, d: d.push(np.ones((1, 7)), rows=(13, 14)), "rows [13, 14)"),
        (lambda s, d: d.assign(np.ones((1, 7)), rows=(-1, 0)), "rows [-1, 0)"),
        (lambda s, d: d.pull((3, 2)), "rows [3, 2)"),
        (lambda s, d: d.pull(out=np.empty((13, 7), np.float32)), "out for table"),
        (lambda s, d: d.pull(out=np.empty((7, 13)).T), "out for table"),
        (lambda s, d: d.pull((0, 2), out=np.empty((13, 7))), "out for table"),
    ],
)
def test_wrong_widths_ranges_and_buffers(world: World, call: Any, words: str) -> None:
    sparse, dense = world.sparse("wrong width", dim=3), world.dense("wrong dense", 13, 7)
    with pytest.raises(InputError) as raised:
        call(sparse, dense)
    assert words in str(raised.value) and raised.value.remedy
    assert sparse.size().wait()[0] == 0 and not dense.pull().wait().any()


def test_a_table_that_nobody_has_made(world: World) -> None:
    for kind, pushed in (
        (SparseTable, lambda table: table.push([1], [1.0])),
        (DenseTable, lambda table: table.push([1.0])),
    ):
        spec = TableSpec("nobody's", kind.__name__.removesuffix("Table").lower(), (1,))  # type: ignore[arg-type]
        with pytest.raises(ServerRefused, match="nobody has opened the table"):
            pushed(kind(world.client, spec, CurrentBatch())).wait()
    assert world.sparse("made").pull([1]).wait().tolist() == [0.0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_at_the_caller(world: World, value: float) -> None:
    sparse, dense = world.sparse(f"finite {value}"), world.dense(f"finite dense {value}", 3)
    with pytest.raises(
        ServerRefused, match=f"table finite {value}: 1 of 1 rows .* NaN or infinity"
    ):
        sparse.push([1], [value]).wait()
    with pytest.raises(ServerRefused, match="elements of the gradient hold NaN or infinity"):
        dense.push([1.0, value, 1.0]).wait()
    sparse.push([1], [1.0]).wait()
    dense.push([1.0, 1.0, 1.0]).wait()
    assert sparse.pull([1]).wait().tolist() == [1.0]
    assert dense.pull().wait().min() >= 1.0


def test_a_table_opened_with_other_settings(world: World) -> None:
    world.sparse("twice", optimizer=Ftrl(l1=1.0))
    other = r"table twice exists with other settings: .*optimizer"
    with pytest.raises(ServerRefused, match=other) as raised:
        world.sparse("twice", optimizer=Ftrl(l1=2.0))
    assert raised.value.certain, "a worker that starts again would do the same"
    assert world.sparse("after", dim=2).pull([1]).wait().tolist() == [[0.0, 0.0]]


@pytest.fixture
def clients() -> Iterator[Callable[..., Client]]:
    """Makes clients that are closed after the test, however it ends."""
    with ExitStack() as stack:

        def make(begin: pb.Begin, *, incarnation: int, limit: float = 30.0) -> Client:
            begin.incarnation.id = incarnation
            client = Client(begin, request_limit=limit)
            stack.callback(client.close)
            return client

        yield make


def copy_of(begin: pb.Begin) -> pb.Begin:
    copy = pb.Begin()
    copy.CopyFrom(begin)
    return copy


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data_token": "guess"}, "HELLO has another token than this job's"),
        ({"job": 5}, "this server belongs to job"),
    ],
)
def test_strangers_hear_it_at_the_caller(
    world: World, clients: Any, change: dict[str, Any], words: str
) -> None:
    begin = copy_of(world.begin)
    begin.MergeFrom(pb.Begin(**change))
    client = clients(begin, incarnation=999)
    spec = TableSpec("w", "sparse", (1,), optimizer=Add())
    with pytest.raises(ServerRefused, match=words):
        client.open(spec)
    assert world.sparse("for others").pull([1]).wait().tolist() == [0.0]


def test_a_call_of_an_older_generation_is_answered_when_its_worker_has_followed(
    world: World, clients: Any
) -> None:
    """Outside of a batch; inside of one the lease is void, see the trainings that go back."""
    begin = copy_of(world.begin)
    begin.routes.generation = 0
    client = clients(begin, incarnation=997)
    table = world.sparse("of now")
    old = SparseTable(client, table.spec, CurrentBatch()).push([1], [1.0])
    with pytest.raises(TimeoutError):
        old.wait(timeout=0.3)
    assert table.pull([1]).wait().tolist() == [0.0]  # refused, and not applied
    client.post_routes(world.begin.routes)
    old.wait()
    assert table.pull([1]).wait().tolist() == [1.0]


def test_the_true_refusal_is_told_whatever_arrives_with_it(world: World, clients: Any) -> None:
    """What is sent behind a refused HELLO is refused too; the reason is that of the HELLO."""
    begin = copy_of(world.begin)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for route in begin.routes.servers:
            route.address = ""  # not started yet
        begin.routes.servers[0].address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        client = clients(begin, incarnation=998)
        call = client.ask_all(client.header(wire.Op.SIZE), "size")
        server, _ = listener.accept()
        server.settimeout(10)
        received = b""
        while len(received) < 2 * wire.HEADER_BYTES + len(TOKEN):
            received += server.recv(65536)
        messages = list(Reader(Memory(), wire.MESSAGE_LIMIT).cut(received))
        assert [message.header.op for message in messages] == [wire.Op.HELLO, wire.Op.SIZE]
        for message in messages:
            request = message.header.request
            early = (wire.Code.HELLO_FIRST, b"the first message must be HELLO")
            reasons = [early] if request else [(wire.Code.TOKEN, b"another token"), early]
            for code, text in reasons:
                header = wire.Header(wire.Op.ERROR, request=request, code=code)
                server.sendall(b"".join(wire.encode(header, values=text)))
        with pytest.raises(ServerRefused, match="another token"):
            client.wait(call)
        with pytest.raises(ServerRefused, match="another token"):
            client.pump(0)
        server.close()


def test_a_server_that_never_answers_is_named_with_since_when(world: World, clients: Any) -> None:
    begin = copy_of(world.begin)
    begin.routes.servers[0].address = "tcp://127.0.0.1:9"  # the discard port: nobody is there
    client = clients(begin, incarnation=1000, limit=0.5)
    with pytest.raises(
        ClusterError, match=r"server 0 \(tcp://127.0.0.1:9\) has not answered since"
    ):
        client.open(TableSpec("lost", "sparse", (1,), optimizer=Add()))


def test_wait_with_a_limit(world: World, clients: Any) -> None:
    begin = copy_of(world.begin)
    client = clients(begin, incarnation=1001)
    spec = TableSpec("slow", "sparse", (1,), optimizer=Add())
    client.open(spec)
    table = SparseTable(client, spec, CurrentBatch())
    for route in begin.routes.servers:
        route.address = ""
    begin.routes.version += 1
    client.post_routes(begin.routes)
    future = table.pull([1])
    with pytest.raises(TimeoutError):
        future.wait(timeout=0.2)
    begin.routes.CopyFrom(world.begin.routes)
    begin.routes.version += 2
    client.post_routes(begin.routes)
    assert future.wait().tolist() == [0.0]


def test_arranged_keys_are_brought_into_order_once_for_all_calls(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = []
    partition = routing.partition

    def counted(keys: Any, *rest: Any) -> Any:
        orders.append(keys)
        return partition(keys, *rest)

    monkeypatch.setattr(routing, "partition", counted)
    table = world.sparse("arranged", optimizer=Add())
    keys = np.random.default_rng(3).permutation(500)
    table.arrange(keys)  # its owner may change it: nothing is kept
    assert orders == []
    keys.flags.writeable = False
    table.arrange(keys)
    table.push(keys, np.arange(500.0), distinct=True).wait()
    assert (table.pull(keys).wait() == np.arange(500.0)).all()
    assert len(orders) == 1
