"""`data()` with real processes: clocks, phases, failures, an ApplicationMaster that comes back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from engine_harness import Player, playing, write_input
from test_training import COUNT, model_of

from yarnps.protocol import control_pb2 as pb

# Both begin together; worker 0 is slow; both write down when each of their batches read and ended.
UNEVEN = """
import pathlib, time
table = job.sparse("w", optimizer=yarnps.Add())
pathlib.Path(f"here-{job.rank}").touch()
deadline = time.monotonic() + 60
def both(kind):
    while not all(pathlib.Path(f"{kind}-{rank}").exists() for rank in range(2)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
both("here")
with open(f"clock-{job.rank}", "w", buffering=1) as out:
    for batch in job.data():
        with batch:
            table.pull(batch.keys).wait()
            out.write(f"{time.time()} {job._client.clock} read\\n")
            # Neither goes on before the other has work, too.
            pathlib.Path(f"reads-{job.rank}").touch()
            both("reads")
            if job.rank == 0:
                time.sleep(0.05)
            table.push(batch.keys, batch.values)
            # Before the commit: the other one may be let go on before this line could be written.
            out.write(f"{time.time()} {job._client.clock + 1} done\\n")
"""


def block(folder: Path, *, files: int = 4, rows: int = 1000, **more: Any) -> dict[str, Any]:
    return {
        "data": {"train": write_input(folder / "in", files, rows), **more.pop("data", {})},
        "train": {"epochs": 1, "batch_rows": 50, **more.pop("train", {})},
        **more,
    }


def furthest_ahead(folder: Path) -> int:
    """The most batches that a read was ahead of the other worker's clock, while both had work.

    Who comes later begins at the clock of who is there, so the time before is left out.
    """
    lines, begins, ends = [], [], []
    for rank in range(2):
        own = [line.split() for line in (folder / f"clock-{rank}").read_text().splitlines()]
        lines += [(float(t), rank, int(clock), what) for t, clock, what in own]
        begins.append(float(own[0][0]))
        ends.append(float(own[-1][0]))
    clocks = [0, 0]
    ahead = 0
    for when, rank, clock, what in sorted(lines):
        clocks[rank] = clock
        if what == "read" and max(begins) < when < min(ends):
            ahead = max(ahead, clock - clocks[1 - rank])
    return ahead


def begin_together(player: Player) -> None:
    """Start, and give out no work before all workers want some: none has it all to itself."""
    player.grant_allowed = False
    player.start()
    player.wait(lambda: all(w.want for w in player.alive("worker")), "all want work")
    with player.changed:
        player.grant_allowed = True
        player._grant()


@pytest.mark.parametrize("staleness", [0, 3])
def test_the_bound_of_staleness_holds(tmp_path: Path, staleness: int) -> None:
    settings = block(tmp_path, sync={"mode": "ssp", "staleness": staleness})
    with playing(tmp_path, settings, UNEVEN, start=False) as player:
        begin_together(player)
        player.finish()
    assert 0 <= furthest_ahead(tmp_path) <= staleness
    for worker in (player.of("worker", 0), player.of("worker", 1)):  # of 2 s and more
        waited = [m.stats.idle_s for m in worker.said if m.HasField("stats")]
        assert waited[-1] > 0 and waited == sorted(waited)


@pytest.mark.parametrize("how", ["asp", "no gate"])
def test_without_the_gate_the_bound_is_violated(tmp_path: Path, how: str) -> None:
    sync = {"mode": "asp"} if how == "asp" else {"mode": "ssp", "staleness": 0}
    env = {"YARNPS_FAULT_NO_GATE": "1"} if how == "no gate" else {}
    program = UNEVEN
    if how == "asp":  # without a clock, count batches
        program = UNEVEN.replace("job._client.clock", "(job._loop.rows_done // 50)")
    settings = block(tmp_path, sync=sync)
    with playing(tmp_path, settings, program, env=env, start=False) as player:
        begin_together(player)
        player.finish()
    assert furthest_ahead(tmp_path) > 3


def test_a_dead_worker_holds_nobody_up(tmp_path: Path) -> None:
    settings = block(tmp_path, sync={"staleness": 0}, train={"pace": 0.02, "batch_rows": 50})
    with playing(tmp_path, settings, COUNT, workers=3) as player:
        player.wait(lambda: player.rows_committed > 300, "the training runs")
        player.kill_worker(2)
        player.finish()
        player.export(tmp_path / "model", tables=["count"])
    assert model_of(tmp_path / "model", "count") == dict.fromkeys(range(4), 1000.0)


EVALUATE = """
import threading
table = job.sparse("w", optimizer=yarnps.Add())

def look(rows):
    return threading.current_thread().name, rows.keys.sum()

def check(batch):
    assert batch.ahead == ("feed", batch.keys.sum())

def evaluate(batch):
    assert batch.phase == "test"
    check(batch)
    w = table.pull(batch.keys).wait()
    return {"n": batch.rows, "loss": [float(w.sum() > 0), batch.rows]}

for batch in job.data(evaluate=evaluate, ahead=look):
    with batch:
        check(batch)
        table.push(batch.keys, batch.values)
        job.report(mine=batch.index)
"""


def test_the_test_phase_is_gone_through_once_an_epoch(tmp_path: Path) -> None:
    test = write_input(tmp_path / "test", 3, 120)
    settings = block(tmp_path, data={"test": test}, train={"epochs": 2, "batch_rows": 50})
    with playing(tmp_path, settings, EVALUATE) as player:
        player.finish()
    # 3 files of 120 rows are 9 batches.
    assert player.sums == {
        "0/n": [360.0],
        "0/loss": [9.0, 360.0],
        "1/n": [360.0],
        "1/loss": [9.0, 360.0],
    }
    said = [m for p in player.processes.values() for m in p.said]
    reports = [m.report for m in said if m.HasField("report")]
    assert {dict(r.values)["mine"] for r in reports} == set(range(20))
    assert {r.epoch for r in reports} == {0, 1}


def last_words(player: Player, rank: int = 0) -> pb.RoleFailed:
    process = player.of("worker", rank)
    process.popen.wait(30)
    player.wait(lambda: player.failures or not process.log, "it is told")
    return player.failures.pop()


@pytest.mark.parametrize(
    ("program", "words", "user_error"),
    [
        ("raise ZeroDivisionError('mine')", "ZeroDivisionError: mine", False),
        ("job.sparse('a/b')", "a table cannot be named 'a/b'", True),
        ("for batch in job.data(): pass", "was taken from data() and not entered", False),
        (
            "for batch in job.data():\n    with batch:\n        raise KeyError('x')",
            "KeyError: 'x'",
            False,
        ),
        (
            "for batch in job.data():\n    try:\n        with batch:\n            1 / 0\n"
            "    except ZeroDivisionError: pass",
            "was not committed",
            False,
        ),
        (
            "def look(rows): raise yarnps.DataError('not mine')\n"
            "for batch in job.data(ahead=look):\n    with batch:\n        batch.ahead",
            "DataError: not mine",
            True,
        ),
    ],
)
def test_a_program_that_fails_says_why(
    tmp_path: Path, program: str, words: str, user_error: bool
) -> None:
    with playing(tmp_path, block(tmp_path), program, start=False, servers=1) as player:
        player.start_server(0)
        player.wait(lambda: player._routes.servers[0].address, "ready")
        process = player.start_worker(0)
        assert process.popen.wait(30) == 1
        with player.changed:
            player.changed.wait_for(lambda: player.failures, 10)
        failed = player.failures.pop()
    assert words in failed.error
    assert "Traceback" in failed.traceback
    assert failed.user_error == user_error
    assert not any(m.HasField("finished") for m in process.said)


def test_a_test_input_without_an_evaluation(tmp_path: Path) -> None:
    settings = block(tmp_path, files=1, data={"test": write_input(tmp_path / "test", 1, 10)})
    with playing(tmp_path, settings, COUNT, start=False, servers=1) as player:
        player.start_server(0)
        player.wait(lambda: player._routes.servers[0].address, "ready")
        assert player.start_worker(0).popen.wait(30) == 1
        with player.changed:
            player.changed.wait_for(lambda: player.failures, 10)
        assert "the program no evaluation" in player.failures.pop().error


def test_what_a_worker_says(tmp_path: Path) -> None:
    settings = block(tmp_path, files=2, rows=4000, train={"batch_rows": 20, "epochs": 1})
    with playing(tmp_path, settings, COUNT) as player:
        player.finish()
    workers = [p for p in player.processes.values() if p.role == "worker"]
    for worker in workers:
        kinds = [m.WhichOneof("kind") for m in worker.said]
        assert kinds[0] == "hello" and kinds[-1] == "finished"
        assert kinds.count("first_push") <= 1 and kinds.count("finished") == 1
        # 400 batches, and the ApplicationMaster hears of them now and then only.
        assert kinds.count("progress") < 60 and kinds.count("want") < 20
    done = [
        m.progress for w in workers for m in w.said if m.HasField("progress") and m.progress.done
    ]
    assert sorted((p.split, p.batches, p.rows) for p in done) == [(0, 200, 4000), (1, 200, 4000)]
    assert all(p.bytes == player.splits[p.split].length for p in done)


def test_bad_records_are_counted_and_shown(tmp_path: Path) -> None:
    settings = block(tmp_path, files=1, rows=100, data={"max_bad_records": 10})
    file = tmp_path / "in" / "part-00.libsvm"
    file.write_text(file.read_text() + "this is no record\n1 5:1\n")
    with playing(tmp_path, settings, COUNT, workers=1) as player:
        player.finish()
    said = player.of("worker", 0).said
    progress = [m.progress for m in said if m.HasField("progress")]
    assert progress[-1].bad_records == 1 and progress[-1].rows == 101
    (bad,) = [bad for p in progress for bad in p.bad]
    assert bad.line == 101 and bad.path.endswith("part-00.libsvm")


def test_a_file_that_changed_fails_its_split_by_name(tmp_path: Path) -> None:
    settings = block(tmp_path, files=1)
    with playing(tmp_path, settings, COUNT, workers=1, start=False) as player:
        file = tmp_path / "in" / "part-00.libsvm"
        file.write_text(file.read_text() + "1 1:1\n")
        player.start()
        player.wait(lambda: player.errors, "the split has failed")
    assert "part-00.libsvm" in player.errors[0]
    failed = [m.split_failed for m in player.of("worker", 0).said if m.HasField("split_failed")]
    assert failed[0].changed


def times_ready(server: Any) -> int:
    """How often a server has said that it is ready."""
    return [m.WhichOneof("kind") for m in server.said].count("server_ready")


def test_an_application_master_that_comes_back_is_told_everything(tmp_path: Path) -> None:
    settings = block(tmp_path, train={"pace": 0.05, "batch_rows": 50, "audit": True})
    with playing(tmp_path, settings, COUNT) as player:
        player.wait(
            lambda: all(
                any(s.worker == p.incarnation.id and s.committed for s in player.states.values())
                for p in player.alive("worker")
            ),
            "both workers train",
        )
        with player.changed:
            for process in player.processes.values():
                process.hellos = 0
                process.tell(am_back=pb.AmBack(same_attempt=True))
        player.wait(
            lambda: all(p.hellos for p in player.processes.values()), "all have said hello again"
        )
        for rank in range(2):
            held = player.of("worker", rank).held
            assert 1 <= len(held) <= 2
            tokens = {(s.token, s.split.id) for s in player.states.values()}
            assert {(lease.token, lease.split) for lease in held} <= tokens
            # Begin may come again; nothing starts over.
            player.of("worker", rank).tell(begin=player._begin(player.of("worker", rank)))
            server = player.of("server", rank)
            server.tell(begin=player._begin(server))
            player.wait(lambda s=server: times_ready(s) == 2, f"server {rank} is ready again")
        player.finish()
        player.export(tmp_path / "model", tables=["count", "yarnps.rows"])
    assert model_of(tmp_path / "model", "count") == dict.fromkeys(range(4), 1000.0)


def test_roles_end_when_their_agent_is_gone(tmp_path: Path) -> None:
    settings = block(tmp_path, train={"pace": 0.5})
    with playing(tmp_path, settings, COUNT) as player:
        player.wait(lambda: player.rows_committed > 0, "the training runs")
        player.closing = True
        for process in player.processes.values():
            process.channel.shutdown(2)
        for process in player.processes.values():
            assert process.popen.wait(10) == 1
            assert re.search("agent has closed its channel", process.log.read_text())
