"""Server functions through a real client and real servers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_harness import playing, write_input
from test_tables import World

from yarnps._errors import InputError, ServerRefused
from yarnps.protocol.tables import Adagrad, Add, Ftrl, Sgd

# The module is found because servers run in the folder where the job's files are.
OWN = """
import os
import time
import numpy as np

def longest(keys, rows):
    assert rows.shape == (len(keys), 3) and rows.dtype == np.float64
    return np.sqrt((rows**2).sum(axis=1)).max(initial=0.0)

def weighted(keys, rows, factors, shift):
    rows *= 1000  # a copy: the table stays as it is
    return (rows / 1000 * factors).sum(axis=0) + shift / 256

def below(keys, values, limit):
    return keys[values < limit]

def process(keys, rows):
    return os.getpid()

def wait(keys, rows):
    time.sleep(3600)

def die(keys, rows):
    os._exit(3)

def fail(keys, rows):
    raise KeyError("no such feature")

def text(keys, rows):
    return "text"
"""


@pytest.fixture(scope="module", params=[1, 3])
def world(request: Any, tmp_path_factory: Any) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("functions")
    (folder / "own.py").write_text(OWN)
    block = {"data": {"train": write_input(folder / "in", 1, 1)}}
    with playing(folder, block, "", servers=request.param, start=False) as player:
        for rank in range(player.servers):
            player.start_server(rank)
        player.wait(lambda: all(s.address for s in player._routes.servers), "ready")
        world = World(player)
        yield world
        world.client.close()


KEYS = np.arange(-1500, 1500)
ROWS = np.random.default_rng(7).normal(size=(3000, 3))
ROWS[::5] = 0


@pytest.fixture(scope="module")
def wide(world: World) -> Any:
    table = world.sparse("wide", dim=3)
    table.push(KEYS, ROWS).wait()
    return table


@pytest.fixture(scope="module")
def dense(world: World) -> Any:
    table = world.dense("dense", 100, 30)
    table.push(ROWS.reshape(-1)[:3000].reshape(100, 30)).wait()
    return table


def test_numbers_about_a_table(world: World, wide: Any, dense: Any) -> None:
    for table, weights in ((wide, ROWS), (dense, ROWS.reshape(-1)[:3000])):
        assert table.norm().wait() == pytest.approx(np.linalg.norm(weights), rel=1e-12)
        assert table.nnz().wait() == np.count_nonzero(weights)
        assert table.mean().wait() == pytest.approx(weights.mean(), rel=1e-12)
        counts, edges = table.histogram(20, (-2, 1.5)).wait()
        expected, where = np.histogram(weights, 20, (-2, 1.5))
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_allclose(edges, where)


def test_the_largest_rows(world: World, wide: Any, dense: Any) -> None:
    sizes = np.linalg.norm(ROWS, axis=1)
    best = np.argsort(-sizes)[:10]
    keys, rows = wide.topk(10).wait()
    np.testing.assert_array_equal(keys, KEYS[best])
    np.testing.assert_array_equal(rows, ROWS[best])
    flat = ROWS.reshape(-1)[:3000]
    elements, values = dense.topk(5, by="value").wait()
    np.testing.assert_array_equal(elements, np.argsort(-flat)[:5])
    np.testing.assert_array_equal(values, np.sort(flat)[::-1][:5])
    few = world.sparse("few")
    few.push([3, 1, 2], [5.0, -7.0, 5.0]).wait()
    assert [a.tolist() for a in few.topk(2).wait()] == [[1, 2], [-7.0, 5.0]]
    assert [a.tolist() for a in few.topk(9, by="value").wait()] == [[2, 3, 1], [5.0, 5.0, -7.0]]
    assert [a.tolist() for a in few.topk(0).wait()] == [[], []]


def test_dot_of_two_tables(world: World, wide: Any, dense: Any) -> None:
    other = world.sparse("other", dim=3)
    other.push(KEYS[::2], np.ones((1500, 3))).wait()
    assert wide.dot(other).wait() == pytest.approx(ROWS[::2].sum(), rel=1e-9)
    assert dense.dot(dense).wait() == pytest.approx(dense.norm().wait() ** 2, rel=1e-12)
    with pytest.raises(ServerRefused, match=r"give two of one shape"):
        wide.dot(dense).wait()


@pytest.mark.parametrize("optimizer", [Sgd(0.5, momentum=0.9), Adagrad(0.5), Ftrl(l1=0.5)])
def test_scaling_keeps_the_rest_of_the_state(world: World, optimizer: Any) -> None:
    """Two tables with the same past, one scaled by 2 and then by a half: the same future."""
    name = optimizer.name
    one = world.sparse(f"{name} 1", dim=2, optimizer=optimizer)
    two = world.sparse(f"{name} 2", dim=2, optimizer=optimizer)
    grads = np.random.default_rng(1).normal(size=(2, 200, 2))
    for table in (one, two):
        table.push(np.arange(200), grads[0]).wait()
    before = one.pull(np.arange(200)).wait()
    one.scale(2.0).wait()
    np.testing.assert_allclose(one.pull(np.arange(200)).wait(), 2 * before, rtol=1e-12)
    one.scale(0.5).wait()
    for table in (one, two):
        table.push(np.arange(200), grads[1]).wait()
    after = [table.pull(np.arange(200)).wait() for table in (one, two)]
    np.testing.assert_allclose(after[0], after[1], rtol=1e-11, atol=1e-13)


def test_pruning(world: World) -> None:
    table = world.sparse("pruned", dim=3)
    table.push(KEYS, ROWS).wait()
    small = (np.abs(ROWS) < 0.5).all(axis=1)
    assert table.prune(0.5).wait() == small.sum() > 500
    assert table.size().wait()[0] == (~small).sum()
    keys, rows = table.export().wait()
    np.testing.assert_array_equal(keys, KEYS[~small])
    np.testing.assert_array_equal(rows, ROWS[~small])
    assert table.prune(0.5).wait() == 0
    table.push(KEYS, ROWS).wait()  # what was forgotten begins anew
    expected = np.where(small, 1, 2)[:, np.newaxis] * ROWS
    np.testing.assert_array_equal(table.pull(KEYS).wait(), expected)
    dense = world.dense("pruned dense", 500, optimizer=Ftrl(alpha=1.0))
    dense.assign(ROWS.reshape(-1)[:500]).wait()
    flat = dense.pull().wait()
    dense.prune(0.5).wait()
    np.testing.assert_allclose(dense.pull().wait(), np.where(abs(flat) < 0.5, 0, flat))


def test_a_table_without_rows(world: World) -> None:
    table = world.sparse("nothing", dim=2)
    assert table.norm().wait() == 0 and table.nnz().wait() == 0 and np.isnan(table.mean().wait())
    assert [len(a) for a in table.topk(3).wait()] == [0, 0]
    assert table.prune(1.0).wait() == 0 and table.scale(3.0).wait() is None


# ---------------------------------------------------------------------- the job's own


def test_own_functions(world: World, wide: Any, dense: Any) -> None:
    longest = wide.call("own:longest").wait()
    assert len(longest) == 256
    assert max(longest) == np.linalg.norm(ROWS, axis=1).max()
    found = wide.call("own:weighted", [1.0, 10.0, 100.0], 7.0, merge="sum").wait()
    np.testing.assert_allclose(found, ROWS.sum(axis=0) * [1, 10, 100] + 7.0, rtol=1e-9)
    np.testing.assert_array_equal(wide.pull(KEYS).wait(), ROWS)
    flat = ROWS.reshape(-1)[:3000]
    elements = dense.call("own:below", -1.0, merge="concatenate").wait()
    np.testing.assert_array_equal(np.sort(elements), np.flatnonzero(flat < -1.0))


def test_a_function_that_never_ends_is_ended_and_nobody_waits_for_it(
    world: World, wide: Any
) -> None:
    processes = {int(pid) for pid in wide.call("own:process").wait()}
    stuck = wide.call("own:wait", limit=1.5)
    begun = time.monotonic()
    while time.monotonic() - begun < 0.5:  # the server is there for others meanwhile
        np.testing.assert_array_equal(wide.pull(KEYS[:10]).wait(), ROWS[:10])
    assert not stuck.done()
    with pytest.raises(ServerRefused, match=r"function own:wait: it has not ended within 1.5 s"):
        stuck.wait()
    others = {int(pid) for pid in wide.call("own:process", limit=30.0).wait()}
    assert not others & processes
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("own:die", "its process has ended while it ran"),
        ("own:fail", r"KeyError: 'no such feature'"),
        ("own:text", r"own:text returned str: an array of numbers is expected"),
        ("own:missing", r"AttributeError: .*missing"),
        ("nobody:f", r"No module named 'nobody'"),
    ],
)
def test_a_function_that_fails_is_told_by_name(
    world: World, wide: Any, function: str, words: str
) -> None:
    with pytest.raises(ServerRefused, match=f"function {function}: .*{words}"):
        wide.call(function).wait()
    assert len(wide.call("own:longest").wait()) == 256


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.call("norm"),
        lambda t: t.call("own:longest", "text"),
        lambda t: t.histogram(0, (0, 1)),
        lambda t: t.histogram(5, (1, 1)),
        lambda t: t.topk(-1),
        lambda t: t.topk(3, by="value"),
        lambda t: t.scale(float("nan")),
        lambda t: t.prune(0),
    ],
)
def test_what_cannot_be_asked(wide: Any, ask: Any) -> None:
    with pytest.raises(InputError) as raised:
        ask(wide)
    assert raised.value.remedy


def test_optimizers_that_only_add_are_scaled_too(world: World) -> None:
    table = world.sparse("sums", optimizer=Add())
    table.push([1, 2], [3.0, 4.0]).wait()
    table.scale(0.5).wait()
    assert table.pull([1, 2]).wait().tolist() == [1.5, 2.0]
