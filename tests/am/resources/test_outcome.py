"""The stated rule of how a job ends, as a table."""

from __future__ import annotations

import functools

import pytest

from yarnps.am.resources.outcome import Facts, Failure, Killed, RoleRule, decide, diagnostics
from yarnps.causes import Cause
from yarnps.status import Outcome

STRICT = {"server": RoleRule(2), "worker": RoleRule(3)}
LENIENT = {"server": RoleRule(2), "worker": RoleRule(3, allow_failures=True)}
KILL = Killed("killed by ada: wrong data")


def worker(rank: int, cause: Cause = Cause.SIGNAL, traceback: str = "") -> Failure:
    return Failure(cause, f"worker {rank}: bad", "worker", rank, traceback)


SERVER = Failure(Cause.MEMORY, "server 1: full", "server", 1)
MODEL = Failure(Cause.MODEL, "the model could not be written")
done = functools.partial(Facts, plan_ended=True, model_in_place=True)


@pytest.mark.parametrize(
    ("facts", "state", "code", "says"),
    [
        (Facts(STRICT), None, "", ""),
        (Facts(STRICT, plan_ended=True), None, "", ""),
        (Facts(STRICT, model_in_place=True), None, "", ""),
        (done(STRICT), "SUCCEEDED", "", ""),
        (done(STRICT, failures=[worker(0)]), "SUCCEEDED", "", ""),
        (done(STRICT, killed=KILL), "SUCCEEDED", "", ""),
        (Facts(STRICT, killed=KILL), "KILLED", "killed_by_user", "by ada"),
        (Facts(STRICT, killed=KILL, failures=[worker(0)]), "KILLED", "killed_by_user", "by ada"),
        (Facts(STRICT, failures=[worker(0)]), "FAILED", "signal", "worker 0: bad"),
        (Facts(STRICT, failures=[worker(2), worker(0)]), "FAILED", "signal", "worker 2: bad"),
        (Facts(STRICT, failures=[SERVER]), "FAILED", "memory", "server 1: full"),
        (Facts(LENIENT, failures=[worker(0)]), None, "", ""),
        (Facts(LENIENT, failures=[worker(0), worker(1), worker(1)]), None, "", ""),
        (Facts(LENIENT, failures=[worker(0), SERVER]), "FAILED", "memory", "server 1: full"),
        (Facts(LENIENT, failures=[worker(0), MODEL]), "FAILED", "model", "could not be written"),
        (
            Facts(LENIENT, failures=[worker(1), worker(0), worker(2)]),
            "FAILED",
            "signal",
            "no worker is left, all 3 gave up. worker 1: bad",
        ),
        (Facts(LENIENT, plan_ended=True, failures=[worker(0)]), None, "", ""),
        (
            Facts(STRICT, failures=[Failure(Cause.EXIT, "notebook: bad", "notebook", 0)]),
            "FAILED",
            "exit",
            "notebook: bad",
        ),
    ],
)
def test_the_rule(facts: Facts, state: str | None, code: str, says: str) -> None:
    outcome = decide(facts)
    if state is None:
        assert outcome is None
        return
    assert outcome is not None
    assert (outcome.state, outcome.cause_code) == (state, code)
    assert says in outcome.cause


def test_skips_are_part_of_a_success() -> None:
    outcome = decide(done(STRICT, skipped_splits=2))
    assert outcome == Outcome("SUCCEEDED", skipped_splits=2)
    assert outcome is not None
    assert diagnostics(outcome) == "succeeded; 2 splits were skipped"


@pytest.mark.parametrize(
    ("cause", "helps"),
    [(Cause.NODE_LOST, True), (Cause.SCRIPT, False), (Cause.BUDGET, None), (Cause.DATA, False)],
)
def test_whether_a_retry_helps(cause: Cause, helps: bool | None) -> None:
    outcome = decide(Facts(STRICT, failures=[worker(0, cause)]))
    assert outcome is not None
    assert outcome.retry_helps is helps


def test_the_traceback_s_end_is_in_outcome_and_diagnostics() -> None:
    traceback = "x" * 5000 + "\nZeroDivisionError: division by zero"
    outcome = decide(Facts(STRICT, failures=[worker(0, Cause.SCRIPT, traceback)]))
    assert outcome is not None
    assert len(outcome.traceback) == 2000
    assert outcome.traceback.endswith("division by zero")
    text = diagnostics(outcome)
    assert text.startswith("failed [script]: worker 0: bad\n")
    assert text.endswith("division by zero")


def test_of_all_workers_the_one_with_a_traceback_is_shown() -> None:
    failures = [worker(0), worker(1, Cause.SCRIPT, "Traceback"), worker(2)]
    outcome = decide(Facts(LENIENT, failures=failures))
    assert outcome is not None
    assert outcome.cause_code == "script"
    assert outcome.traceback == "Traceback"
