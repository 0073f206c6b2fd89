"""The process that a job's own server functions run in; `runner` starts it.

It is apart from the server, so that a function that never ends, takes too much memory or crashes
costs a process and not the tables. Standard library and numpy only: it starts quickly.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

_PR_SET_PDEATHSIG = 1


class Work(NamedTuple):
    """A function ("module:function"), further arguments, and (keys, weights) of each shard."""

    function: str
    arguments: list[Any]
    shards: list[tuple[Any, Any]]


class Outcome(NamedTuple):
    """One array for each shard, or what went wrong."""

    arrays: list[Any]
    error: str = ""
    trace: str = ""


def work(asked: Work) -> Outcome:
    """Run a function on every shard."""
    try:
        module, _, name = asked.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        found = [function(keys, rows, *asked.arguments) for keys, rows in asked.shards]
        return Outcome([_checked(asked.function, array) for array in found])
    except Exception as error:  # noqa: BLE001 (the user's own; told to the caller)
        return Outcome([], f"{type(error).__name__}: {error}", traceback.format_exc())


def _checked(name: str, result: Any) -> Any:
    array = np.asarray(result)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} returned {type(result).__name__}: an array of numbers is expected")
    return array


def main() -> None:
    """Work until the server closes its end."""
    # Also when the server is killed while a function runs.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.path.insert(0, os.getcwd())
    connection = Connection(int(sys.argv[1]))
    connection.send("ready")
    while True:
        try:
            asked = connection.recv()
        except EOFError:
            return
        connection.send(work(asked))
