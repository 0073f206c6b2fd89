"""What a `Ledger` counts: rows, rates, sums and bad records."""

from __future__ import annotations

import json

import pytest
from made_ledgers import begun, finish_phase, one
from made_splits import MadeSplit, failure, said, splits

from yarnps.am.training.ledger import Ledger
from yarnps.am.training.ledger_records import Revoked

# ---------------------------------------------------------------- numbers


def test_rows_total_is_estimated_and_then_exact() -> None:
    ledger = Ledger(splits(4), epochs=3)
    assert ledger.rows_total is None
    ledger.begin(1, "train")
    grant = one(ledger)
    ledger.progress(1, said(grant, 1, 6, size=50), 1)
    assert ledger.rows_total == 3 * 4 * 12
    ledger.progress(1, said(grant, 2, 10, done=True), 2)
    assert ledger.rows_total == 3 * 4 * 10
    finish_phase(ledger, rows=7)
    assert ledger.rows_total == 3 * 31
    ledger.begin(2, "train")
    assert ledger.rows == 31
    assert ledger.summary(0).rows_total == 93
    assert ledger.fraction == pytest.approx(1 / 3)


def test_rows_of_a_split_that_is_given_up_count_as_far_as_they_went() -> None:
    ledger = Ledger(splits(2), epochs=2, max_failures=1, shuffle=False)
    ledger.begin(1, "train")
    grant = one(ledger)
    ledger.progress(1, said(grant, 1, 3, size=10), 1)
    ledger.failed(1, failure(grant), "n0", 1)
    finish_phase(ledger, rows=10)
    assert (ledger.rows, ledger.rows_total) == (13, 23)
    ledger.begin(2, "train")
    finish_phase(ledger, rows=10)
    assert (ledger.rows, ledger.rows_total, ledger.fraction) == (23, 23, 1.0)


def test_the_size_of_parquet_splits_is_their_share_of_the_file() -> None:
    parts = [
        MadeSplit(0, "a", 0, 3, 4000),
        MadeSplit(1, "a", 3, 1, 4000),
        MadeSplit(2, "b", 0, 1, 96),
    ]
    ledger = Ledger(parts, shuffle=False)
    ledger.begin(1, "train")
    ledger.progress(1, said(one(ledger), 1, 10, done=True, size=1234), 0)
    assert (ledger.bytes, ledger.bytes_total) == (3000, 4096)


def test_the_rate_is_an_average_over_half_a_minute() -> None:
    ledger = begun(1)
    grant = one(ledger, now=100)
    assert ledger.rate(100) == 0
    for second in range(1, 61):
        ledger.progress(1, said(grant, second, 50 * second), 100 + second)
        if second >= 2:
            assert ledger.rate(100 + second) == pytest.approx(50, rel=0.02)
    assert ledger.rate(175) == pytest.approx(25, rel=0.05)
    assert ledger.rate(200) == 0


def test_the_rate_does_not_jump_when_news_come_late_or_the_job_goes_back() -> None:
    ledger = begun(1)
    start = ledger.snapshot()
    grant = one(ledger, now=0)
    for second in range(1, 31):
        ledger.progress(1, said(grant, second, 50 * second), second)
    # The ApplicationMaster is away for 60 s, the worker is not.
    ledger.restore(json.loads(json.dumps(ledger.snapshot())))
    ledger.progress(1, said(grant, 90, 50 * 90), 90)
    assert ledger.rate(90) == pytest.approx(50, rel=0.02)
    ledger.restore_cut(start)
    assert ledger.rows == 0
    assert ledger.rate(90) == pytest.approx(50, rel=0.02)
    grant = one(ledger, now=90)
    ledger.progress(1, said(grant, 1, 50), 91)
    assert ledger.rate(91) == pytest.approx(50, rel=0.03)


def test_seconds_left_is_over_all_epochs_and_phases() -> None:
    ledger = Ledger(splits(4), splits(1), epochs=2)
    assert ledger.seconds_left(0) is None
    ledger.begin(1, "train")
    for i in range(4):
        grant = one(ledger, now=10 * i)
        ledger.progress(1, said(grant, 1, 100, done=True), 10 * i + 10)
    # 10 rows a second; 400 more to train on, 2 x 100 to test on (by their bytes).
    assert ledger.seconds_left(40) == pytest.approx(60, rel=0.02)
    assert ledger.summary(40).rows_total == 800


def test_splits_count_over_all_phases_and_go_back_with_the_ledger() -> None:
    ledger = begun(3, test=2, epochs=2)
    finish_phase(ledger)
    assert ledger.summary(0).splits_all == 3
    cut = ledger.snapshot()
    ledger.begin(1, "test")
    finish_phase(ledger)
    ledger.begin(2, "train")
    ledger.progress(1, said(one(ledger), 1, 10, done=True), 0)
    summary = ledger.summary(0)
    assert (summary.splits_done, summary.splits_all) == (1, 6)
    ledger.restore_cut(cut)
    assert ledger.summary(0).splits_all == 3


# ---------------------------------------------------------------- the test phase


def test_sums_are_the_same_in_any_order_of_arrival() -> None:
    def total(order: list[int]) -> dict[str, list[float]]:
        ledger = begun(1, test=4, phase="test")
        grants = ledger.lease(1, "n0", 4, 0)
        for i in order:
            sums = {"loss": [10.0 ** (3 * i) + 0.1, 1.0], "hist": [i, 0.0, 1.0]}
            ledger.progress(1, said(grants[i], 1, 10, done=True, sums=sums), 0)
            ledger.restore(json.loads(json.dumps(ledger.snapshot())))
        return {name: values.tolist() for name, values in ledger.sums.items()}

    expected = (1 + 0.1) + (1e3 + 0.1) + (1e6 + 0.1) + (1e9 + 0.1)
    assert total([0, 1, 2, 3]) == {"hist": [6.0, 0.0, 4.0], "loss": [expected, 4.0]}
    assert total([3, 1, 0, 2]) == total([0, 1, 2, 3])


def test_whole_numbers_and_others_under_one_name_are_added() -> None:
    ledger = begun(1, test=2, phase="test")
    for values in ([2.0, 1.0], [0.5, 1.0]):
        ledger.progress(1, said(one(ledger), 1, 1, done=True, sums={"loss": values}), 0)
    assert ledger.sums["loss"].tolist() == [2.5, 2.0]


def test_a_test_phase_that_is_begun_again_starts_from_nothing() -> None:
    ledger = begun(1, test=2, phase="test")
    ledger.progress(1, said(one(ledger), 1, 1, done=True, sums={"loss": [2.5, 1.0]}), 0)
    held = one(ledger)
    assert ledger.begin(1, "test") == [Revoked(1, "test", held.split.id, held.token)]
    assert ledger.sums == {}
    assert ledger.splits_done == 0


def test_a_lost_test_split_is_done_from_its_beginning() -> None:
    ledger = begun(1, test=1, phase="test")
    before = ledger.bytes
    ledger.progress(1, said(one(ledger), 3, 30, size=40), 0)
    ledger.lost(1)
    assert ledger.bytes == before
    assert one(ledger, worker=2).from_batch == 0


def test_test_rows_are_not_training_rows() -> None:
    ledger = begun(1, test=1)
    finish_phase(ledger, rows=10)
    ledger.begin(1, "test")
    finish_phase(ledger, rows=5)
    assert (ledger.rows, ledger.rows_total, ledger.fraction) == (10, 10, 1.0)


# ---------------------------------------------------------------- bad records


def test_bad_records_are_counted_once_whatever_the_epochs() -> None:
    ledger = Ledger(splits(2), epochs=2, shuffle=False)
    for epoch in (1, 2):
        ledger.begin(epoch, "train")
        grant = one(ledger)
        ledger.progress(1, said(grant, 1, 10, bad=2), 0)
        ledger.progress(1, said(grant, 2, 20, bad=4, done=True), 0)
        ledger.progress(1, said(one(ledger), 1, 10, bad=3, done=True), 0)
    assert ledger.bad_records == 7
    assert [sample.line for sample in ledger.bad_samples] == [1, 2, 3, 4]
    assert ledger.over_limit(6) and not ledger.over_limit(7)


def test_no_bad_record_is_allowed_by_default() -> None:
    ledger = begun(1)
    assert not ledger.over_limit(0)
    ledger.progress(1, said(one(ledger), 1, 10, bad=1), 0)
    assert ledger.over_limit(0)


def test_a_ratio_is_judged_when_enough_is_seen_or_at_the_end() -> None:
    ledger = begun(2)
    grant = one(ledger)
    ledger.progress(1, said(grant, 1, 100, bad=3), 0)
    assert not ledger.over_limit(0.01), "too early to tell"
    ledger.progress(1, said(grant, 2, 2000, bad=30), 0)
    assert ledger.over_limit(0.01) and not ledger.over_limit(0.02)
    few = begun(1)
    few.progress(1, said(one(few), 1, 100, bad=3, done=True), 0)
    assert few.over_limit(0.01) and not few.over_limit(0.03)
