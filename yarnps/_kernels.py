"""`jit`: how every numba kernel of yarnps is compiled, and where its code is cached.

Importing numba takes a third of a second, so only modules that hold kernels import this one.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user need not have a name
        return str(os.getuid())


def _ensure_cache_dir() -> None:
    """Give numba a folder that it can write: a package may be read-only, and HOME may not exist."""
    if os.environ.get("NUMBA_CACHE_DIR") or os.access(Path(__file__).parent, os.W_OK):
        return
    folder = Path(tempfile.gettempdir()) / f"yarnps-kernels-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


_ensure_cache_dir()

import numba  # noqa: E402 (numba reads its environment when it is imported)


def jit(function: Callable[..., Any]) -> Any:
    """Compile at the first call; the machine code is cached and runs without the GIL."""
    return numba.njit(nogil=True, cache=True, error_model="numpy")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Like `jit`, for the small functions that kernels are made of."""
    return numba.njit(nogil=True, cache=True, error_model="numpy", inline="always")(function)
