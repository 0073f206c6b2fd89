"""Which file belongs to which rank and incarnation, and how Hadoop wraps files."""

from __future__ import annotations

import pytest

from yarnps.client.logs import LogFile, choose, content, owners, parse_yarn_logs
from yarnps.status import Event, Process

YARN_LOGS = """\
Container: container_1_0002_01_000001 on nm-1_45454
LogAggregationType: AGGREGATED
===================================================
LogType:stdout
LogLastModifiedTime:Mon Nov 30 11:48:33 +0000 2026
LogLength:11
LogContents:
from the am

End of LogType:stdout
***********************

Container: container_1_0002_01_000003 on nm-2_45454
LogAggregationType: AGGREGATED
===================================================
LogType:worker-0-0.log
LogLastModifiedTime:Mon Nov 30 11:48:33 +0000 2026
LogLength:17
LogContents:
first
LogType? no

End of LogType:worker-0-0.log
***********************

LogType:empty.log
LogLength:0
LogContents:

End of LogType:empty.log
"""


def test_the_output_of_yarn_logs() -> None:
    files = [(f.container, f.node, f.name, f.read()) for f in parse_yarn_logs(YARN_LOGS)]
    assert files == [
        ("am", "nm-1", "stdout", "from the am\n"),
        ("container_1_0002_01_000003", "nm-2", "worker-0-0.log", "first\nLogType? no\n"),
        ("container_1_0002_01_000003", "nm-2", "empty.log", ""),
    ]


def test_the_node_managers_wrapping() -> None:
    text = "Container: x on y\nLogType:stderr\nLog Contents:\nhello\n\nEnd of LogType:stderr.\n"
    assert content(text) == "hello\n"
    assert content("plain") == "plain"


def event(seq: int, container: str, rank: int, incarnation: int, **data: str) -> Event:
    return Event(
        seq, 0.0, "up", "", role="worker", rank=rank, container=container,
        incarnation=incarnation, data=dict(data),
    )  # fmt: skip


def file(container: str, name: str) -> LogFile:
    return LogFile(container, name, "", lambda: "")


EVENTS = [
    event(1, "worker_0", 0, 1),
    event(2, "worker_1", 1, 1, yarn_id="container_1_0002_01_000003"),
    event(3, "worker_1", 1, 2),
    event(4, "worker_2", 1, 3),
]
FILES = [
    file("am", "stdout"),
    file("worker_0", "worker-0-0.log"),
    file("worker_1", "worker-0-0.log"),
    file("worker_1", "worker-0-1.log"),
    file("worker_1", "stderr"),
    file("worker_2", "worker-0-0.log"),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"role": "am"}, [0]),
        ({"role": "worker"}, [1, 2, 3, 4, 5]),
        ({"role": "worker", "rank": 0}, [1]),
        ({"role": "worker", "rank": 1}, [2, 3, 4, 5]),
        ({"role": "worker", "rank": 1, "incarnation": 1}, [2]),
        ({"role": "worker", "rank": 1, "incarnation": 2}, [3]),
        ({"role": "worker", "rank": 1, "incarnation": 3}, [5]),
        ({"role": "server"}, []),
    ],
)
def test_ranks_and_incarnations(wanted: dict[str, object], found: list[int]) -> None:
    chosen = choose(FILES, owners(EVENTS), **wanted)  # type: ignore[arg-type]
    assert [FILES.index(c.file) for c in chosen] == found


def test_a_container_is_known_by_yarns_id_too() -> None:
    known = owners(EVENTS)
    assert known["container_1_0002_01_000003"].rank == 1
    process = Process(
        "server", 2, "running", container="server_2", incarnation=1,
        logs="http://nm-1:8042/node/containerlogs/container_e07_1_0002_01_000009/ada",
    )  # fmt: skip
    assert owners([], [process])["container_e07_1_0002_01_000009"].rank == 2
