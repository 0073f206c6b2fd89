"""What is submitted; skein itself reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skein.model import ApplicationSpec

from yarnps.spec import AWAKE, Job, RenderParts, load, masked, masked_job, masked_text, render

Read = Callable[..., Job]

PARTS = RenderParts(
    files={"yarnps_pkg": {"source": "hdfs:///c/yarnps.zip", "type": "ARCHIVE"}},
    master_files={"yarnps-job.json": "/tmp/job.json"},
    setup=("source env/bin/activate",),
    python="env/bin/python",
    master_python="/opt/python",
    env={"RUNTIME": "docker", "A": "ours"},
    master_env={"B": "2"},
)
TENSORBOARD = (
    "  board: {instances: 1, resources: {memory: 512, vcores: 1}, script: run, "
    "allow_failures: false, files: {a.py: lib/a.py}}"
)


def accepted(spec: dict[str, Any]) -> ApplicationSpec:
    """As skein understands it, which refuses what it does not know."""
    understood: ApplicationSpec = ApplicationSpec.from_dict(spec)
    return understood


def test_roles_wait_for_the_am(read: Read, folder: Path) -> None:
    worker = "{instances: 3, resources: {memory: 1 GiB, vcores: 1}, depends: [server],"
    job = read({4: f"  worker: {worker} env: {{A: mine}}, files: {{d.txt: d.txt}}}}"})
    service = render(job, PARTS)["services"]["worker"]
    assert service == {
        "instances": 0,
        "max_restarts": 0,
        "allow_failures": True,
        "resources": {"memory": "1 GiB", "vcores": 1},
        "env": {"RUNTIME": "docker", "A": "mine"},
        "files": {
            "d.txt": f"file://{folder}/d.txt",
            "yarnps_pkg": {"source": "hdfs:///c/yarnps.zip", "type": "ARCHIVE"},
        },
        "script": "source env/bin/activate\n"
        'export PYTHONPATH="$PWD/yarnps_pkg:$PWD${PYTHONPATH:+:$PYTHONPATH}"\n'
        "exec env/bin/python -m yarnps.agent\n",
    }


def test_the_master(read: Read) -> None:
    spec = render(read({}, "master: {env: {JDK_JAVA_OPTIONS: -Xss2m}}"), PARTS)
    assert spec["master"] == {
        "resources": {"memory": "1 GiB", "vcores": 1},
        "env": {
            "B": "2",
            "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.util=ALL-UNNAMED "
            "--add-opens=java.base/java.lang=ALL-UNNAMED "
            "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED -Xss2m",
            "YARNPS_CLUSTER": "yarn",
        },
        "files": {"yarnps-job.json": "/tmp/job.json"},
        "script": 'export PYTHONPATH="$PWD/yarnps_pkg:$PWD${PYTHONPATH:+:$PYTHONPATH}"\n'
        "exec /opt/python -m yarnps.am.supervisor\n",
    }
    assert (spec["name"], spec["queue"], spec["max_attempts"]) == ("flights", "default", 2)
    assert "yarnps" not in spec


def test_one_request_from_the_start_that_nothing_fulfils(read: Read) -> None:
    """It keeps skein looking to the resource manager every second."""
    awake = accepted(render(read(), PARTS)).services[AWAKE]
    assert (awake.instances, awake.nodes, awake.relax_locality) == (1, ["192.0.2.1"], False)
    assert awake.allow_failures


def test_what_the_file_says_of_the_master_stays(read: Read) -> None:
    spec = render(
        read(
            {},
            "master: {resources: {memory: 2 GiB, vcores: 2}, log_level: debug}",
            "max_attempts: 5",
        )
    )
    assert spec["master"]["resources"] == {"memory": "2 GiB", "vcores": 2}
    assert spec["master"]["log_level"] == "debug"
    assert spec["max_attempts"] == 5


def test_skein_accepts_it(read: Read) -> None:
    job = read({1: "name:", 4: f"{_worker()}\n{TENSORBOARD}"}, "acls:", "tags: [a]")
    spec = accepted(render(job, PARTS))
    assert spec.name == "job"
    assert spec.services["worker"].instances == 0
    assert spec.services["server"].resources.memory == 1024
    assert spec.master.resources.memory == 1024
    assert spec.max_attempts == 2
    assert spec.tags == {"a"}


def test_the_am_judges_the_failures_of_other_services(read: Read, folder: Path) -> None:
    job = read({4: f"{_worker()}\n{TENSORBOARD}"})
    assert render(job, PARTS)["services"]["board"] == {
        "instances": 1,
        "resources": {"memory": 512, "vcores": 1},
        "script": "run",
        "allow_failures": True,
        "files": {"a.py": f"file://{folder}/lib/a.py"},
    }


def test_a_retry_with_more_memory_is_a_service_of_its_own(read: Read) -> None:
    assert set(render(read())["services"]) == {"server", "worker", AWAKE}
    services = render(read({}, "  retry_memory: 1.5"), PARTS)["services"]
    assert set(services) == {"server", "worker", "server-retry", "worker-retry", AWAKE}
    assert services["worker-retry"]["resources"] == {"memory": 1536, "vcores": 1}
    assert services["worker"]["resources"]["memory"] == "1 GiB"
    assert services["worker-retry"]["script"] == services["worker"]["script"]
    assert services["worker-retry"]["instances"] == 0


def test_rendering_leaves_the_job_alone(read: Read) -> None:
    job = read({}, "  retry_memory: 2")
    before = job.to_json()
    render(job, PARTS)["services"]["worker"]["env"]["X"] = "1"
    assert job.to_json() == before


def test_a_plain_file_goes_to_skein_as_it_is(folder: Path) -> None:
    Path("plain.yaml").write_text(
        "services:\n  a:\n    resources: {memory: 128, vcores: 1}\n    script: run\n"
        "    files: {x: x.py, y: {source: hdfs:///y}}\n"
    )
    spec = render(load("plain.yaml", site=[]), PARTS)
    assert spec == {
        "services": {
            "a": {
                "resources": {"memory": 128, "vcores": 1},
                "script": "run",
                "files": {"x": f"file://{folder}/x.py", "y": {"source": "hdfs:///y"}},
            }
        }
    }
    assert accepted(spec) == ApplicationSpec.from_file(  # type: ignore[no-untyped-call]
        "plain.yaml"
    )


SECRET = (
    '  worker: {resources: {memory: 1 GiB, vcores: 1}, env: {AWS_SECRET_ACCESS_KEY: "s3", N: "1"}}'
)


def test_secrets_are_hidden_where_a_job_is_shown(read: Read) -> None:
    job = read({4: SECRET}, sets=("services.server.env.MY_TOKEN=t0ken",))
    shown = masked(render(job, PARTS))
    assert shown["services"]["worker"]["env"]["AWS_SECRET_ACCESS_KEY"] == "***"
    assert shown["services"]["worker"]["env"]["N"] == "1"
    assert render(job)["services"]["worker"]["env"]["AWS_SECRET_ACCESS_KEY"] == "s3"
    kept = masked_job(job)
    assert "s3" not in kept.to_json() and "t0ken" not in kept.to_json()
    assert kept.text == job.text.replace('"s3"', '"***"')
    assert kept.roles["worker"].env == {"AWS_SECRET_ACCESS_KEY": "***", "N": "1"}
    assert Job.from_json(kept.to_json()).block == job.block


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("env: {API_KEY: abc}  # mine\n", 'env: {API_KEY: "***"}  # mine\n'),
        (
            "env:\n  DB_PASSWORD: |\n    a\n    b\n  N: 1\n",
            'env:\n  DB_PASSWORD: "***"\n  N: 1\n',
        ),
        ("params: {TOKEN: x}\nother: {KEY: y}\n", "params: {TOKEN: x}\nother: {KEY: y}\n"),
        ("é: ü\nenv: {A_TOKEN: 'ö'}\n", 'é: ü\nenv: {A_TOKEN: "***"}\n'),
    ],
)  # fmt: skip
def test_masking_keeps_the_rest_of_the_text(text: str, hidden: str) -> None:
    assert masked_text(text) == hidden


def _worker() -> str:
    return "  worker: {instances: 3, resources: {memory: 1 GiB, vcores: 1}}"
