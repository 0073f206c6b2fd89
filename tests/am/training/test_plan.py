"""`Plan`: the course of a job, from any point."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from yarnps.am.training.plan import (
    Close,
    Cut,
    End,
    EpochResult,
    Export,
    Facts,
    History,
    Plan,
    PlanSettings,
    Prepare,
    Publish,
    Step,
    Test,
    Train,
)
from yarnps.spec import Stop

LIMIT = 100


def done(facts: Facts, step: Step, values: Sequence[float], metric: str) -> Facts:
    """The facts when a step is through."""
    if isinstance(step, Prepare):
        return replace(facts, epoch=1, phase="prepare", phase_done=True, prepared=True)
    if isinstance(step, Train):
        return replace(facts, epoch=step.epoch, phase="train", phase_done=True)
    if isinstance(step, Close):
        return replace(facts, phase_done=True)
    if isinstance(step, Cut):
        return replace(facts, cut_epoch=step.epoch)
    if isinstance(step, Test):
        result = EpochResult(step.epoch, {metric: values[step.epoch - 1]})
        return replace(facts, phase="test", phase_done=True, results=(*facts.results, result))
    if isinstance(step, Export) and step.kind == "best":
        return replace(facts, best_saved=step.epoch)
    return replace(facts, model_written=True)


def course(
    settings: PlanSettings, values: Sequence[float] = (), facts: Facts | None = None
) -> list[Step]:
    """All steps to the end, from `facts` on."""
    plan, facts = Plan(settings), facts or Facts()
    steps: list[Step] = []
    while not steps or not isinstance(steps[-1], End):
        step = plan.next(facts)
        assert plan.next(facts) == step
        assert len(steps) < LIMIT, "the plan goes in circles"
        steps.append(step)
        facts = done(facts, step, values, settings.metric or "test_auc")
    return steps


def test_without_test_input() -> None:
    assert course(PlanSettings(epochs=2)) == [
        Train(1),
        Cut(1),
        Train(2),
        Cut(2),
        Export("final", 2),
        End("all 2 epochs are done", 2),
    ]


def test_a_pass_before_the_first_epoch() -> None:
    assert course(PlanSettings(epochs=1, prepare=True))[:3] == [Prepare(), Train(1), Cut(1)]
    under_way = Facts(epoch=1, phase="prepare", elapsed=99)
    assert Plan(PlanSettings(epochs=1, prepare=True, max_time=9)).next(under_way) == Prepare()


def test_the_pass_is_not_made_again_when_the_job_goes_back_or_resumes() -> None:
    history = History(prepared=True)
    history.back_to(0, False)
    again = History()
    again.restore(json.loads(json.dumps(history.snapshot())))
    plan = Plan(PlanSettings(epochs=1, prepare=True))
    assert plan.next(Facts(prepared=again.prepared)) == Train(1)
    assert plan.next(Facts()) == Prepare()


def test_with_test_input_and_no_metric_the_last_model_is_written() -> None:
    steps = course(PlanSettings(epochs=2, has_test=True), [0.7, 0.6])
    assert steps == [
        Train(1),
        Cut(1),
        Test(1),
        Train(2),
        Cut(2),
        Test(2),
        Export("final", 2),
        End("all 2 epochs are done", 2),
    ]


def test_the_best_model_is_kept_and_patience_ends_the_job() -> None:
    settings = PlanSettings(epochs=9, has_test=True, metric="test_logloss", patience=2)
    steps = course(settings, [0.5, 0.4, 0.45, 0.4])
    assert [s for s in steps if not isinstance(s, Train | Cut | Test)] == [
        Export("best", 1),
        Export("best", 2),
        Publish(2),
        End("test_logloss has not improved since epoch 2 (patience 2)", 2),
    ]
    assert Train(5) not in steps and Train(4) in steps


@pytest.mark.parametrize(
    ("metric", "mode", "values", "best"),
    [
        ("test_logloss", None, [0.5, 0.4, 0.6], 2),
        ("test_auc", None, [0.5, 0.4, 0.6], 3),
        ("test_rmse", None, [2.0, 3.0, 1.0], 3),
        ("error_rate", None, [0.2, 0.3, 0.3], 1),
        ("test_auc", "min", [0.5, 0.4, 0.6], 2),
        ("test_loss", "max", [0.5, 0.4, 0.6], 3),
        ("test_auc", None, [0.5, float("nan"), 0.4], 1),
    ],
)
def test_which_epoch_is_the_best(
    metric: str, mode: Literal["min", "max"] | None, values: list[float], best: int
) -> None:
    lower = Stop(metric=metric, mode=mode).lower_is_better
    settings = PlanSettings(3, has_test=True, metric=metric, lower_is_better=lower, patience=5)
    steps = course(settings, values)
    assert steps[-2] == Publish(best)
    assert steps[-1] == End("all 3 epochs are done", best)


def test_a_metric_that_is_never_measured_does_not_cost_the_model() -> None:
    plan = Plan(PlanSettings(epochs=1, metric="accuracy"))
    facts = Facts(epoch=1, phase="train", phase_done=True, cut_epoch=1)
    assert plan.next(facts) == Export("final", 1)
    assert plan.next(replace(facts, model_written=True)) == End(
        "all 1 epochs are done", 1, "accuracy was never measured: the last model was written"
    )


def test_time_that_is_over_stops_the_epoch_and_the_model_is_tested() -> None:
    settings = PlanSettings(
        epochs=9, has_test=True, metric="test_auc", max_time=60, lower_is_better=False
    )
    facts = Facts(
        epoch=2,
        phase="train",
        elapsed=60,
        cut_epoch=1,
        results=(EpochResult(1, {"test_auc": 0.7}),),
        best_saved=1,
    )
    assert Plan(settings).next(replace(facts, elapsed=59.9)) == Train(2)
    assert course(settings, [0.7, 0.6], facts) == [
        Close(2, "the time limit of 60 s is over"),
        Cut(2),
        Test(2),
        Publish(1),
        End("the time limit of 60 s is over", 1),
    ]
    assert course(settings, [0.7, 0.8], facts)[-3:-1] == [Export("best", 2), Publish(2)]


def test_time_that_is_over_between_epochs_begins_no_other() -> None:
    facts = Facts(epoch=1, phase="train", phase_done=True, cut_epoch=1, elapsed=70)
    steps = course(PlanSettings(epochs=9, max_time=60), [], facts)
    assert steps == [Export("final", 1), End("the time limit of 60 s is over", 1)]


def test_a_new_attempt_takes_up_the_course_where_it_was() -> None:
    settings = PlanSettings(
        epochs=4, has_test=True, metric="test_auc", patience=3, lower_is_better=False
    )
    values = [0.6, 0.7, 0.65, 0.66]
    whole = course(settings, values)
    facts = Facts()
    for i, step in enumerate(whole[:-1]):
        assert course(settings, values, facts) == whole[i:]
        facts = done(facts, step, values, "test_auc")


def test_history_forgets_what_a_rollback_undid() -> None:
    history = History()
    for epoch, value in ((1, 0.7), (2, 0.8)):
        history.add(epoch, {"test_auc": value})
    history.best_saved, history.cut_epoch = 2, 2
    again = History()
    again.restore(json.loads(json.dumps(history.snapshot())))
    assert again == history
    history.back_to(2, train_done=True)
    assert history == again
    history.back_to(2, train_done=False)
    assert history == History([EpochResult(1, {"test_auc": 0.7})], 0, 1)
    history.back_to(0, train_done=False)
    assert history == History([], 0, 0)


def test_metrics_that_are_measured_again_replace_the_old_ones() -> None:
    history = History()
    history.add(1, {"a": 1.0})
    history.add(2, {"a": 2.0})
    history.add(1, {"a": 3.0})
    assert history.results == [EpochResult(1, {"a": 3.0})]
