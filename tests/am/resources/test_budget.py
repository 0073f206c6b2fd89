"""What deaths cost, how long the wait is, and which nodes are avoided."""

from __future__ import annotations

import json

import pytest

from yarnps.am.resources.budget import FREE, Budget, NodeChoice
from yarnps.causes import Cause


def test_the_budget_has_as_many_restarts_as_it_says() -> None:
    budget = Budget(max_restarts=3)
    exhausted = []
    for _ in range(4):
        assert budget.charge(Cause.EXIT, 1.0)
        exhausted.append(budget.exhausted)
    assert exhausted == [False, False, False, True]


def test_without_restarts_the_first_death_is_the_last() -> None:
    budget = Budget(max_restarts=0)
    assert not budget.exhausted
    budget.charge(Cause.SIGNAL, 1000.0)
    assert budget.exhausted


def test_minus_one_is_no_limit() -> None:
    budget = Budget(max_restarts=-1)
    for _ in range(2000):
        budget.charge(Cause.EXIT, 0.0)
    assert not budget.exhausted
    assert budget.delay_s == 30.0


@pytest.mark.parametrize("cause", sorted(FREE))
def test_what_is_not_the_job_s_fault_is_free(cause: Cause) -> None:
    budget = Budget(max_restarts=0)
    assert not budget.charge(cause, 0.0)
    assert not budget.exhausted
    assert budget.delay_s == 0.0


CHARGED = ("exit", "signal", "memory", "silent", "script", "launch", "localisation", "unknown")


@pytest.mark.parametrize("cause", CHARGED)
def test_what_may_be_the_job_s_fault_costs(cause: str) -> None:
    assert Budget(max_restarts=1).charge(Cause(cause), 0.0)


def test_the_delay_doubles_up_to_30_s_and_starts_again_after_a_stable_time() -> None:
    budget = Budget(max_restarts=-1)
    delays = []
    for _ in range(7):
        budget.charge(Cause.EXIT, 2.0)
        delays.append(budget.delay_s)
    assert delays == [1, 2, 4, 8, 16, 30, 30]
    budget.charge(Cause.EXIT, 301.0)
    assert budget.delay_s == 1


def test_the_final_cause_is_the_one_of_all_deaths_or_the_budget() -> None:
    budget = Budget(max_restarts=1)
    budget.charge(Cause.SCRIPT, 1.0)
    assert budget.final_cause(Cause.SCRIPT) is Cause.SCRIPT
    budget.charge(Cause.MEMORY, 1.0)
    assert budget.final_cause(Cause.MEMORY) is Cause.BUDGET


def test_a_node_is_avoided_after_two_deaths_of_a_rank() -> None:
    nodes = NodeChoice(node_count=6)
    assert not nodes.died("worker 0", "a")
    assert not nodes.died("worker 1", "a")
    assert not nodes.give_back("worker 0", "a")
    assert nodes.died("worker 0", "a")
    assert [nodes.give_back("worker 0", "a") for _ in range(4)] == [True, True, True, False]
    assert not nodes.give_back("worker 1", "a")
    assert not nodes.give_back("worker 0", "b")


@pytest.mark.parametrize(("count", "avoided"), [(2, 0), (3, 1), (5, 1), (6, 2), (9, 3)])
def test_never_more_than_a_third_of_the_nodes(count: int, avoided: int) -> None:
    nodes = NodeChoice(node_count=count)
    for node in range(count):
        for _ in range(5):
            nodes.died(f"worker {node}", f"n{node}")
    assert sum(len(mine) for mine in nodes.avoided.values()) == avoided


def test_two_ranks_avoiding_one_node_count_it_once() -> None:
    nodes = NodeChoice(node_count=3)
    assert nodes.died("worker 0", "a", at_once=True)
    assert nodes.died("worker 1", "a", at_once=True)
    assert not nodes.died("worker 1", "b", at_once=True)


def test_the_choice_survives_json() -> None:
    nodes = NodeChoice(node_count=6)
    nodes.died("worker 0", "a", at_once=True)
    nodes.give_back("worker 0", "a")
    again = NodeChoice.from_dict(json.loads(json.dumps(nodes.to_dict())))
    assert again == nodes
