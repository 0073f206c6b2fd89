"""`Routes`: every shard has one owner, and the version tells old from new."""

from __future__ import annotations

import json

import pytest

from yarnps._errors import InputError
from yarnps.am.training.routes import Routes


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 64, 256])
def test_shards_are_shared_out_evenly_and_in_ranges(servers: int) -> None:
    owner = list(Routes(256, servers).routes().owner)
    counts = [owner.count(rank) for rank in range(servers)]
    assert sum(counts) == 256
    assert max(counts) - min(counts) <= 1
    assert owner == sorted(owner)


def test_the_version_grows_with_every_change_only() -> None:
    routes = Routes(8, 2)
    first = routes.routes().version
    assert routes.ready(0, "tcp://a:1", 10).version == first + 1
    assert routes.ready(0, "tcp://a:1", 10).version == first + 1
    assert routes.missing() == [1] and not routes.complete
    assert routes.ready(1, "tcp://b:1", 11).version == first + 2
    assert routes.complete and routes.incarnations() == {0: 10, 1: 11}
    down = routes.down(0)
    assert [(s.server_rank, s.address, s.incarnation) for s in down.servers] == [
        (0, "", 0),
        (1, "tcp://b:1", 11),
    ]
    assert down.version == first + 3
    assert routes.ready(0, "tcp://c:1", 12).version == first + 4


def test_a_late_word_of_an_old_incarnations_death_changes_nothing() -> None:
    routes = Routes(8, 1)
    routes.ready(0, "tcp://a:1", 10)
    routes.ready(0, "tcp://b:1", 11)
    version = routes.version
    assert routes.down(0, 10).version == version
    assert routes.complete
    assert not routes.down(0, 11).servers[0].address


def test_a_rollback_is_a_new_generation() -> None:
    routes = Routes(8, 1, generation=3)
    version = routes.version
    new = routes.new_generation()
    assert (new.generation, new.version) == (4, version + 1)


def test_a_snapshot_brings_everything_back() -> None:
    routes = Routes(8, 3)
    routes.ready(2, "tcp://a:1", 1 << 63)
    routes.new_generation()
    again = Routes(8, 3)
    again.restore(json.loads(json.dumps(routes.snapshot())))
    assert again.routes() == routes.routes()
    assert list(again.routes().owner) == [0, 0, 0, 1, 1, 1, 2, 2]


def test_more_servers_than_shards_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"4 shards .* 5 server(.|\n)*at least 20"):
        Routes(4, 5)
