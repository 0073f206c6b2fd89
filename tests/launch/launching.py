"""`yarnps launch` as a process, with the small ps-lite program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from waiting import until

PROGRAM = Path(__file__).parent / "ps_program.py"
LIMIT_S = 90.0


class Launched(NamedTuple):
    """A launch that has ended."""

    status: int
    out: str
    err: str

    def all_work(self) -> bool:
        """Whether three processes have said so, each under its own name."""
        said = self.out.splitlines()
        return all(f"[{who}] works" in said for who in ("server 0", "worker 0", "worker 1"))


def start(
    launcher: str,
    *words: str,
    env: Mapping[str, str],
    cwd: Path,
    options: tuple[str, ...] = (),
    program: Path = PROGRAM,
    servers: int = 1,
) -> subprocess.Popen[str]:
    """Launch one server and two workers."""
    ours = [sys.executable, "-m", "yarnps.client.main", "launch", "--launcher", launcher]
    ours += ["-n", "2", "-s", str(servers)]
    return subprocess.Popen(
        [*ours, *options, "--", sys.executable, str(program), *words],
        env={**os.environ, **env},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> Launched:
    """Wait for its end."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the launch did not end:\n{out}\n{err}") from None
    return Launched(process.returncode, out, err)


def run(launcher: str, *words: str, env: Mapping[str, str], cwd: Path, **more: Any) -> Launched:
    """Launch, and wait for the end."""
    return end(start(launcher, *words, env=env, cwd=cwd, **more))


def said(folder: Path) -> dict[str, dict[str, Any]]:
    """What the processes have written with `--say`, by role and rank."""
    return {path.name: json.loads(path.read_text()) for path in folder.iterdir()}


def check_stopped(
    launcher: str,
    number: signal.Signals,
    *,
    env: Mapping[str, str],
    tmp_path: Path,
    options: tuple[str, ...] = (),
) -> Launched:
    """A launch that is sent a signal while its processes run leaves none of them."""
    folder = tmp_path / "said"
    folder.mkdir()
    words = ("--hang", "worker", "1", "--say", str(folder))
    process = start(launcher, *words, env=env, cwd=tmp_path, options=options)
    assert process.stdout is not None
    lines: list[str] = []
    while not {"[worker 0] works", "[worker 1] works", "[server 0] works"} <= set(lines):
        line = process.stdout.readline()
        assert line, f"the launch has ended: {end(process)}"
        lines.append(line.rstrip("\n"))
    pids = [one["pid"] for one in said(folder).values()]
    assert len(pids) == 3 and all(alive(pid) for pid in pids)
    process.send_signal(number)
    launched = end(process)
    until(lambda: not any(alive(pid) for pid in pids), "nothing is left", 30.0)
    return launched


def alive(pid: int) -> bool:
    """Whether a process runs and is no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"
