"""What the shell sees of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from shell_world import QuietCluster, until

from yarnps._errors import ClusterError
from yarnps.am.clusters.base import Cluster, ContainerInfo
from yarnps.am.resources.members import Members
from yarnps.am.shell.lookout import Lookout


class Nodes:
    """A cluster of which only the nodes matter."""

    def __init__(self, nodes: dict[str, str] | None) -> None:
        self._nodes = nodes

    async def nodes(self) -> dict[str, str]:
        if self._nodes is None:
            raise ClusterError("it does not say", "")
        return self._nodes


def lookout(nodes: dict[str, str] | None) -> Lookout:
    nothing: Any = None
    return Lookout(cast(Cluster, Nodes(nodes)), feed=lambda _: None, members=lambda: nothing)


@pytest.mark.parametrize(
    ("nodes", "racks"),
    [
        ({"n1": "/a", "n2": "/b"}, {"n1": "/a", "n2": "/b"}),
        ({"n1": "/default-rack", "n2": "/default-rack"}, {}),
        ({}, {}),
        (None, {}),
    ],
)
async def test_racks_count_where_there_is_more_than_one(
    nodes: dict[str, str] | None, racks: dict[str, str]
) -> None:
    assert await lookout(nodes).racks() == racks


# ---------------------------------------------------------------- what changes


class Ending(QuietCluster):
    """Two containers have ended, one runs; the output of those takes as long as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.infos = [
            ContainerInfo("a", "worker", "ended", "n1", exit_message="failed"),
            ContainerInfo("b", "worker", "ended", "n1", exit_message="failed"),
            ContainerInfo("c", "worker", "running", "n2"),
        ]

    async def output(self, container: str) -> str:
        await self.may_answer.wait()
        return f"the output of {container}"


def looking(cluster: QuietCluster, held: Callable[[], set[str]] = set) -> tuple[Lookout, list[Any]]:
    class Nobody:
        @property
        def containers(self) -> set[str]:
            return held()

        def peak_of(self, container: str) -> None:
            return None

    fed: list[Any] = []
    return Lookout(cluster, feed=fed.append, members=lambda: cast(Members, Nobody())), fed


async def test_who_runs_is_seen_before_the_output_of_the_dead_has_come() -> None:
    cluster = Ending()
    eye, fed = looking(cluster)
    look = asyncio.create_task(eye.look())
    await until(lambda: fed)
    assert [event.info.id for event in fed] == ["c"]
    cluster.may_answer.set()
    await look
    assert [(event.info.id, event.tail) for event in fed[1:]] == [
        ("a", "the output of a"),
        ("b", "the output of b"),
    ]
    await eye.look()
    assert len(fed) == 3  # nothing has changed


async def test_ends_are_told_without_their_output_where_that_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yarnps.am.shell.lookout.OUTPUTS_LIMIT_S", 0.0)
    eye, fed = looking(Ending())
    await asyncio.wait_for(eye.look(), 20)
    assert [(event.info.id, event.tail) for event in fed] == [("c", ""), ("a", ""), ("b", "")]


# ---------------------------------------------------------------- a process that has come back


async def test_what_is_placed_during_the_look_is_not_taken_for_gone() -> None:
    held = {"a"}

    class Late(QuietCluster):
        async def containers(self) -> list[ContainerInfo]:
            answer = [ContainerInfo(name, "worker", "running", "n1") for name in sorted(held)]
            held.add("b")  # given to us while the answer is on its way
            return answer

    eye, _ = looking(Late(), lambda: set(held))
    assert [info.id for info in await eye.look_again()] == ["a", "b"]


async def test_a_cluster_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yarnps.am.shell.lookout.AGAIN_S", 0.0)

    class Away(QuietCluster):
        refusals = 2

        async def containers(self) -> list[ContainerInfo]:
            self.refusals -= 1
            if self.refusals >= 0:
                raise ClusterError("no answer", "")
            return []

    eye, _ = looking(Away())
    assert await eye.look_again() == ()
    monkeypatch.setattr("yarnps.am.shell.lookout.RETURN_LIMIT_S", -1.0)
    away = Away()
    eye, _ = looking(away)
    with pytest.raises(ClusterError, match="no answer"):
        await eye.look_again()
    assert away.refusals == 1
