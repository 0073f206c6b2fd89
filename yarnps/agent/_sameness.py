"""Whether a process that has begun under one environment may go on under another.

A variable that was read at the start, or by something that has been imported since, would be
followed by a new process only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

# What glibc reads when a process starts -> mallopt's number for the same (of its malloc.h).
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}

# Of our own variables only this one is read by an import.
_READ_BY_IMPORT = "YARNPS_KERNEL_CACHE"
_READ_LATER = ("LOG_DIRS", "PWD")


def missed(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Variables that differ, and that a process of the environment `then` would not follow."""
    names = {name for name in {*then, *now} if then.get(name) != now.get(name)}
    return {name for name in names if not (_read_later(name) or (name in _MALLOC and name in now))}


def _read_later(name: str) -> bool:
    ours = name.startswith("YARNPS_") and name != _READ_BY_IMPORT
    return ours or name in _READ_LATER


def follow_malloc(env: Mapping[str, str]) -> None:
    """Do what glibc would have done at the start with its variables in `env`."""
    for name, number in _MALLOC.items():
        if name in env:
            ctypes.CDLL(None).mallopt(number, int(env[name]))
