"""`yarnps status` as text, from status documents alone."""

from __future__ import annotations

import pytest

from yarnps.client.cmd_status import describe
from yarnps.status import Process, Status, TableInfo

LOST = TableInfo("w", rows=10, bytes=80, evicted=7)


@pytest.mark.parametrize("tables", [(), (TableInfo("w", 10, 80),), (LOST,)])
def test_a_job_that_runs(tables: tuple[TableInfo, ...]) -> None:
    server = Process("server", 0, "running", node="n1", tables=tables)
    text = describe(
        Status("app", "job", "ada", "TRAINING", "Training.", processes=(server,)), live=True
    )
    assert "ROLE" in text and "n1" in text
    assert ("7 evicted on server 0" in text) == (LOST in tables)
    assert "progress:" in text


def test_how_long_a_worker_has_waited() -> None:
    fast = Process("worker", 0, "running", node="n1", idle_s=75.0)
    slow = Process("worker", 1, "running", node="n2", idle_s=9.0)
    server = Process("server", 0, "running", node="n3")
    status = Status("app", "job", "ada", "TRAINING", "Training.", processes=(fast, slow, server))
    lines = describe(status, live=True).splitlines()
    (header,) = (line for line in lines if "WAITED" in line)
    at = header.index("WAITED")
    shown = {line.split()[3]: line[at:].strip() for line in lines if line.split()[3:4]}
    assert [shown[node] for node in ("n1", "n2", "n3")] == ["1 min 15 s", "9 s", ""]


def test_of_other_runtimes_nobody_knows_the_progress() -> None:
    status = Status("app", "job", "ada", "TRAINING", "Training.", runtime="xgboost")
    text = describe(status, live=True)
    assert "progress:" not in text and "model:" not in text
    assert "job directory:" in text
