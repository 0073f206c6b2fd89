"""Job files whose programs are ps-lite's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from yarnps._errors import JobFileError
from yarnps.spec import AWAKE, Job, load, needs, render

SIZE = {"memory": "1 GiB", "vcores": 2}


def read(*lines: str, **roles: dict[str, object]) -> Job:
    """A job file of ps-lite programs, with more lines in its block."""
    worker = {"instances": 3, "resources": SIZE, "script": "python train.py"}
    services = {
        "server": {"instances": 2, "resources": SIZE, **roles.get("server", {})},
        "worker": {**worker, **roles.get("worker", {})},
    }
    document = yaml.safe_dump({"services": services})
    block = "\n".join(["yarnps:", "  runtime: dmlc", *(f"  {line}" for line in lines), ""])
    Path("job.yaml").write_text(document + block)
    return load("job.yaml", site=[])


def problems(*lines: str, **roles: dict[str, object]) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        read(*lines, **roles)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_no_input_is_needed_and_each_container_has_one_process() -> None:
    job = read()
    assert job.block is not None
    assert (job.block.runtime, job.block.dmlc.restart) == ("dmlc", "gang")
    assert job.roles["server"].processes == 1
    again = Job.from_json(job.to_json())
    assert again.block == job.block
    assert again.roles == job.roles
    assert needs(job).table_memory == 0


def test_servers_may_have_a_program_of_their_own() -> None:
    job = read(server={"script": "python serve.py"})
    assert job.roles["server"].script == "python serve.py"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("app", "ftrl"),
        ("params", "{a: 1}"),
        ("data", "{train: x}"),
        ("train", "{epochs: 2}"),
        ("server", "{shards: 64}"),
        ("checkpoint", "{keep: 1}"),
        ("model", "{path: m}"),
        ("stop", "{max_time: 5 min}"),
        ("sync.staleness", ""),
    ],
)
def test_what_only_our_own_runtime_has(key: str, value: str) -> None:
    line = f"{key}: {value}" if value else "sync: {staleness: 2}"
    (problem,) = problems(line)
    assert problem.startswith(f"yarnps.{key}: only with runtime: native")


def test_all_that_is_wrong_at_once() -> None:
    assert problems(
        "dmlc: {restart: worker}",
        server={"allow_failures": True},
        worker={"script": "", "env": {"DMLC_ROLE": "worker", "PS_VERBOSE": "1"}},
    ) == [
        "services.server.allow_failures: not with runtime: dmlc, where all processes wait for "
        "all others",
        "services.worker.env.DMLC_ROLE: yarnps sets this variable itself",
        "services.worker.script: missing: the program, which all roles run",
        "yarnps.dmlc.restart: worker is only for programs that train asynchronously: say so with "
        "sync.mode: asp",
    ]


def test_a_worker_alone_in_an_asynchronous_job() -> None:
    job = read("dmlc: {restart: worker}", "sync: {mode: asp}")
    assert job.block is not None
    assert job.block.dmlc.restart == "worker"


def test_what_only_ps_lite_has() -> None:
    Path("own.yaml").write_text(
        yaml.safe_dump(
            {
                "services": {
                    "server": {"resources": SIZE},
                    "worker": {"resources": SIZE, "script": "python train.py"},
                },
                "yarnps": {"data": {"train": "x"}, "dmlc": {"restart": "never"}},
            }
        )
    )
    with pytest.raises(JobFileError, match=r"yarnps\.dmlc: only with runtime: dmlc"):
        load("own.yaml", site=[])


# ---------------------------------------------------------------- xgboost


def read_xgboost(*lines: str, server: bool = False, **worker: object) -> Job:
    role = {"instances": 3, "resources": SIZE, "script": "python train.py", **worker}
    services = {"worker": role, **({"server": {"resources": SIZE}} if server else {})}
    document = yaml.safe_dump({"services": services})
    block = "\n".join(["yarnps:", "  runtime: xgboost", *(f"  {line}" for line in lines), ""])
    Path("job.yaml").write_text(document + block)
    return load("job.yaml", site=[])


def xgboost_problem(*lines: str, server: bool = False, **worker: object) -> str:
    with pytest.raises(JobFileError) as caught:
        read_xgboost(*lines, server=server, **worker)
    (problem,) = caught.value.problems
    return f"{problem.path}: {problem.message}"


def test_xgboost_has_workers_only_and_may_have_an_input() -> None:
    job = read_xgboost("data: {train: in/*, test: out/*, format: text}")
    assert set(job.roles) == {"worker"}
    assert set(render(job)["services"]) == {"worker", AWAKE}
    assert Job.from_json(job.to_json()).block == job.block
    assert read_xgboost().roles["worker"].instances == 3


def test_what_xgboost_does_not_go_by_is_named() -> None:
    assert "services.server: XGBoost has no servers" in xgboost_problem(server=True)
    for line in ("app: ftrl", "train: {epochs: 2}", "dmlc: {restart: never}", "sync: {mode: asp}"):
        key = line.partition(":")[0]
        assert xgboost_problem(line).startswith(f"yarnps.{key}: not with runtime: xgboost")
    assert "services.worker.script: missing" in xgboost_problem(script="")
    found = xgboost_problem(env={"DMLC_TRACKER_URI": "1.2.3.4"})
    assert found == "services.worker.env.DMLC_TRACKER_URI: yarnps sets this variable itself"
    assert "yarnps.data.parse" in xgboost_problem("data: {train: x, format: custom}")
