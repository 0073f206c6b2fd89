"""The YARN back end, the supervisor and agents in real containers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from yarnps.client.sandbox import Sandbox

HERE = Path(__file__).parent
FAKE_AM = HERE.parent / "agent" / "fake_am.py"
LIMIT_S = 150.0


def service(script: str, memory: str = "256 MiB") -> dict[str, Any]:
    return {
        "instances": 0,
        "max_restarts": 0,
        "allow_failures": True,
        "resources": {"memory": memory, "vcores": 1},
        "script": script,
    }


def specification(findings: Path) -> dict[str, Any]:
    agent = f"exec {sys.executable} -m yarnps.agent"
    opens = ("java.util", "java.lang", "java.util.concurrent")
    return {
        "name": "yarn-cluster-test",
        "max_attempts": 1,
        "master": {
            "resources": {"memory": "1 GiB", "vcores": 1},
            "files": {"yarn_am.py": str(HERE / "yarn_am.py"), "fake_am.py": str(FAKE_AM)},
            "env": {
                "FINDINGS": str(findings),
                "JDK_JAVA_OPTIONS": " ".join(
                    f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opens
                ),
            },
            # The files are links: Python would look for modules where they lead to.
            "script": f"PYTHONPATH=$PWD exec {sys.executable} yarn_am.py supervised",
        },
        "services": {
            "worker": service(agent),
            "worker-retry": service("echo no such interpreter >&2; exit 3"),
            # Two of them do not fit on the sandbox's nodes beside the others.
            "big": service("exec sleep 600", memory="5900 MiB"),
        },
    }


def run(spec: dict[str, Any]) -> Any:
    """YARN's report of the application, when it has ended."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "submit_bare.py"), str(LIMIT_S)],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_application_on_yarn(on_sandbox: Sandbox, tmp_path: Path) -> None:
    """One application tries it all: a start takes most of the time."""
    report = run(specification(tmp_path / "findings.json"))
    assert report["diagnostics"] == "well done: \u00e4ll of it"
    assert report["final_status"] == "SUCCEEDED"
    f = json.loads((tmp_path / "findings.json").read_text())
    nodes = sorted(on_sandbox.nodes)

    assert (f["application"], f["attempt"], f["queue"]) == (report["id"], 1, "default")
    assert f["user"] == report["user"]
    assert f["nodes"] == nodes
    assert f["ids"] == ["worker_0", "worker_1", "worker-retry_0", "big_0", "big_1"]

    first = {c["id"]: c for c in f["first"]}
    assert [first[i]["role"] for i in f["ids"]] == ["worker", "worker", "worker", "big", "big"]
    assert first["worker_0"]["node"] in nodes
    assert first["worker_0"]["started"] == pytest.approx(time.time(), abs=LIMIT_S)
    assert first["worker_0"]["yarn_id"].startswith("container_")
    assert first["worker_0"]["yarn_id"] in first["worker_0"]["log_url"]
    assert first["worker-retry_0"]["state"] == "ended"
    assert "failed" in first["worker-retry_0"]["exit_message"]
    assert f["output"].strip() == "no such interpreter"
    assert first["big_1"]["state"] == "requested"
    assert "x big (5900 MiB, 1 vcores)" in f["waiting"]
    assert "queue default uses" in f["waiting"]
    assert "MiB on one node" in f["waiting"]

    # After the death of the ApplicationMaster's process: the same containers.
    second = {c["id"]: c for c in f["second"]}
    assert {i: c["yarn_id"] for i, c in second.items()}["worker_0"] == first["worker_0"]["yarn_id"]
    assert second["worker_1"]["state"] == "running"
    assert f["running"] == {"worker_0": 1, "worker_1": 1}
    assert f["hosts"] == {i: first[i]["node"] for i in ("worker_0", "worker_1")}
    assert first["worker_0"]["yarn_id"] in f["log_dirs"]["worker_0"]
    assert f["page"] == "hello from the page"

    last = f["last"]
    assert last[f["killed"]]["state"] == "ended"
    assert f["killed_s"] < 20
    assert last[f["released"]]["exit_message"] == "Killed by user request."
    code, tail, session_ended = f["released_exit"]
    assert (code, tail, session_ended) == (-15, "the role", True)

    # Nothing of the application is left on this machine, as soon as the nodes have heard.
    deadline = time.monotonic() + 15
    while left := _processes_of(report["id"]):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.1)


def _processes_of(application: str) -> list[str]:
    """Command lines of the processes that have the application in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if application.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:  # gone, or somebody else's
            continue
    return found


def test_an_am_that_always_dies(on_sandbox: Sandbox, tmp_path: Path) -> None:
    """YARN shows why, and not only that the driver failed."""
    spec = specification(tmp_path / "findings.json")
    broken = "raise ValueError('no such shard')"
    spec["master"]["script"] = f'exec {sys.executable} supervise.py "{broken}"'
    spec["master"]["files"] = {"supervise.py": str(HERE / "supervise.py")}
    spec["master"]["env"]["YARNPS_CLUSTER"] = "yarn"
    report = run(spec)
    assert report["final_status"] == "FAILED"
    assert report["diagnostics"] == (
        "the ApplicationMaster died (exit status 1) 3 times within 120 s: ValueError: no such shard"
    )
