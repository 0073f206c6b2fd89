"""`Cuts`: one at a time, complete or not at all."""

from __future__ import annotations

import json

import pytest

from yarnps.am.training.cuts import NO_CUT, Abandoned, Cut, CutFile, Cuts, Manifest
from yarnps.protocol import control_pb2 as pb

START = {"epoch": 0}
SERVERS = {0: 100, 1: 101}


def saved(cut: int, name: str = "f", error: str = "") -> pb.SaveDone:
    files = [pb.SavedFile(name=name, bytes=10, rows=3, table="w", sum=1.5)]
    return pb.SaveDone(cut=cut, error=error, files=[] if error else files)


def make(cuts: Cuts, now: float, epoch: int = 1) -> Manifest:
    """A cut from beginning to end, but for `durable`."""
    number = cuts.begin({"epoch": epoch}, SERVERS, now).number
    assert cuts.save_done(0, 100, saved(number, "server-0")) is None
    manifest = cuts.save_done(1, 101, saved(number, "server-1"))
    assert manifest is not None
    return manifest


def test_a_cut_is_due_after_its_time_and_not_while_one_is_under_way() -> None:
    cuts = Cuts(60, 3, START, start=1000)
    assert not cuts.due(1059)
    assert cuts.due(1060)
    cuts.begin({}, SERVERS, 1060)
    assert not cuts.due(2000)
    cuts.abandon("a server died")
    assert cuts.due(2000)
    assert not Cuts(0, 3, START).due(1e9)


def test_the_manifest_is_there_when_every_server_has_saved() -> None:
    cuts = Cuts(60, 3, START)
    cut = cuts.begin({"epoch": 2}, SERVERS, 5, reason="epoch end", extra={"history": [1]})
    assert cut == Cut(1, "cuts/1", "epoch end")
    assert cuts.save_done(1, 101, saved(1, "server-1")) is None
    assert cuts.missing == [0]
    manifest = cuts.save_done(0, 100, saved(1, "server-0"))
    assert manifest == Manifest(
        number=1,
        folder="cuts/1",
        reason="epoch end",
        time=5,
        servers=2,
        ledger={"epoch": 2},
        extra={"history": [1]},
        files=(
            CutFile(1, 101, "server-1", 10, 3, "w", 1.5),
            CutFile(0, 100, "server-0", 10, 3, "w", 1.5),
        ),
    )
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert cuts.newest_ledger == START, "it counts when its manifest is written"
    assert cuts.durable(1) is not None
    assert (cuts.newest, cuts.newest_ledger, cuts.open) == (manifest, {"epoch": 2}, None)


@pytest.mark.parametrize(
    ("rank", "incarnation", "number"), [(0, 99, 1), (0, 100, 2), (1, 100, 1), (7, 100, 1)]
)
def test_words_of_others_do_not_count(rank: int, incarnation: int, number: int) -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    assert cuts.save_done(rank, incarnation, saved(number)) is None
    assert cuts.missing == [0, 1]


def test_said_twice_counts_once() -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    cuts.save_done(0, 100, saved(1))
    assert cuts.save_done(0, 100, saved(1)) is None
    manifest = cuts.save_done(1, 101, saved(1))
    assert manifest is not None and len(manifest.files) == 2


def test_a_server_that_cannot_save_is_named() -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    full = saved(1, error="no space")
    assert cuts.error_of(1, 100, full) == ""
    assert cuts.error_of(1, 101, saved(1)) == ""
    assert cuts.save_done(1, 101, full) is None
    assert cuts.error_of(1, 101, full) == "server 1 could not save: no space"
    assert cuts.abandon("x") == Abandoned(1, "cuts/1", "x")
    assert cuts.error_of(1, 101, full) == ""


def test_numbers_are_not_used_again() -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    cuts.abandon("x")
    assert cuts.abandon("x") is None
    assert cuts.begin({}, SERVERS, 1).number == 2


def test_a_cut_that_was_abandoned_while_its_manifest_was_written_does_not_count() -> None:
    cuts = Cuts(60, 3, START)
    manifest = make(cuts, 0)
    cuts.abandon("server 1 died")
    assert cuts.durable(manifest.number) is None
    assert cuts.newest_number == NO_CUT


def test_an_incomplete_cut_cannot_be_durable() -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    assert cuts.durable(1) is None


def test_two_at_once_are_a_mistake() -> None:
    cuts = Cuts(60, 3, START)
    cuts.begin({}, SERVERS, 0)
    with pytest.raises(ValueError, match="cut 1 is not finished"):
        cuts.begin({}, SERVERS, 0)


def test_a_cut_has_a_limit_that_names_who_is_missing() -> None:
    cuts = Cuts(60, 3, START, limit=30)
    cuts.begin({}, SERVERS, 100)
    cuts.save_done(0, 100, saved(1))
    assert cuts.expired(129) == ""
    assert cuts.expired(130) == "not complete after 30 s: server 1 missing"
    cuts.save_done(1, 101, saved(1))
    assert cuts.expired(130) == "not complete after 30 s: its manifest missing"


def test_only_the_newest_are_kept() -> None:
    cuts = Cuts(60, 2, START)
    deleted = []
    for now in range(5):
        durable = cuts.durable(make(cuts, now).number)
        assert durable is not None
        deleted.append([cut.number for cut in durable.delete])
    assert deleted == [[], [], [1], [2], [3]]


def test_a_restart_in_the_middle_of_a_cut() -> None:
    cuts = Cuts(60, 2, START)
    cuts.durable(make(cuts, 0).number)
    cuts.begin({"epoch": 2}, SERVERS, 9)
    cuts.save_done(0, 100, saved(2))
    again = Cuts(60, 2, START)
    again.restore(json.loads(json.dumps(cuts.snapshot())))
    assert again.snapshot() == cuts.snapshot()
    assert again.newest_ledger == {"epoch": 1}
    manifest = again.save_done(1, 101, saved(2))
    assert manifest is not None and manifest.ledger == {"epoch": 2}
    assert again.durable(2) is not None


def test_a_new_attempt_goes_on_from_the_cuts_that_are_there() -> None:
    old = Cuts(60, 2, START)
    manifests = []
    for now in range(2):
        manifests.append(make(old, now, epoch=now + 1))
        old.durable(manifests[-1].number)
    new = Cuts(60, 2, START)
    new.adopt(list(reversed(manifests)), numbers=[1, 2, 7])
    assert (new.newest_number, new.newest_ledger) == (2, {"epoch": 2})
    manifest = make(new, 0)
    assert manifest.number == 8
    durable = new.durable(8)
    assert durable is not None and [cut.number for cut in durable.delete] == [1]
