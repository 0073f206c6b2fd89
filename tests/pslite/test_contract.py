"""The environment of ps-lite programs."""

from __future__ import annotations

from yarnps.pslite.contract import Contract, cleared
from yarnps.pslite.wire import Address, Seat

PLACE = Contract(
    Seat("worker", 2),
    workers=3,
    servers=1,
    scheduler=Address("10.0.0.1", 7011),
    host="10.0.0.5",
    attempt=1,
    cluster="yarn",
    vcores=4,
)


def test_all_of_the_contract() -> None:
    assert PLACE.environment() == {
        "DMLC_ROLE": "worker",
        "DMLC_NUM_WORKER": "3",
        "DMLC_NUM_SERVER": "1",
        "DMLC_PS_ROOT_URI": "10.0.0.1",
        "DMLC_PS_ROOT_PORT": "7011",
        "DMLC_NODE_HOST": "10.0.0.5",
        "DMLC_TASK_ID": "2",
        "DMLC_WORKER_ID": "2",
        "DMLC_NUM_ATTEMPT": "1",
        "DMLC_JOB_CLUSTER": "yarn",
        "OMP_NUM_THREADS": "4",
    }


def test_the_users_variables_win_where_they_are_the_users() -> None:
    given = {"OMP_NUM_THREADS": "1", "DMLC_ROLE": "server", "PS_VERBOSE": "1"}
    env = PLACE.environment(given)
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["DMLC_ROLE"] == "worker"
    assert env["PS_VERBOSE"] == "1"


def test_an_interface_takes_the_place_of_the_address() -> None:
    env = PLACE.environment({"DMLC_INTERFACE": "eth1"})
    assert env["DMLC_INTERFACE"] == "eth1"
    assert "DMLC_NODE_HOST" not in env


def test_what_must_not_leak_in() -> None:
    gone = ["PORT", "DMLC_RANK", "DMLC_ROLE", "PS_VERBOSE"]
    assert [name for name in [*gone, "PATH", "PORTAL", "PSYCHE"] if cleared(name)] == gone
