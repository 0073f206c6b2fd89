"""Services beside servers and workers: whose failures end the job."""

from __future__ import annotations

import json

import pytest

from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources.outcome import Failure
from yarnps.am.resources.services import OtherServices
from yarnps.causes import Cause

CODE_3 = "Container exited with a non-zero exit code 3."


def ended(number: int, message: str = CODE_3) -> ContainerInfo:
    return ContainerInfo(f"board_{number}", "board", "ended", "n1", exit_message=message)


def test_a_service_that_fails_too_often_ends_the_job() -> None:
    failures: list[Failure] = []
    services = OtherServices({"board": {"max_restarts": 1}}, failures)
    (log,) = services.seen(ended(0))
    assert log.text.endswith("it is started again")
    assert services.seen(ended(0)) == []  # the cluster lists it as long as the job runs
    assert failures == []
    # What came before a restart of the AM counts after it.
    later = OtherServices({"board": {"max_restarts": 1}}, failures)
    later.restore(json.loads(json.dumps(services.snapshot())))
    (log,) = later.seen(ended(1))
    assert (log.role, log.container) == ("board", "board_1")
    (failure,) = failures
    assert (failure.cause, failure.role) == (Cause.EXIT, "board")
    assert "board failed on n1" in failure.text
    assert "used up its 1 restarts" in failure.text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"allow_failures": True}, CODE_3),
        ({"max_restarts": -1}, CODE_3),
        ({}, "Completed successfully."),
        ({}, "Killed by user request."),
        ({}, ""),
    ],
)
def test_what_ends_no_job(keys: dict[str, object], message: str) -> None:
    failures: list[Failure] = []
    services = OtherServices({"board": keys}, failures)
    services.seen(ended(0, message))
    services.seen(ended(1, message))
    assert failures == []


def test_roles_and_containers_that_run_are_not_its_business() -> None:
    failures: list[Failure] = []
    services = OtherServices({"board": {}}, failures)
    assert services.seen(ContainerInfo("worker_0", "worker", "ended", exit_message=CODE_3)) == []
    assert services.seen(ContainerInfo("board_0", "board", "running")) == []
    assert failures == []
