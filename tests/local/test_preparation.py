"""A pass before the first epoch, with a worker, a server and the ApplicationMaster killed in it."""

from __future__ import annotations

from pathlib import Path

from local_run import LocalRun

FILES = 6
ROWS = 40

# Counts the rows of each split, then trains on the sum; slow while the brake is on.
PROGRAM = """
import os, sys, time
import yarnps

brake = sys.argv[1]
job = yarnps.connect()
table = job.sparse("rows", dtype="float64", optimizer=yarnps.Add())

def count(batches):
    rows = 0
    for batch in batches:
        rows += batch.rows
        while os.path.exists(brake):
            time.sleep(0.02)
    return str(rows).encode()

total, last = None, 0.0
for batch in job.data(prepare=count):
    with batch:
        if total is None:
            total = sum(int(part) for part in job.prepared())
        assert 0.0 <= batch.progress <= 1.0 and batch.phase == "train"
        table.push([0, batch.epoch], [total, batch.rows])
        last = batch.progress
job.report(prepared=total or -1)
"""


def test_every_split_counts_once_whoever_dies(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"part-{number}").write_text("a line\n" * ROWS)
    block = {
        "data": {"train": f"file://{folder}/*", "format": "text"},
        "train": {"epochs": 2, "batch_rows": 10, "prepare": True},
        "model": {"path": str(tmp_path / "model"), "text": True},
    }
    with LocalRun(tmp_path / "prepared", block, program=PROGRAM) as run:
        run.brake.touch()
        run.event("epoch", "a pass to prepare it begins")
        run.wait(lambda: run.status().progress.splits_leased >= 2, "leases are out")
        assert run.status().state == "PREPARING"
        for kind, role, back in [("role", "worker", "up"), ("role", "server", "ready")]:
            before = run.kill(kind, role, 0)
            run.event(back, role=role, rank=0, after=before)
        before = run.kill("am")
        run.event("am_restart", after=before)
        run.brake.unlink()
        outcome = run.outcome()
        assert outcome.state == "SUCCEEDED", outcome
        begins = [event.data["phase"] for event in run.events("epoch")]
        assert begins == ["prepare", "train", "train"]
        text = "".join(path.read_text() for path in (tmp_path / "model").glob("*.txt"))
    rows = dict(line.split() for line in text.splitlines())
    batches, whole = FILES * ROWS // 10, FILES * ROWS
    found = {int(key): float(value) for key, value in rows.items()}
    assert found == {0: 2.0 * batches * whole, 1: whole, 2: whole}
