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


def test_of_other_runtimes_nobody_knows_the_progress() -> None:
    status = Status("app", "job", "ada", "TRAINING", "Training.", runtime="xgboost")
    text = describe(status, live=True)
    assert "progress:" not in text and "model:" not in text
    assert "job directory:" in text
