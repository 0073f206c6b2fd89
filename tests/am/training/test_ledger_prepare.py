"""`Ledger` in the pass before the first epoch, and a split's place in the whole training."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from made_splits import failure, said, splits

from yarnps.am.training.ledger import Ledger
from yarnps.am.training.ledger_records import Grant


def prepared(count: int = 4, *, epochs: int = 2) -> Ledger:
    ledger = Ledger(splits(count), splits(2), epochs=epochs, prepare=True)
    ledger.begin(1, "prepare")
    return ledger


def take(ledger: Ledger, worker: int = 1) -> Grant:
    (grant,) = ledger.lease(worker, "n0", 1, 0.0)
    return grant


def finish_phase(ledger: Ledger, rows: int = 10, bad: int = 0) -> None:
    while not ledger.phase_done:
        ledger.progress(1, said(take(ledger), 1, rows, done=True, size=100, bad=bad), 0.0)


def test_its_rows_are_not_training_rows_and_count_for_the_estimate() -> None:
    ledger = prepared()
    finish_phase(ledger)
    assert (ledger.rows, ledger.rows_total) == (0, 2 * 4 * 10)
    ledger.begin(1, "train")
    assert (ledger.phase_done, ledger.rows) == (False, 0)
    finish_phase(ledger)
    assert ledger.rows == 40


def test_a_lost_split_is_gone_through_from_its_beginning() -> None:
    ledger = prepared()
    first = take(ledger)
    ledger.progress(1, said(first, 3, 30, size=40), 1)
    ledger.lost(1)
    again = take(ledger, worker=2)
    assert (again.phase, again.split.id) == ("prepare", first.split.id)
    assert (again.from_batch, again.from_rows) == (0, 0)


def test_the_pass_is_a_part_of_the_whole_work() -> None:
    ledger = prepared(epochs=2)  # 400 bytes of preparation, twice 400 of training and 200 of test
    assert ledger.bytes_total == 400 + 2 * 600
    ledger.progress(1, said(take(ledger), 1, 10, done=True, size=100), 0.0)
    assert ledger.bytes == 100
    finish_phase(ledger)
    ledger.begin(1, "train")
    assert ledger.bytes == 400
    finish_phase(ledger)
    ledger.begin(1, "test")
    assert ledger.bytes == 800


def test_bad_records_and_splits_that_are_given_up_are_those_of_the_training_input() -> None:
    ledger = prepared(2)
    ledger.progress(1, said(take(ledger), 1, 10, done=True, bad=2), 0.0)
    for _ in range(3):
        ledger.failed(1, failure(take(ledger)), "n0", 0.0)
    assert ledger.phase_done
    ledger.begin(1, "train")
    ledger.progress(1, said(take(ledger), 1, 10, done=True, bad=2), 0.0)
    assert ledger.phase_done  # the other split is not tried again
    assert (ledger.bad_records, len(ledger.bad_samples), len(ledger.skipped)) == (2, 2, 1)


@pytest.mark.parametrize("phase", ["prepare", "train"])
def test_a_restored_ledger_decides_the_same(phase: str) -> None:
    ledger = prepared()
    if phase == "train":
        finish_phase(ledger)
        ledger.begin(1, "train")
    take(ledger)
    other = Ledger(splits(4), splits(2), epochs=2, prepare=True)
    other.restore(json.loads(json.dumps(ledger.snapshot())))
    assert other.snapshot() == ledger.snapshot()
    assert take(other) == take(ledger)


def test_spans_cover_the_training_in_the_order_of_its_epochs() -> None:
    """Each begins where the one before ends: whatever depends on them goes down steadily."""
    ledger = Ledger(splits(5), (), epochs=3, seed=4)
    spans = []
    for epoch in (1, 2, 3):
        ledger.begin(epoch, "train")
        grants = ledger.lease(1, "n0", 5, 0.0)
        spans += [grant.span for grant in grants]
        for grant in grants:
            ledger.progress(1, said(grant, 1, 1, done=True), 0.0)
    assert spans[0][0] == 0.0
    assert spans[-1][1] == 1.0
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(spans))


def test_a_span_does_not_depend_on_who_takes_the_split_and_when() -> None:
    ledger = Ledger(splits(5, nodes=2), (), epochs=2)
    ledger.begin(1, "train")
    there = {g.split.id: g.span for g in ledger.lease(1, "n1", 5, 0.0)}
    ledger.lost(1)
    assert {g.split.id: g.span for g in ledger.lease(2, "n0", 5, 9.0)} == there
