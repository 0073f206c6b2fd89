"""`server.on_loss: patch`: nothing is done again, and what is lost is said."""

from __future__ import annotations

from pathlib import Path

from local_run import Input, LocalRun
from safetensors.numpy import load_file

EPOCHS = 2
KILLS_AT_MOST = 5


def more(run: LocalRun, rows: int) -> None:
    """Wait until workers have told of so many more rows."""
    enough = run.status().progress.rows + rows
    run.wait(lambda: run.status().progress.rows > enough, f"{rows} more rows")


def lose_something(run: LocalRun) -> int:
    """Kill server 1 when its newest checkpoint lacks rows; how many all kills have cost."""
    for _ in range(KILLS_AT_MOST):
        save = run.event("save", after=run.last_event)
        # The first that are told of may have been pushed before it; those after them were not.
        more(run, 300)
        more(run, 300)
        before = run.kill("role", "server", 1)
        patch = run.event("patch", "shards come from checkpoint", rank=1, after=before)
        run.event("ready", role="server", rank=1, after=before)
        if f"come from checkpoint {save.data['cut']}." in patch.text:
            return sum(int(event.data["rows"]) for event in run.events("patch"))
    raise AssertionError("each time there was a newer checkpoint at the kill")


def test_what_a_dead_server_had_learned_is_lost_and_said(tmp_path: Path) -> None:
    made = Input.write(tmp_path / "in", files=4, rows=2000)
    model = tmp_path / "model"
    block = {
        "data": {"train": f"file://{made.folder}/*", "format": "libsvm", "split_size": "8 KiB"},
        "train": {"epochs": EPOCHS, "batch_rows": 50, "audit": True},
        "sync": {"mode": "ssp", "staleness": 8},
        "server": {"on_loss": "patch"},
        "checkpoint": {"every": "4 s"},
        "model": {"path": str(model)},
    }
    with LocalRun(tmp_path / "patch", block) as run:
        run.brake.touch()
        run.training()
        lost = lose_something(run)
        before = run.kill("am")
        run.event("am_restart", after=before)
        run.brake.unlink()
        assert run.outcome().state == "SUCCEEDED"
        assert not run.events("replay")
        status = run.status()
        assert (status.lost_rows, status.progress.rows) == (lost, EPOCHS * made.all_rows)
        assert f"with the pushes of {lost:,} rows lost in shards of dead servers" in status.sentence
        audit = run.events("audit")[-1]
        assert f"({lost:,} may have been lost with servers" in audit.text
        assert audit.data["servers"] <= audit.data["ledger"] == EPOCHS * made.all_rows
    whole, sums = made.sums(EPOCHS), []
    for rank in (0, 1):
        (part,) = (load_file(path) for path in model.glob(f"part-{rank}*.safetensors"))
        keys, values = part["sums/keys"].tolist(), part["sums/values"][:, 0].tolist()
        sums.append([whole[key] - value for key, value in zip(keys, values, strict=True)])
    assert set(sums[0]) == {0.0}, "the other server has everything once"
    # Every row has a key of each file: what is missing of one is at most what was said of all.
    assert min(sums[1]) >= 0.0 < max(sums[1])
