"""``python -m yarnps.rabit.tracker``: XGBoost's own tracker as a process of its own.

It writes to a file, a line of JSON each: where it listens, or why it does not; then how it has
ended: well (all workers have taken leave), or by the error that the tracker gives. What the workers
have the tracker print (the figures of each round) goes to its standard output. It ends when the
process that it was started for is gone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from yarnps._errors import InputError

LOOK_S: Final = 1.0
# The exit status of our scripts, too, where a package is missing.
NO_PACKAGE: Final = 78
FAILED: Final = 1

# Kept to the end of the process: to free one that has failed only raises its error again.
_started: list[Any] = []


def main(argv: Sequence[str] | None = None) -> int:
    """Track until the workers are through; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--host", required=True, help="address that the workers are told")
    parser.add_argument("--timeout", type=float, required=True, help="s, for all workers to come")
    parser.add_argument("--owner", type=int, required=True, help="process to end with")
    parser.add_argument("--say", type=Path, required=True, help="file to write to")
    given = parser.parse_args(argv)
    try:
        tracker = start(given.workers, given.host, given.timeout)
    except ImportError as error:
        write(given.say, error=f"XGBoost cannot be imported by {sys.executable}: {error}")
        return NO_PACKAGE
    except (InputError, OSError, ValueError, RuntimeError) as error:
        write(given.say, error=f"XGBoost's tracker did not start: {error}")
        return FAILED
    write(given.say, port=int(tracker.worker_args()["dmlc_tracker_port"]))
    trouble = follow(tracker, given.owner)
    if trouble is None:
        write(given.say, ended=True)
        return 0
    write(given.say, error=trouble)
    return FAILED


def start(workers: int, host: str, timeout_s: float) -> Any:
    """A started tracker.

    Raises
    ------
    ImportError
        There is no XGBoost.
    InputError
        This XGBoost is too old.
    """
    from xgboost.tracker import RabitTracker

    if not hasattr(RabitTracker, "wait_for"):
        raise InputError("this XGBoost has another tracker", "Install XGBoost 2.1 or newer.")
    tracker = RabitTracker(
        n_workers=workers, host_ip=host, sortby="task", timeout=max(1, round(timeout_s))
    )
    tracker.start()
    _started.append(tracker)
    return tracker


def follow(tracker: Any, owner: int) -> str | None:
    """Wait for a tracker's end, as long as its owner lives. None: it has ended well."""
    ended = threading.Event()
    errors: list[str] = []

    def wait() -> None:
        try:
            tracker.wait_for()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the tracker's last word
            errors.append(last_line(str(error)))
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    while not ended.wait(LOOK_S):
        if not alive(owner):
            return "the process that it was started for is gone"
    return errors[0] if errors else None


def write(path: Path, **words: Any) -> None:
    """A line for the owner."""
    with path.open("a") as file:
        print(json.dumps(words), file=file)


def read(path: Path) -> dict[str, Any]:
    """Everything that a tracker has written to its file so far: `port`, `error`, `ended`."""
    words: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                words.update(json.loads(line))
    return words


def last_line(text: str) -> str:
    """What XGBoost's errors mean: they are stacks of places, the cause below them."""
    lines = [re.sub(r"^[- ]*(\[[^]]*\|[\d:]+\]:?)?\s*", "", line) for line in text.splitlines()]
    words = [line for line in lines if line and not line.startswith(("Stack trace", "[bt]"))]
    return words[-1] if words else "no reason was given"


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in ("Z", "X")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)  # what XGBoost itself has printed
    os._exit(code)  # the tracker's own threads may still wait for workers that never come
