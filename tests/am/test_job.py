"""One mishap at a time against a whole job, and how a job ends when it does not succeed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from job_roles import ROWS, Server, Worker
from job_world import World
from test_job_simulated import config

from yarnps.am import inputs as i
from yarnps.am.actions import Log, Publish
from yarnps.am.durable import durable
from yarnps.am.shell import view
from yarnps.am.shell.telemetry import Telemetry
from yarnps.am.training.plan import Cut, Export
from yarnps.protocol import control_pb2 as pb

SECONDS = 60.0  # of simulated time that an undisturbed job takes, and some more


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An undisturbed job; a test does the harm itself."""
    return World(1, config(tmp_path), calm_after_s=0, limit_s=SECONDS + 60)


def training(world: World) -> bool:
    ledger = world.machine.training.course.ledger
    return ledger is not None and ledger.rows > 50


def at(world: World, step: type[Cut | Export]) -> Callable[[], bool]:
    """Whether this step of the plan is under way."""
    return lambda: isinstance(world.machine.training.course.step, step)


def server(world: World, rank: int) -> Server:
    found = world.box_of("server", rank).running[0]
    assert isinstance(found, Server)
    return found


def loading(world: World) -> bool:
    return any(
        isinstance(role, Server) and role.rank == 0 and role.begun and not role.ready
        for role in world.processes.values()
    )


def test_orders_lost_with_a_stream_are_repeated(world: World) -> None:
    """Nobody waits ten minutes for a save, or an export, that nobody does."""
    for wanted in (Cut, Export):
        world.until(at(world, wanted))
        world.box_of("server", 1).drop()  # before the order has arrived
    world.run()
    world.check_end(model_epoch=3)
    assert not world.logged("save_failed")


def test_orders_of_a_process_that_has_died_are_repeated(world: World) -> None:
    for wanted in (Cut, Export):
        world.until(at(world, wanted))
        world.am_dies()
        world.until(lambda: world.am_alive)
    world.run()
    world.check_end(model_epoch=3)
    assert len(world.logged("am_restart")) == 2


def test_a_late_error_of_an_earlier_cut_is_nothing_to_this_one(world: World) -> None:
    world.until(at(world, Cut))
    course = world.machine.training.course
    assert course.saver is not None and course.saver.cuts.open is not None
    number = course.saver.cuts.open.number
    late = pb.FromRole(save_done=pb.SaveDone(cut=number - 1, error="the disk is full"))
    for _ in range(3):
        who = server(world, 0).who
        message = pb.FromAgent(role=pb.RoleSays(incarnation=who, message=late))
        world.feed(i.AgentSaid(world.box_of("server", 0).id, message))
    assert course.saver.cuts.open.number == number
    world.feed(i.ManifestWritten(number - 1, "no space"))
    assert course.saver.cuts.open.number == number
    world.run()
    world.check_end(model_epoch=3)
    assert not world.logged("save_failed")


def test_finished_epochs_are_not_evaluated_again_after_a_server_died(world: World) -> None:
    world.until(lambda: world.logged("epoch", "epoch 2 of 3: training"))
    world.until(lambda: any(batch[0] == 2 for batch in server(world, 1).shards.applied))
    box = world.box_of("server", 0)
    box.exited(box.running[0], -9)
    world.run()
    world.check_end(model_epoch=3)
    assert [log.text for log in world.logged("metric")] == [
        f"after epoch {epoch}: test_loss {world.loss(epoch):g}" for epoch in (1, 2, 3)
    ]


def test_a_model_that_could_not_be_written_twice_counts_no_more_when_it_is(tmp_path: Path) -> None:
    """Three failures in a row end a job, not three in all its epochs."""
    stop = {"metric": "test_loss", "patience": 5}
    world = World(1, config(tmp_path, stop=stop), calm_after_s=0)
    publish, tries = world.publish, Counter[str]()

    def busy(order: Publish) -> None:
        name = f"{order.kind} {order.source}"
        tries[name] += 1
        if tries[name] <= 2:
            world.feed(i.Published(order.kind, order.source, "the name node is in safe mode"))
        else:
            publish(order)

    world.publish = busy  # type: ignore[method-assign]
    world.run()
    world.check_end(model_epoch=2)
    assert sorted(tries.values()) == [3, 3, 3]  # of two epochs, and in its place


def test_a_server_that_does_not_write_its_part_of_the_model_is_not_waited_for_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnps.am.training.saver.EXPORT_LIMIT_S", 30.0)
    world.until(lambda: training(world))
    hangs = server(world, 1)
    write, orders = hangs.export, iter([False])
    monkeypatch.setattr(hangs, "export", lambda path: next(orders, True) and write(path))
    world.run()
    world.check_end(model_epoch=3)
    (failed,) = world.logged("model_failed")
    assert failed.text == "the model is not written after 30 s: server 1 missing"


def test_what_a_lost_server_had_learned_is_said_and_not_done_again(tmp_path: Path) -> None:
    world = World(1, config(tmp_path, server={"on_loss": "patch"}), calm_after_s=0)
    course = world.machine.training.course

    def beyond_a_cut() -> bool:
        assert course.ledger is not None
        saves = world.logged("save")
        return bool(saves) and course.ledger.rows > saves[-1].data["rows"] + 3 * ROWS

    world.until(lambda: course.ledger is not None and beyond_a_cut())
    assert course.saver is not None and course.saver.cuts.newest is not None
    newest, lost = course.saver.cuts.newest, server(world, 0)
    (file,) = (f for f in newest.files if f.server_rank == 0)
    of_cut = world.files[f"/job/{newest.folder}", file.name].applied
    missing = lost.shards.applied - of_cut
    box = world.box_of("server", 0)
    box.exited(lost, -9)
    world.run()
    assert world.machine.outcome is not None and world.machine.outcome.state == "SUCCEEDED"
    (said,) = world.logged("patch", f"128 of 256 shards come from checkpoint {newest.number}.")
    assert 0 < said.data["rows"] == world.machine.training.course.losses.rows
    assert not world.logged("replay")
    model = world.models[world.published[-1]]
    assert model[1] == world.whole(3)
    assert model[0] == world.whole(3) - missing
    (counted,) = (log.data for log in world.logged("audit", "server.on_loss is patch")[-1:])
    assert counted["ledger"] == ROWS * world.whole(3).total()
    assert counted["servers"] == counted["ledger"] - ROWS * sum(b[1] % 2 == 0 for b in missing)


@pytest.mark.parametrize("role", ["server", "worker"])
def test_frozen_before_the_application_master_died(role: str, world: World) -> None:
    """A restarted AM has heard nobody yet: who never speaks to it is found all the same."""
    world.until(lambda: training(world))
    world.box_of(role, 0).running[0].frozen = True
    world.am_dies()
    world.run()
    world.check_end(model_epoch=3)
    assert world.logged("death", f"{role} 0 died")


def test_frozen_while_it_loads(world: World) -> None:
    world.until(lambda: loading(world))
    server(world, 0).frozen = True
    world.end_s += 80  # the limit is longer for who has just been told its job
    world.run()
    world.check_end(model_epoch=3)


def test_frozen_after_the_end_of_the_data(world: World) -> None:
    world.until(lambda: world.machine.training.course.over)
    worker = world.box_of("worker", 0).running[0]
    assert isinstance(worker, Worker)
    worker.frozen = True
    world.run()
    world.check_end(model_epoch=3)


def test_who_says_nothing_is_named_before_it_is_replaced(world: World) -> None:
    world.until(lambda: training(world))
    telemetry, quiet = Telemetry(), server(world, 1).who.id
    for member in world.processes:
        telemetry.spoke(member, world.now - (7.0 if member == quiet else 1.0))
    said = "has said nothing for 7 s, and is replaced after 15 s"
    around = view.Surroundings("ada", "local", "")
    silent = view.silent(world.machine, telemetry, world.now)
    assert view.waits(world.machine, around, silent, world.now) == [f"server 1 {said}"]
    rows = view.processes(world.machine, telemetry, silent, world.now)
    assert [(row.role, row.rank) for row in rows if row.note == said] == [("server", 1)]


def test_killed_by_its_user(world: World) -> None:
    world.until(lambda: training(world))
    world.feed(i.KillOrdered("ada", "wrong data"))
    outcome = world.run().outcome
    assert outcome is not None
    assert (outcome.state, outcome.cause_code) == ("KILLED", "killed_by_user")
    assert outcome.cause == "killed by ada: wrong data"
    world.until(lambda: all(box.state == "ended" for box in world.boxes.values()))
    assert not world.logged("replay"), "something was replayed after the end"


def test_a_program_that_fails_for_good(tmp_path: Path) -> None:
    world = World(1, config(tmp_path), calm_after_s=0)
    world.until(lambda: training(world))
    box = world.box_of("worker", 1)
    worker = box.running[0]
    failed = pb.RoleFailed(error="InputError: no such column", traceback="T", user_error=True)
    worker.say(failed=failed)
    box.exited(worker, 1)
    outcome = world.run().outcome
    assert outcome is not None
    assert (outcome.state, outcome.cause_code) == ("FAILED", "input")
    assert outcome.cause == "worker 1: no such column"
    assert outcome.retry_helps is False and not outcome.traceback  # it is the user's mistake


def test_a_tick_that_begins_something_is_journalled() -> None:
    """A phase that begins while no worker is there tells nobody, and must be replayed."""
    log: list[Log] = [Log("epoch", "epoch 2 of 3: training begins")]
    assert durable(i.Ticked(), list(log))
    assert not durable(i.Ticked(), [])
    assert not durable(i.AgentWent("worker_1"), list(log))


def test_a_first_push_that_is_said_again_is_logged_once(world: World) -> None:
    """A worker's agent says everything of the last minute again to a restarted AM."""
    world.until(lambda: training(world))
    worker = next(r for r in world.processes.values() if isinstance(r, Worker))
    worker.say(first_push=pb.FirstPush())
    world.am_dies()
    world.until(lambda: world.am_alive)
    worker.say(first_push=pb.FirstPush())
    world.run()
    assert len(world.logged("first_push")) == 1
