"""Processes of a job are killed under way: it goes on without a person, and counts stay exact."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_run import Input, LocalRun, yarnps
from safetensors.numpy import load_file

from bench import processes
from yarnps.jobdir import STATUS
from yarnps.status import Event

EPOCHS = 2


@pytest.fixture
def made(tmp_path: Path) -> Input:
    return Input.write(tmp_path / "in", files=6, rows=4000)


def block(made: Input, folder: Path, **more: Any) -> dict[str, Any]:
    address = f"file://{made.folder}/*"
    return {
        "data": {"train": address, "test": address, "format": "libsvm", "split_size": "8 KiB"},
        "train": {"epochs": EPOCHS, "batch_rows": 50, "audit": True},
        "sync": {"mode": "ssp", "staleness": 8},
        "checkpoint": {"every": "1 s"},
        "model": {"path": str(folder / "model")},
        **more,
    }


def model_sums(folder: Path) -> dict[int, float]:
    sums: dict[int, float] = {}
    for part in folder.glob("part-*.safetensors"):
        tensors = load_file(part)
        keys, values = tensors["sums/keys"].tolist(), tensors["sums/values"][:, 0].tolist()
        assert not set(keys) & set(sums), "a key is on two servers"
        sums.update(zip(keys, values, strict=True))
    return sums


def check_exact(run: LocalRun, made: Input, model: Path) -> None:
    """Succeeded, and everything was counted once."""
    outcome = run.outcome()
    assert outcome.state == "SUCCEEDED", outcome
    audits = run.events("audit")
    assert [a.data["servers"] for a in audits][-1] == EPOCHS * made.all_rows
    assert all(a.data["servers"] == a.data["ledger"] for a in audits), audits
    assert model_sums(model) == made.sums(EPOCHS)
    manifest = json.loads((model / "manifest.json").read_text())
    assert manifest["metrics"] == {"test_label": pytest.approx(0.5)}


def recovery(what: str, since: float, event: Event) -> None:
    """Printed, so that a run tells how long each kind of death takes."""
    print(f"\n{what}: back after {event.time - since:.2f} s", end="")


def pushing(run: LocalRun, rank: int) -> Callable[[int], Event]:
    """A worker is back when a push of its new incarnation has been acknowledged."""
    return lambda after: run.event("first_push", role="worker", rank=rank, after=after)


def serving(run: LocalRun, rank: int) -> Callable[[int], Event]:
    """A server is back when it serves its shards."""
    return lambda after: run.event("ready", role="server", rank=rank, after=after)


def kill(
    run: LocalRun,
    kind: str,
    role: str,
    rank: int,
    *,
    then: str,
    back: Callable[[int], Event] | None = None,
) -> None:
    """`kill -9`, and wait until the rank is back."""
    back = back or (pushing(run, rank) if role == "worker" else serving(run, rank))
    since, before = time.time(), run.kill(kind, role, rank)
    death = run.event("death", role=role, rank=rank, after=before)
    assert death.data["then"] == then
    recovery(f"{role} {rank}'s {kind} killed", since, back(before))


def how_started(run: LocalRun, container: str) -> str:
    """What its agent says of the first role process."""
    log = (run.job_folder / "containers" / container / "stderr").read_text()
    return re.findall(r" (forked|started) server-0-0.log", log)[0]


def test_workers_die(tmp_path: Path, made: Input) -> None:
    with LocalRun(tmp_path / "workers", block(made, tmp_path)) as run:
        run.brake.touch()
        run.training()
        kill(run, "role", "worker", 0, then="restarted in its container")
        kill(run, "agent", "worker", 1, then="a new container")
        run.brake.unlink()
        check_exact(run, made, tmp_path / "model")


def test_servers_die(tmp_path: Path, made: Input) -> None:
    with LocalRun(tmp_path / "servers", block(made, tmp_path)) as run:
        run.brake.touch()
        run.training()
        run.event("save")
        kill(run, "role", "server", 0, then="restarted in its container")
        run.kill("forkserver")
        kill(run, "agent", "server", 1, then="a new container")
        assert [how_started(run, f"server_{n}") for n in range(3)] == ["forked"] * 2 + ["started"]
        both = [run.kill("role", "server", rank) for rank in (0, 1)]
        for rank, before in enumerate(both):
            serving(run, rank)(before)
        run.brake.unlink()
        check_exact(run, made, tmp_path / "model")
        assert any("checkpoint" in event.text for event in run.events("replay"))


def test_a_node_and_the_application_master_die(tmp_path: Path, made: Input) -> None:
    with LocalRun(tmp_path / "node", block(made, tmp_path)) as run:
        run.brake.touch()
        run.training()
        since, before = time.time(), run.last_event
        gone = {(f.role, f.rank) for f in run.lose_node("local-2") if f.kind == "agent"}
        assert gone == {("server", 1), ("worker", 1)}
        serving(run, 1)(before)
        recovery("a node lost", since, pushing(run, 1)(before))

        written = run.job_folder / STATUS
        run.wait(lambda: written.exists() and '"TRAINING"' in written.read_text(), "its status")
        run.freeze("am")
        said = yarnps("status", run.application, "--cluster", "local")
        assert said.returncode == 0, said.stderr
        assert "ApplicationMaster does not answer" in said.stdout, said.stdout
        assert "What was written at" in said.stdout and "Training: epoch" in said.stdout
        since, before = time.time(), run.kill("am")
        back = run.event("am_restart", after=before)
        recovery("ApplicationMaster killed", since, back)
        run.event("save", after=back.seq)
        assert run.status().am_restarts == 1
        run.brake.unlink()
        check_exact(run, made, tmp_path / "model")
        # The other's processes ran on meanwhile: its own death costs nobody else's.
        assert not run.events("death", after=back.seq)


def test_deaths_at_the_wrong_moment(tmp_path: Path, made: Input) -> None:
    """In a cut, in the evaluation, in the export of the model."""
    with LocalRun(tmp_path / "moments", block(made, tmp_path)) as run:
        run.brake.touch()
        run.training()
        frozen = run.freeze("role", "server", 1)
        cut = run.wait(lambda: half_a_cut(run.job_folder / "cuts", frozen=1), "half a cut")
        before = run.kill("am")
        run.event("am_restart", after=before)
        run.event("save_failed", f"checkpoint {cut} was given up", after=before)
        run.thaw(frozen)
        run.event("save", after=before)

        run.hold.touch()
        run.brake.unlink()
        run.event("epoch", f"epoch 1 of {EPOCHS}: evaluation begins")
        again = "restarted in its container"
        kill(run, "role", "worker", 1, then=again, back=lambda after: run.event("up", after=after))
        run.hold.unlink()
        run.event("metric", "after epoch 1")

        run.hold.touch()
        run.event("epoch", f"epoch {EPOCHS} of {EPOCHS}: evaluation begins")
        frozen = run.freeze("role", "server", 0)
        run.hold.unlink()
        run.event("metric", f"after epoch {EPOCHS}")
        run.wait(lambda: run.status().state == "FINISHING", "the export")
        kill(run, "role", "server", 0, then="restarted in its container")
        check_exact(run, made, tmp_path / "model")


def half_a_cut(cuts: Path, frozen: int) -> int:
    """The number of a cut that one server has written, and that the frozen one cannot."""
    for folder in cuts.glob("*"):
        names = [path.name for path in folder.glob("server-*")]
        if names and not any(name.startswith(f"server-{frozen}-") for name in names):
            return int(folder.name)
    return 0


def test_frozen_processes(tmp_path: Path, made: Input) -> None:
    """A process that is there and does nothing counts as gone after `silence`."""
    with LocalRun(tmp_path / "frozen", block(made, tmp_path, silence="5 s")) as run:
        run.brake.touch()
        run.training()
        since, before = time.time(), run.last_event
        run.freeze("role", "worker", 0)
        run.freeze("role", "server", 1)
        for role, rank in (("worker", 0), ("server", 1)):
            death = run.event("death", role=role, rank=rank, after=before)
            assert death.data["cause"] == "silent"
        recovery("a frozen server", since, serving(run, 1)(before))
        recovery("a frozen worker", since, pushing(run, 0)(before))
        run.brake.unlink()
        check_exact(run, made, tmp_path / "model")


def test_the_application_master_dies_for_good(tmp_path: Path, made: Input) -> None:
    """On this machine nobody starts the supervisor again: no orphans, and the status says it."""
    with LocalRun(tmp_path / "gone", block(made, tmp_path, am_silence="2 s")) as run:
        run.brake.touch()
        run.training()
        processes.send(run.pid("supervisor"), signal.SIGKILL)
        run.kill("am")
        assert not run.wait_until_none_left(limit=30), "containers outlive am_silence"
        said = yarnps("status", run.application, "--cluster", "local")
        assert said.returncode == 0, said.stderr
        assert "ApplicationMaster is gone" in said.stdout
        followed = yarnps("attach", run.application, "--cluster", "local")
        assert followed.returncode == 1, followed.stderr
        assert "Traceback" not in followed.stderr + said.stderr


def test_without_marks_the_count_is_wrong(
    tmp_path: Path, made: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same deaths, with de-duplication switched off."""
    monkeypatch.setenv("YARNPS_FAULT_NO_MARKS", "1")
    with LocalRun(tmp_path / "control", block(made, tmp_path)) as run:
        run.brake.touch()
        run.training()
        run.event("save")
        rows = run.status().progress.rows
        run.wait(lambda: run.status().progress.rows > rows + 500, "rows after the save")
        kill(run, "role", "server", 0, then="restarted in its container")
        run.brake.unlink()
        assert run.outcome().state == "SUCCEEDED"
        last = run.events("audit")[-1]
        assert last.data["ledger"] == EPOCHS * made.all_rows
        assert last.data["servers"] != last.data["ledger"]
        assert "NOT as many as" in last.text
        assert model_sums(tmp_path / "model") != made.sums(EPOCHS)
