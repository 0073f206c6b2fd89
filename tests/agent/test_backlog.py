from __future__ import annotations

from yarnps.agent import _backlog
from yarnps.agent._backlog import Backlog
from yarnps.protocol import control_pb2 as pb


def says(who: int = 1, **kind: object) -> pb.FromAgent:
    message = pb.FromRole(**kind)  # type: ignore[arg-type]
    return pb.FromAgent(role=pb.RoleSays(incarnation=pb.Incarnation(id=who), message=message))


def progress(batches: int, *, split: int = 0, token: int = 1, who: int = 1) -> pb.FromAgent:
    p = pb.Progress(epoch=0, phase="train", split=split, token=token, batches=batches)
    return says(who, progress=p)


def exited(start: int) -> pb.FromAgent:
    return pb.FromAgent(role_exited=pb.RoleExited(incarnation=pb.Incarnation(start=start)))


def test_order_is_kept_and_the_newest_of_what_is_cumulative() -> None:
    backlog = Backlog()
    for message in (
        says(stats=pb.Stats(clock=1)),
        progress(1),
        exited(0),
        progress(2),
        progress(7, split=1),
        progress(3, token=2),
        progress(4, who=2),
        says(stats=pb.Stats(clock=2)),
        says(want=pb.WantLeases(count=1)),
        says(want=pb.WantLeases(count=2)),
    ):
        backlog.add(message, sent=False, now=0)
    assert backlog.take(0) == [
        exited(0),
        progress(2),
        progress(7, split=1),
        progress(3, token=2),
        progress(4, who=2),
        says(stats=pb.Stats(clock=2)),
        says(want=pb.WantLeases(count=2)),
    ]


def test_what_was_sent_is_kept_for_a_while() -> None:
    backlog = Backlog()
    backlog.add(exited(0), sent=True, now=0)
    backlog.add(exited(1), sent=True, now=50)
    assert backlog.take(59) == [exited(0), exited(1)]
    # Taken is sent anew.
    assert backlog.take(59 + _backlog.KEEP_S - 1) == [exited(0), exited(1)]
    assert backlog.take(59 + 3 * _backlog.KEEP_S) == []


def test_what_was_not_sent_is_kept_as_long_as_it_takes() -> None:
    backlog = Backlog()
    backlog.add(exited(0), sent=False, now=0)
    assert backlog.take(10_000) == [exited(0)]


def test_what_would_count_twice_is_sent_once() -> None:
    once = [
        says(stats=pb.Stats(clock=1)),
        says(report=pb.Report(values={"loss": 1.0})),
        says(event=pb.RoleEvent(name="x")),
    ]
    backlog = Backlog()
    for message in once:
        backlog.add(message, sent=True, now=0)
    assert backlog.take(0) == []
    for message in once:
        backlog.add(message, sent=False, now=0)
    assert backlog.take(0) == once
    assert backlog.take(1) == [], "said once, not again after the next loss"


def test_it_is_bounded() -> None:
    backlog = Backlog()
    for n in range(_backlog.LIMIT + 5):
        backlog.add(exited(n), sent=False, now=0)
    kept = backlog.take(0)
    assert len(kept) == _backlog.LIMIT
    assert kept[-1] == exited(_backlog.LIMIT + 4)
    assert backlog.dropped == 5
