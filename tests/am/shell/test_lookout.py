"""What the shell sees of a cluster."""

from __future__ import annotations

from typing import Any, cast

import pytest

from yarnps._errors import ClusterError
from yarnps.am.clusters.base import Cluster
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
