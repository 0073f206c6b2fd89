"""Whether a process may go on under another environment, and what /proc says of it then."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from yarnps.agent._appearance import Room
from yarnps.agent._sameness import missed

THEN = {"PATH": "/bin", "YARNPS_KERNEL_CACHE": "/k", "YARNPS_RANK": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, set()),
        ({"YARNPS_RANK": "2", "YARNPS_NEW": "x", "LOG_DIRS": "/l", "PWD": "/p"}, set()),
        ({"MALLOC_TRIM_THRESHOLD_": "1", "MALLOC_MMAP_THRESHOLD_": "1"}, set()),
        ({"MALLOC_ARENA_MAX": "1"}, {"MALLOC_ARENA_MAX"}),
        ({"YARNPS_KERNEL_CACHE": "/other"}, {"YARNPS_KERNEL_CACHE"}),
        ({"OMP_NUM_THREADS": "2", "PATH": "/sbin"}, {"OMP_NUM_THREADS", "PATH"}),
        ({"OMP_NUM_THREADS": None}, {"OMP_NUM_THREADS"}),
        ({"PYTHONPATH": "/mine"}, {"PYTHONPATH"}),
    ],
)
def test_what_would_be_missed(change: dict[str, str | None], names: set[str]) -> None:
    now = {name: value for name, value in {**THEN, **change}.items() if value is not None}
    assert missed(THEN, now) == names


def test_malloc_set_at_the_start_cannot_be_unset() -> None:
    assert missed({"MALLOC_TRIM_THRESHOLD_": "1"}, {}) == {"MALLOC_TRIM_THRESHOLD_"}


APPEARS = """
import os, subprocess, sys
from yarnps.agent._appearance import Room
room = Room.of_this_process()
command, env = ["a", "\\u00e9"], {"PATH": os.environ["PATH"], "B": "2"}
assert room.holds(command, env)
assert not room.holds(["x" * 100_000], env) and not room.holds(command, {"X": "x" * 100_000})
room.take_on(command, env)
assert os.environ["B"] == "2" and "HOME" not in os.environ
print(open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"))
print(open("/proc/self/environ").read().rstrip("\\0").split("\\0")[1:])
sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import os; print(os.environ['B'], len(os.environ) < 5)"])
"""


def test_a_process_appears_as_another_one() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", APPEARS],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "HOME": "/"},
    )
    assert done.stdout.splitlines() == ["['a', '\u00e9']", "['B=2']", "2 True"], done.stderr


def test_what_does_not_fit_is_refused() -> None:
    room = Room(range(0), range(0))
    with pytest.raises(ValueError, match="do not fit"):
        room.take_on([], dict(os.environ))
