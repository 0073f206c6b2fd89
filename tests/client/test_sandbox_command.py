"""`yarnps sandbox` where nothing runs; with a real one it is tried in tests/yarn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yarnps.client.main import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YARNPS_SANDBOX_HOME", str(tmp_path / "none"))
    return tmp_path / "none"


def test_status_of_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "status"]) == 3
    assert capsys.readouterr().out == f"no sandbox runs in {home}\n"


def test_status_of_nothing_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "status", "-o", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["running"] is False
    assert found["home"] == str(home)
    assert found["daemons"] == []


def test_env_of_nothing_says_how_to_start(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "env"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"no sandbox runs in {home}" in printed.err
    assert "yarnps sandbox start" in printed.err


def test_stop_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "stop"]) == 0
    assert capsys.readouterr().out == "nothing to stop\n"


def test_wrong_number_of_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "start", "--nodes", "0"]) == 2
    assert "0 is not in the range 1<=x<=200" in capsys.readouterr().err


def test_home_with_something_else_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("")
    assert run(["sandbox", "start", "--home", str(tmp_path)]) == 2
    assert "holds notes" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]
