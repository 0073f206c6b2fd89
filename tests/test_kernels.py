"""Where the machine code of kernels is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import yarnps

LOOK = "import yarnps.server.kernels as k; print(k.find.stats.cache_path)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package, as a node unpacks it."""
    ours = Path(yarnps.__path__[0])
    folder = tmp_path / "unpacked"
    shutil.copytree(ours, folder / "yarnps", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def cache_of(package: Path, look: str = LOOK, **env: str) -> Path:
    """Where a process that uses this copy keeps the code of a kernel."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", look],
        env={**kept, "PYTHONPATH": str(package), **env},
        cwd=package,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return Path(done.stdout.strip())


def test_beside_the_source_whatever_folder_other_kernels_have(
    package: Path, tmp_path: Path
) -> None:
    found = cache_of(package, NUMBA_CACHE_DIR=str(tmp_path / "others"))
    assert found == package / "yarnps" / "server" / "__pycache__"


def test_where_it_is_told_to_be(package: Path, tmp_path: Path) -> None:
    found = cache_of(package, YARNPS_KERNEL_CACHE=str(tmp_path / "kernels"))
    assert found.parent == tmp_path / "kernels"


def test_not_in_a_package_that_is_read_only(package: Path, tmp_path: Path) -> None:
    others, look = tmp_path / "others", LOOK
    # Root may write everywhere, whatever the mode: only then os.access has to be helped.
    if os.geteuid() == 0:
        look = f"import os; os.access = lambda *_: False; {LOOK}"
    (package / "yarnps").chmod(0o500)
    try:
        found = cache_of(package, look, NUMBA_CACHE_DIR=str(others))
    finally:
        (package / "yarnps").chmod(0o700)
    assert found.parent == others


USERS_KERNEL = """
import sys
import numba
import numpy as np
from yarnps.protocol.shards import _increasing

assert _increasing(np.arange(3))
assert "scipy.linalg" not in sys.modules, "a kernel of ours has loaded scipy"
assert "cffi" not in sys.modules, "a kernel of ours has loaded cffi"

@numba.njit
def product(a, b):
    return np.dot(a, b)

print(product(np.ones(3), np.full(3, 2.0)))

import cffi
from numba.core.typing import cffi_utils

ffi = cffi.FFI()
ffi.cdef("int abs(int);")
absolute = ffi.dlopen(None).abs

@numba.njit
def distance(a, b):
    return absolute(a - b)

print(distance(3, 7), cffi_utils.is_ffi_instance(ffi), cffi_utils.is_cffi_func(3))
"""


def test_scipy_and_cffi_are_loaded_only_for_kernels_that_need_them(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("cffi")
    done = subprocess.run(
        [sys.executable, "-c", USERS_KERNEL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "6.0\n4 True False\n", done.stderr
