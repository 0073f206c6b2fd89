"""The command line as a whole: verbs, help, errors, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from yarnps._errors import ClusterError, InputError
from yarnps.client import main

CLIENT = Path(main.__file__).parent


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path / "home"))


def test_every_verb_has_a_file_and_every_file_is_a_verb() -> None:
    files = {path.stem.removeprefix("cmd_") for path in CLIENT.glob("cmd_*.py")}
    assert files == set(main.VERBS)


@pytest.mark.parametrize("verb", list(main.VERBS))
def test_help_of_every_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "--help"]) == 0
    assert f"Usage: yarnps {verb}" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from yarnps.client.main import run; run(['--help']);"
        "print(sorted({'skein', 'grpc', 'numpy', 'pydantic', 'numba', 'yaml', 'rich', 'fsspec'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert all(verb in done.stdout for verb in main.VERBS)
    assert done.stderr.strip() == "[]"


def test_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["sbumit"]) == 2
    assert "did you mean `yarnps submit`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [(InputError("wrong", "do this\nor that"), 2), (ClusterError("away", "look"), 3)],
)
def test_our_errors_are_a_message_and_a_status(
    error: Exception,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run(["list"]) == status
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "Traceback" not in told
    assert "  " + str(error).splitlines()[-1].strip() in told


def test_an_error_of_ours_leaves_its_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run(["list"]) == 1
    told = capsys.readouterr().err
    assert "error: ZeroDivisionError: surprise" in told
    assert "Traceback" not in told
    (kept,) = (tmp_path / "home" / "logs").glob("error-*.txt")
    assert str(kept) in told
    assert "Traceback" in kept.read_text()
    assert main.run(["list", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["schema"]) == 0
    assert "properties" in json.loads(capsys.readouterr().out)


JOB = """\
name: little
services:
  server: {instances: 1, resources: {memory: 512 MiB, vcores: 1}}
  worker:
    instances: 2
    resources: {memory: 512 MiB, vcores: 1}
    env: {API_TOKEN: hush, MODE: open}
yarnps:
  app: ftrl
  data: {train: "rows/*.txt"}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.txt").write_text("1 7:0.5 9:1\n0 8:1\n" * 20)
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def test_render_masks_secrets_and_holds_no_key(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["render", str(job), "-o", "json"]) == 0
    text = capsys.readouterr().out
    worker = json.loads(text)["services"]["worker"]
    assert worker["instances"] == 0
    assert worker["env"]["MODE"] == "open"
    assert "hush" not in text
    assert "PRIVATE KEY" not in text


def test_render_sources(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["render", str(job), "--sources", "--set", "yarnps.train.epochs=3"]) == 0
    rows = capsys.readouterr().out.splitlines()
    (epochs,) = [row for row in rows if row.startswith("yarnps.train.epochs ")]
    assert epochs.split()[1:] == ["3", "--set", "yarnps.train.epochs=3"]


def test_validate_shows_records_as_the_program_sees_them(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["validate", str(job), "--data", "--cluster", "local", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is True
    train = answer["data"]["train"]
    assert (train["files"], train["bytes"]) == (1, 360)
    assert len(train["records"]) == 10
    assert "7:0.5" in train["records"][0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("yarnps.train.epoch=2", "did you mean epochs?"),
        ("services.worker.instances=-1", "expected at least 1, found -1"),
        ("yarnps.data.train=nowhere/*", "the input matches nothing"),
    ],
)
def test_validate_says_what_is_wrong(
    change: str, told: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["validate", str(job), "--data", "--cluster", "local", "--set", change]
    assert main.run(args) == 2
    assert told in capsys.readouterr().err


def test_a_broken_row_is_found_with_file_and_line(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.parent / "rows" / "a.txt").write_text("1 7:0.5\n0 8:one\n")
    assert main.run(["validate", str(job), "--data", "--cluster", "local"]) == 2
    told = capsys.readouterr().err
    assert "a.txt:2" in told
    assert "8:one" in told


def test_submit_without_any_cluster(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_YARN_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert main.run(["submit", str(job), "-o", "json"]) == 3
    captured = capsys.readouterr()
    assert "--cluster sandbox" in captured.err
    assert "--cluster local" in captured.err
    assert list(json.loads(captured.out)) == [
        "application", "state", "cause", "cause_code", "retry_helps", "metrics", "model",
        "job_dir", "elapsed_s", "rows", "rows_per_s", "splits", "lost_rows",
    ]  # fmt: skip


def test_a_model_folder_that_exists_is_refused(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    args = ["submit", str(job), "--cluster", "local", "--set", "yarnps.model.path=model"]
    assert main.run(args) == 2
    told = capsys.readouterr().err
    assert f"the model's folder exists: file://{tmp_path}/model" in told
    assert "model.overwrite: true" in told
    assert not (tmp_path / "home" / "local").exists()


def test_a_plain_skein_file_needs_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(
        "services: {a: {resources: {memory: 64 MiB, vcores: 1}, script: 'true'}}\nname: plain\n"
    )
    assert main.run(["submit", str(path), "--cluster", "local"]) == 2
    assert "--cluster sandbox" in capsys.readouterr().err


def test_a_thread_that_is_busy_in_a_library_does_not_spoil_the_end() -> None:
    """The interpreter is not taken down around it, which aborts the process now and then."""
    program = (
        "import sys, threading, time\n"
        "from yarnps.client import main\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "sys.argv = ['yarnps', 'sbumit']\n"
        "import atexit; atexit.register(print, 'an orderly end')\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert done.stdout == ""
