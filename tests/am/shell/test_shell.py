"""The shell around the state machine: a cluster that is away, and processes that come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from shell_world import Journalled, Life, QuietCluster, Ticks, until

from yarnps._errors import ClusterError
from yarnps.am import inputs as i
from yarnps.am.clusters.base import ContainerInfo, FinalState
from yarnps.am.shell.journal import Journal
from yarnps.data import DataSettings, list_input
from yarnps.protocol import control_pb2 as pb


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticks]:
    monkeypatch.setattr("yarnps.am.shell.loop.TICK_S", 0.01)
    made = Ticks(monkeypatch)
    yield made
    made.close()


@pytest.fixture
async def lives(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Life]]:
    """Processes of the AM that a test begins; all have died in the end."""
    monkeypatch.setattr("yarnps.am.shell.opening.LATEST_S", 0.01)
    monkeypatch.setattr("yarnps.am.shell.loop.POLITE_S", 0.0)
    made: list[Life] = []
    yield made
    for life in made:
        await life.die()


def listed(life: Life) -> i.Listed:
    found = list_input(
        list(life.config.block.data.train), DataSettings.from_block(life.config.block), workers=1
    )
    return i.Listed(tuple(split.to_pb() for split in found.splits), ())


# ---------------------------------------------------------------- a cluster that is away


async def test_a_cluster_that_hangs_does_not_stop_the_ticks(
    tmp_path: Path, ticks: Ticks, lives: list[Life]
) -> None:
    """The supervisor would end an ApplicationMaster that has nothing wrong with it."""
    asked, never = asyncio.Event(), asyncio.Event()

    class Hangs(QuietCluster):
        async def set_progress(self, fraction: float) -> None:
            asked.set()
            await never.wait()

    life = Life(tmp_path, Hangs())
    lives.append(life)
    await life.begin()
    await asyncio.wait_for(asked.wait(), 20)
    ticks.some()
    await until(ticks.some, limit_s=5.0)


async def test_the_ticks_go_on_until_the_application_has_ended(
    tmp_path: Path, ticks: Ticks, lives: list[Life]
) -> None:
    told, may_end = asyncio.Event(), asyncio.Event()

    class Slow(QuietCluster):
        async def finish(self, state: FinalState, diagnostics: str) -> None:
            told.set()
            await may_end.wait()
            await super().finish(state, diagnostics)

    life = Life(tmp_path, Slow())
    lives.append(life)
    await life.begin()
    life.shell.kill("ada", "enough")
    await asyncio.wait_for(told.wait(), 20)
    ticks.some()
    await until(ticks.some, limit_s=5.0)
    may_end.set()
    outcome = await life.end()
    assert outcome is not None and outcome.state == life.cluster.ended == "KILLED"


async def test_a_page_that_cannot_be_opened_ends_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: list[Life]
) -> None:
    monkeypatch.setattr("yarnps.am.shell.addresses.PAGE_AGAIN_S", 0.01)

    class NoProxy(QuietCluster):
        refusals = 2

        async def add_page(self, port: int, prefix: str) -> str:
            self.refusals -= 1
            if self.refusals >= 0:
                raise ClusterError("YARN could not add the web page: not now")
            return await super().add_page(port, prefix)

    life = Life(tmp_path, NoProxy())
    lives.append(life)
    await life.begin()
    await until(lambda: life.logged("page"))
    assert life.logged("page")[0].startswith("the page is at http://127.0.0.1:")
    assert life.status().state == "STARTING"


# ---------------------------------------------------------------- an event that cannot be taken in


async def test_an_event_that_cannot_be_kept_ends_the_process_whoever_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: list[Life]
) -> None:
    """The next one goes on from the journal; this one would know what no other ever will."""

    def full(self: Journal, record: bytes, *, soon: bool = False) -> None:
        raise OSError(28, "No space left on device")

    life = Life(tmp_path)
    lives.append(life)
    await life.begin()
    await until(lambda: life.logged("input"))
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", full)
        with pytest.raises(OSError, match="No space left"):
            life.shell.kill("ada", "enough")
    life.shell.kill("ada", "again")  # it takes in nothing more
    with pytest.raises(OSError, match="No space left"):
        await life.end()
    assert life.cluster.ended is None
    records = (tmp_path / "am" / "journal.jsonl").read_text()
    assert "Listed" in records and "KillOrdered" not in records


async def test_words_that_cannot_be_kept_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: list[Life]
) -> None:
    """They wait for the journal's next write, and nobody has brought that about."""

    def full(self: Journal) -> None:
        raise OSError(28, "No space left on device")

    life = Life(tmp_path)
    lives.append(life)
    await life.begin()
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "flush", full)
        with pytest.raises(OSError, match="No space left"):
            life.shell.flush()
    with pytest.raises(OSError, match="No space left"):
        await life.end()


async def test_ports_that_fail_end_the_process(tmp_path: Path, lives: list[Life]) -> None:
    """Nodes would wait for an answer for ever; the next process takes their ports again."""
    life = Life(tmp_path)
    lives.append(life)
    await life.begin()
    life.shell.fail(RuntimeError("nothing is heard any more"))
    with pytest.raises(RuntimeError, match="nothing is heard any more"):
        await life.end()
    assert life.cluster.ended is None


# ---------------------------------------------------------------- processes that come back


async def test_input_that_was_listed_before_the_start_is_known_after_a_return(
    tmp_path: Path, lives: list[Life]
) -> None:
    """Where the cluster is slow to tell its nodes, the listing comes first."""
    now, dead = time.time() - 50, Journalled(tmp_path, time.time() - 51)
    life = Life(tmp_path)
    lives.append(life)
    dead.take(listed(life), now)
    dead.take(i.Started(nodes=2), now + 1)
    life.shell.recall()
    course = life.shell.machine.training.course
    assert course.ledger is not None
    assert life.shell.machine.started == now
    assert life.shell.machine.snapshot()["members"] == dead.machine.snapshot()["members"]


async def test_a_process_that_died_before_the_start_is_followed_by_one_that_starts(
    tmp_path: Path, lives: list[Life]
) -> None:
    Journalled(tmp_path, time.time())  # and nothing in it
    life = Life(tmp_path)
    lives.append(life)
    await life.begin()
    await until(lambda: sorted(life.cluster.asked) == ["server", "worker"])
    await until(lambda: life.logged("input"))


async def test_what_is_listed_already_is_not_listed_again(
    tmp_path: Path, lives: list[Life]
) -> None:
    life, dead = Life(tmp_path), Journalled(tmp_path, time.time())
    lives.append(life)
    dead.take(listed(life), time.time())
    await life.begin()
    await until(lambda: sorted(life.cluster.asked) == ["server", "worker"])
    await until(lambda: life.logged("page"))
    assert not life.logged("input")


async def test_an_outcome_that_the_dead_process_did_not_write_down_is_written(
    tmp_path: Path, lives: list[Life]
) -> None:
    """Also one from before the start."""
    dead = Journalled(tmp_path, time.time())
    dead.take(i.Broken("data", "the input cannot be listed: nothing is there"), time.time())
    life = Life(tmp_path)
    lives.append(life)
    await life.begin()
    outcome = await life.end()
    assert outcome is not None and outcome.cause_code == "data"
    assert life.cluster.ended == "FAILED"
    assert not life.cluster.asked


async def test_no_limit_runs_out_before_the_returned_process_has_heard_anybody(
    tmp_path: Path, lives: list[Life]
) -> None:
    """The agent was told to start a process a second before the AM's own was stopped for long."""
    began = time.time() - 300
    dead = Journalled(tmp_path, began)
    nonce = dead.nonce(dead.take(i.Started(nodes=2), began), "worker")
    dead.take(i.Placed(nonce, "worker_2"), began + 1)
    dead.take(i.Changed(ContainerInfo("worker_2", "worker", "running", "n1")), began + 2)
    register = pb.Register(container="worker_2", role="worker", nonce=nonce, host="n1", version="1")
    dead.take(i.AgentCame(register), began + 3)
    life = Life(tmp_path)
    lives.append(life)
    life.shell.recall()
    await life.shell._tick()
    assert not life.logged("death")
    worker = next(p for p in life.status().processes if p.role == "worker")
    assert (worker.container, worker.deaths) == ("worker_2", 0)


async def test_the_restarts_are_the_supervisor_s_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: list[Life]
) -> None:
    """A compacted journal has forgotten them."""
    monkeypatch.setenv("YARNPS_AM_START", "3")
    life = Life(tmp_path)
    lives.append(life)
    life.shell.recall()
    assert life.status().am_restarts == 3


async def test_a_process_that_dies_while_it_notes_its_port_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: list[Life]
) -> None:
    first, second, third = Life(tmp_path), Life(tmp_path), Life(tmp_path)
    lives += [first, second, third]
    await first.begin()
    port = first.shell.service.port
    await first.die()
    write = Path.write_text

    def killed(path: Path, text: str) -> int:
        write(path, text[: len(text) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "write_text", killed)
        await second.begin()
    await second.die()
    await third.begin()
    assert third.shell.service.port == port
