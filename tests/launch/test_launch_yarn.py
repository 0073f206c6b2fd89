"""What `yarnps launch --launcher yarn` makes of its options: a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from yarnps._errors import ClusterError, InputError
from yarnps.client import main
from yarnps.client.launch.options import Limits, Options, RoleAsk
from yarnps.client.launch.yarn import as_text, job_file
from yarnps.spec import load

MIB = 2**20
WORKER = RoleAsk(3, 2, 2048 * MIB, {"W": "1"})
SERVER = RoleAsk(2, 0, 1000 * MIB + 1)


def asked(*command: str, **more: Any) -> Options:
    return Options("yarn", WORKER, SERVER, command, {"A": "1"}, **more)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "data.txt", "more.txt", "lib.tar.gz"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_roles_and_resources(here: Path) -> None:
    job, notes = job_file(asked("python", "train.py", "--x", "a b", queue="q", job_name="n"))
    assert (job["name"], job["queue"], notes) == ("n", "q", [])
    assert job["yarnps"] == {"runtime": "dmlc"}
    worker, server = job["services"]["worker"], job["services"]["server"]
    assert worker["instances"] == 3
    assert worker["resources"] == {"memory": "2048 MiB", "vcores": 2}
    assert server["resources"] == {"memory": "1001 MiB", "vcores": 1}
    assert (worker["env"], server["env"]) == ({"A": "1", "W": "1"}, {"A": "1"})
    assert worker["script"] == server["script"] == "python ./train.py --x 'a b'\n"


def test_limits_are_those_of_the_job(here: Path) -> None:
    assert job_file(asked("x"), Limits())[0]["yarnps"] == {"runtime": "dmlc"}
    assert job_file(asked("x"), Limits(90.0, 7200.0))[0]["yarnps"] == {
        "runtime": "dmlc",
        "start_timeout": "90 s",
        "dmlc": {"barrier_limit": "7200 s"},
    }


def test_without_a_cluster_the_advice_is_the_launchers(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    line = ["launch", "--cluster", "yarn", "-n", "1", "-s", "1", "--", "true"]
    assert main.run(line) == ClusterError.exit_code
    said = capsys.readouterr().err
    assert "no Hadoop cluster found" in said and "--launcher local" in said
    assert "--cluster sandbox" not in said


def test_files_that_the_command_names_are_shipped(here: Path) -> None:
    job, notes = job_file(asked("/usr/bin/env", "python", "./train.py", f"{here}/data.txt"))
    worker = job["services"]["worker"]
    assert worker["files"] == {
        "train.py": f"file://{here}/train.py",
        "data.txt": f"file://{here}/data.txt",
    }
    assert worker["script"] == "/usr/bin/env python ./train.py ./data.txt\n"
    assert notes == ["/usr/bin/env is not shipped: the nodes have to have it"]


def test_nothing_is_shipped_by_itself_without_the_cache(here: Path) -> None:
    job, _ = job_file(asked("python", "train.py", ship_named_files=False))
    assert "files" not in job["services"]["worker"]
    assert job["services"]["worker"]["script"] == "python train.py\n"


def test_files_archives_and_libcxx(here: Path) -> None:
    (here / "libstdc++.so.6").write_text("")
    more = {"files": ("data.txt", "more.txt#other"), "archives": ("lib.tar.gz",)}
    job, _ = job_file(asked("x", **more, ship_libcxx=str(here), hdfs_tempdir="/t/"))
    worker = job["services"]["worker"]
    assert worker["files"] == {
        "data.txt": f"file://{here}/data.txt",
        "other": f"file://{here}/more.txt",
        "lib": {"source": f"file://{here}/lib.tar.gz", "type": "archive"},
        "libstdc++.so.6": f"file://{here}/libstdc++.so.6",
    }
    unpack, library, command = worker["script"].splitlines()
    assert unpack.startswith("for f in lib/*; do") and command == "x"
    assert library.startswith('export LD_LIBRARY_PATH="$PWD')
    assert job["yarnps"]["job_dir"] == "/t/yarnps-{app}"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"files": ("no.txt",)}, "no.txt: there is no such file"),
        ({"files": ("data.txt", "more.txt#data.txt")}, "the same name in the containers: data.txt"),
        ({"archives": ("no.zip",)}, "no such archive: no.zip"),
        ({"archives": ("data.txt",)}, "not an archive that YARN unpacks: data.txt"),
    ],
)
def test_what_cannot_be_shipped(here: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job_file(asked("x", **more))


def test_print_shows_the_job_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["launch", "--cluster", "yarn", "-n", "2", "-s", "1", "--print", "--"]
    assert main.run([*line, "python", "train.py"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["name"] == "dmlc-train.py"
    assert {n: s["instances"] for n, s in shown["services"].items()} == {"worker": 2, "server": 1}


@pytest.mark.parametrize(("servers", "runtime"), [(2, "dmlc"), (0, "xgboost")])
def test_the_job_file_is_one(here: Path, servers: int, runtime: str) -> None:
    """Without servers it is XGBoost's tracker that the workers come to."""
    server = RoleAsk(servers, 1, 1024 * MIB)
    options = Options("yarn", WORKER, server, ("python", "train.py"), {"A": "1"})
    path = here / "job.yaml"
    path.write_text(as_text(job_file(options)[0]))
    job = load(path, site=[])
    assert job.block is not None and job.block.runtime == runtime
    assert set(job.roles) == ({"server", "worker"} if servers else {"worker"})


def test_the_text_is_the_job() -> None:
    job = {"name": "n", "services": {"worker": {"script": "a\nb\n"}}, "yarnps": {"x": ["1", 1]}}
    assert yaml.safe_load(as_text(job)) == job
    assert "script: |" in as_text(job)
