"""`Ledger`: leases, failures, and going back."""

from __future__ import annotations

import json

import pytest
from made_ledgers import begun, finish_phase, one
from made_splits import MadeSplit, failure, said, splits

from yarnps._errors import DataError
from yarnps.am.training.ledger import AVOID_NODE_S, Ledger
from yarnps.am.training.ledger_records import DoneSplits, Revoked, done_splits

# ---------------------------------------------------------------- leases


def test_a_lost_lease_goes_on_from_its_last_committed_batch() -> None:
    ledger = begun(1)
    first = one(ledger)
    ledger.progress(1, said(first, 3, 30, size=40), 1)
    assert ledger.lost(1) == [Revoked(1, "train", 0, first.token)]
    second = one(ledger, worker=2)
    assert (second.from_batch, second.from_rows) == (3, 30)
    assert second.token > first.token
    assert ledger.rows == 30
    assert ledger.progress(2, said(second, 5, 50, done=True), 2) == (True, True)
    assert (ledger.rows, ledger.phase_done) == (50, True)


def test_an_old_token_is_refused_even_from_the_same_worker() -> None:
    ledger = begun(1)
    old = one(ledger)
    ledger.revoke(1)
    new = one(ledger)
    assert ledger.progress(1, said(old, 4, 40, done=True), 1) == (False, False)
    assert ledger.failed(1, failure(old), "n0", 1).accepted is False
    assert (ledger.rows, ledger.phase_done) == (0, False)
    assert ledger.progress(1, said(new, 4, 40, done=True), 1) == (True, True)


def test_another_worker_cannot_speak_for_a_lease() -> None:
    ledger = begun(1)
    grant = one(ledger)
    assert ledger.progress(2, said(grant, 1, 10), 1) == (False, False)


def test_numbers_only_go_forward() -> None:
    ledger = begun(1)
    grant = one(ledger)
    ledger.progress(1, said(grant, 3, 30, size=40), 1)
    assert ledger.progress(1, said(grant, 2, 20, size=30), 2) == (True, False)
    assert (ledger.rows, ledger.bytes) == (30, 40)


def test_nothing_is_given_out_before_the_start_or_after_the_close() -> None:
    ledger = Ledger(splits(3))
    assert ledger.lease(1, "n0", 2, 0) == []
    assert not ledger.phase_done
    ledger.begin(1, "train")
    grant = one(ledger)
    assert ledger.close() == [Revoked(1, "train", grant.split.id, grant.token)]
    assert ledger.lease(1, "n0", 2, 0) == []
    assert ledger.phase_done


def test_local_splits_come_first_whatever_the_case_of_the_name() -> None:
    ledger = begun(6)
    grants = ledger.lease(1, "N1", 3, 0)
    assert [grant.split.id % 2 for grant in grants] == [1, 1, 1]
    assert one(ledger, worker=2, node="n1").split.id % 2 == 0


RACKS = {"N0": "/a", "n1": "/b", "n2": "/a", "n3": "/b"}


def test_local_before_rack_before_any() -> None:
    ledger = Ledger(splits(8, nodes=4), racks=RACKS, shuffle=False)
    ledger.begin(1, "train")
    on_n2 = [grant.split.id for grant in ledger.lease(1, "n2", 8, 0)]
    assert on_n2 == [2, 6, 0, 4, 1, 3, 5, 7]


def test_a_node_without_input_takes_that_of_its_rack() -> None:
    ledger = Ledger(splits(4, nodes=2), racks=RACKS, shuffle=False)
    ledger.begin(1, "train")
    grants = ledger.lease(1, "n3", 4, 0)
    assert [grant.split.id for grant in grants] == [1, 3, 0, 2]
    # What comes back is found by its rack, too, and a node of no known rack takes what comes.
    ledger.revoke(1)
    again = Ledger(splits(4, nodes=2), racks=RACKS, shuffle=False)
    again.restore(json.loads(json.dumps(ledger.snapshot())))
    for one_of_both in (ledger, again):
        assert one(one_of_both, worker=2, node="n3").split.id % 2 == 1
        assert one(one_of_both, worker=3, node="elsewhere").split.id in range(4)


def test_the_order_is_shuffled_by_seed_and_epoch_and_the_test_is_in_order() -> None:
    def order(seed: int, epoch: int, phase: str = "train", shuffle: bool = True) -> list[int]:
        ledger = Ledger(splits(50), splits(50), epochs=2, seed=seed, shuffle=shuffle)
        ledger.begin(epoch, phase)
        return [grant.split.id for grant in ledger.lease(1, "x", 50, 0)]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2)
    assert order(1, 1) != order(2, 1)
    assert sorted(order(1, 1)) == order(1, 1, "test") == order(1, 1, shuffle=False)


def test_what_the_worker_does_not_hold_after_a_restart_is_free_again() -> None:
    ledger = begun(2)
    held, never_arrived = ledger.lease(1, "n0", 2, 0)
    revoked = ledger.revoke(1, keep=[held.token])
    assert revoked == [Revoked(1, "train", never_arrived.split.id, never_arrived.token)]
    assert [lease[2] for lease in ledger.snapshot()["leases"]] == [held.token]
    assert one(ledger, worker=2).split == never_arrived.split


def test_a_freed_split_goes_first() -> None:
    ledger = Ledger(splits(10))
    ledger.begin(1, "train")
    grant = one(ledger)
    ledger.lost(1)
    assert one(ledger, worker=2).split == grant.split


def test_who_says_nothing_of_its_leases_is_overdue() -> None:
    ledger = begun(3)
    a, _ = one(ledger, worker=1, now=0), one(ledger, worker=2, now=5)
    ledger.lease(3, "n0", 0, 0)
    ledger.progress(1, said(a, 1, 10), 50)
    assert ledger.overdue(64, 60) == []
    assert ledger.overdue(65, 60) == [(2, 5)]
    assert ledger.overdue(200, 60) == [(2, 5), (1, 50)]


def test_a_hundred_thousand_splits_and_a_thousand_workers() -> None:
    parts = splits(100_000, length=10, nodes=50)
    ledger = Ledger(parts)
    ledger.begin(1, "train")
    asked = local = now = 0
    while not ledger.phase_done:
        worker, now, asked = asked % 1000, now + 1, asked + 1
        for grant in ledger.lease(worker, f"n{worker % 50}", 2, now / 1000):
            local += grant.split.id % 50 == worker % 50
            ledger.progress(worker, said(grant, 1, 7, done=True), now / 1000)
    assert asked == 50_000, "a free split was kept back"
    assert (ledger.rows, local) == (700_000, 100_000)
    assert len(json.dumps(ledger.snapshot())) < 3_000_000


# ---------------------------------------------------------------- failures


def test_three_failures_on_different_nodes_make_a_dead_letter() -> None:
    ledger = Ledger(splits(1), epochs=2)
    ledger.begin(1, "train")
    workers = {1: "n1", 2: "n2", 3: "n3"}
    for worker, node in workers.items():
        ledger.lease(worker, node, 0, 0)
    for worker, again in ((1, True), (2, True), (3, False)):
        for earlier in range(1, worker):
            assert ledger.lease(earlier, workers[earlier], 1, 1) == [], "it failed on that node"
        grant = one(ledger, worker, workers[worker], 1)
        answer = ledger.failed(worker, failure(grant, "no block"), workers[worker], 1)
        assert answer == (True, again, not again, "no block")
    (letter,) = ledger.skipped
    assert (letter.split, letter.error, letter.nodes) == (0, "no block", ("n1", "n2", "n3"))
    assert ledger.phase_done and ledger.fraction == 0.5
    ledger.begin(2, "train")
    assert ledger.phase_done, "it stays given up"


def test_a_split_is_kept_from_its_node_only_while_another_may_come_for_it() -> None:
    ledger = Ledger(splits(1))
    ledger.begin(1, "train")
    ledger.lease(2, "n2", 0, 0)
    ledger.failed(1, failure(one(ledger, 1, "n1")), "n1", 10)
    assert ledger.lease(1, "n1", 1, 10 + AVOID_NODE_S - 1) == []
    assert len(ledger.lease(1, "n1", 1, 10 + AVOID_NODE_S)) == 1


def test_on_the_only_node_it_is_tried_again_at_once() -> None:
    ledger = Ledger(splits(1))
    ledger.begin(1, "train")
    ledger.lease(2, "n1", 0, 0)
    ledger.failed(1, failure(one(ledger, 1, "n1")), "n1", 0)
    assert len(ledger.lease(1, "n1", 1, 0)) == 1


def test_many_failed_splits_do_not_make_a_lease_slow_or_stop_it() -> None:
    ledger = Ledger(splits(200))
    ledger.begin(1, "train")
    ledger.lease(2, "n2", 0, 0)
    for grant in ledger.lease(1, "n1", 200, 0):
        ledger.failed(1, failure(grant), "n1", 0)
    assert len(ledger.lease(1, "n1", 1, 1)) == 1


def test_a_changed_file_is_given_up_at_once() -> None:
    ledger = begun(1)
    answer = ledger.failed(1, failure(one(ledger), "it changed", changed=True), "n0", 0)
    assert answer == (True, False, True, "it changed")


def test_failures_of_an_epoch_do_not_count_in_the_next() -> None:
    ledger = Ledger(splits(1), epochs=5)
    for epoch in range(1, 6):
        ledger.begin(epoch, "train")
        ledger.failed(1, failure(one(ledger)), "n0", 0)
        ledger.progress(1, said(one(ledger), 1, 10, done=True), 0)
    assert ledger.skipped == []


# ---------------------------------------------------------------- snapshots and cuts


def test_a_restored_ledger_decides_the_same() -> None:
    ledger = begun(20, test=2, seed=3)
    for worker in range(4):
        ledger.lease(worker, f"n{worker % 2}", 2, 0)
    ledger.lost(2)
    (grant,) = ledger.lease(1, "n1", 1, 1)
    ledger.failed(1, failure(grant), "n1", 1)
    other = Ledger(splits(20, nodes=2), splits(2), seed=3)
    other.restore(json.loads(json.dumps(ledger.snapshot())))
    assert other.snapshot() == ledger.snapshot()
    for now in range(2, 12):
        assert other.lease(5, "n0", 2, now) == ledger.lease(5, "n0", 2, now)


def test_going_back_to_a_cut_frees_what_came_after_it() -> None:
    ledger = Ledger(splits(3), shuffle=False)
    ledger.begin(1, "train")
    a, b = ledger.lease(1, "n0", 2, 0)
    ledger.progress(1, said(a, 1, 10, done=True), 0)
    ledger.progress(1, said(b, 2, 20, size=20), 0)
    cut = json.loads(json.dumps(ledger.snapshot()))
    ledger.progress(1, said(b, 4, 40, done=True), 0)
    c = one(ledger)
    revoked = ledger.restore_cut(cut)
    assert revoked == [Revoked(1, "train", 2, c.token)]
    assert (ledger.rows, ledger.splits_done, ledger.bytes) == (30, 1, 120)
    again = ledger.lease(1, "n0", 3, 0)
    assert [(g.split.id, g.from_batch, g.from_rows) for g in again] == [(1, 2, 20), (2, 0, 0)]
    assert min(g.token for g in again) > c.token


def test_going_back_over_an_epochs_end() -> None:
    ledger = Ledger(splits(2), epochs=2)
    ledger.begin(1, "train")
    ledger.progress(1, said(one(ledger), 1, 10, done=True), 0)
    cut = ledger.snapshot()
    finish_phase(ledger)
    ledger.begin(2, "train")
    finish_phase(ledger)
    ledger.restore_cut(cut)
    assert (ledger.epoch, ledger.rows, ledger.snapshot()["rows_of_epoch"]) == (1, 10, [10])
    finish_phase(ledger)
    ledger.begin(2, "train")
    finish_phase(ledger)
    assert ledger.rows == 40


def test_a_new_attempt_uses_tokens_that_the_old_one_cannot_have_given_out() -> None:
    old = begun(2)
    cut = old.snapshot()
    last = 0
    for _ in range(500):
        last = one(old).token
        old.lost(1)
    new = Ledger(splits(2, nodes=2), attempt=2)
    new.restore_cut(json.loads(json.dumps(cut)))
    assert one(new).token > last
    assert one(new).token < 1 << 32


def test_a_job_without_a_cut_goes_back_to_the_start() -> None:
    ledger = Ledger(splits(2))
    start = ledger.snapshot()
    ledger.begin(1, "train")
    held = one(ledger)
    assert [r.token for r in ledger.restore_cut(start)] == [held.token]
    assert (ledger.epoch, ledger.phase_done) == (0, False)
    ledger.begin(1, "train")
    assert len(ledger.lease(1, "n0", 5, 0)) == 2


def test_a_snapshot_of_another_input_is_refused() -> None:
    changed = [MadeSplit(0, modified_ms=5), *splits(2)[1:]]
    with pytest.raises(DataError, match="the train input is not the one"):
        Ledger(changed).restore(Ledger(splits(2)).snapshot())


def test_done_splits_of_a_snapshot() -> None:
    train = splits(3)
    ledger = Ledger(train, splits(1), epochs=2, shuffle=False)
    assert done_splits(ledger.snapshot(), train) == []
    ledger.begin(1, "train")
    ledger.progress(1, said(one(ledger), 1, 10, done=True), 0)
    assert done_splits(ledger.snapshot(), train) == [DoneSplits(1, (0,))]
    finish_phase(ledger)
    ledger.begin(1, "test")
    assert done_splits(ledger.snapshot(), train) == [DoneSplits(1, ())]
    ledger.begin(2, "train")
    assert done_splits(ledger.snapshot(), train) == [DoneSplits(1, ())]


def test_messages_for_the_worker() -> None:
    message = one(begun(1)).to_pb()
    assert (message.epoch, message.phase, message.split.length) == (1, "train", 100)
