"""`jit`: how every numba kernel of yarnps is compiled, and where its code is cached.

Importing numba takes a third of a second, so only modules that hold kernels import this one.
"""

from __future__ import annotations

import fcntl
import functools
import getpass
import importlib
import importlib.util
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numba
from llvmlite import ir as _ir
from numba.extending import intrinsic as _intrinsic

ir: Any = _ir  # its functions have no types
intrinsic: Any = _intrinsic  # it gives the function another signature, which stubs do not say


def _import_without_scipy() -> None:
    """Load numba's array functions, which ask for scipy by importing it: 0.2 s of every process.

    Where scipy is installed, whether it is there can be told without that. What needs its linear
    algebra (``np.dot`` in a user's own kernel) still imports it, at that moment.
    """
    try:
        linalg: Any = importlib.import_module("numba.np.linalg")
        ensure_blas = linalg.ensure_blas
    except (ImportError, AttributeError):  # another numba: it may take longer, that is all
        return

    def look_for_scipy() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("scipy is not installed")

    linalg.ensure_blas = look_for_scipy
    try:
        arraymath: Any = importlib.import_module("numba.np.arraymath")
        arraymath.ensure_blas = ensure_blas
    finally:
        linalg.ensure_blas = ensure_blas


class _Later:
    """Stands for an object that is made when something of it is used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = functools.cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)


class _PartForCffi(types.ModuleType):
    """Of numba. It asks `SUPPORTED` before it asks whether a value is a function of cffi."""

    @property
    def SUPPORTED(self) -> bool:
        return "cffi" in sys.modules  # before that there is no such value


def _import_without_cffi() -> None:
    """Load numba's part for functions of cffi, which makes a parser of C: 0.06 s of every process.

    It is made when a user's own kernel is given such a function.
    """
    if "cffi" in sys.modules or importlib.util.find_spec("cffi") is None:
        return
    sys.modules["cffi"] = cast("types.ModuleType", types.SimpleNamespace(FFI=lambda: None))
    try:
        part: Any = importlib.import_module("numba.core.typing.cffi_utils")
    except (ImportError, AttributeError):  # another numba: it may take longer, that is all
        return
    finally:
        del sys.modules["cffi"]
    part.cffi = _Later(lambda: importlib.import_module("cffi"))
    part.ffi = _Later(lambda: importlib.import_module("cffi").FFI())
    part.__class__ = _PartForCffi


_import_without_scipy()
_import_without_cffi()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user need not have a name
        return str(os.getuid())


def _cache_dir() -> str:
    """Where machine code is kept; "" for beside the source.

    There it serves every process of this version of yarnps. On a node of a cluster that is each
    container of the user's applications, as long as the node keeps the package that it has
    unpacked; a folder of the application's own would start empty every time. A package may be
    read-only, and HOME may not exist.
    """
    if os.environ.get("YARNPS_KERNEL_CACHE"):
        return os.environ["YARNPS_KERNEL_CACHE"]
    if os.access(Path(__file__).parent, os.W_OK):
        return ""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return os.environ["NUMBA_CACHE_DIR"]
    folder = Path(tempfile.gettempdir()) / f"yarnps-kernels-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


CACHE_DIR = _cache_dir()

# So long a process waits for another one that compiles the same kernel.
TURN_LIMIT_S = 60.0
_config: Any = numba.config  # numba sets its attributes at run time


def jit(function: Callable[..., Any]) -> Any:
    """Compile at the first call; the machine code is cached and runs without the GIL."""
    return _compiled(function)


def fast_jit(function: Callable[..., Any]) -> Any:
    """Like `jit`, for sums that may be added up in another order (and have no NaN in them)."""
    return _compiled(function, fastmath=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Like `jit`, for the small functions that kernels are made of."""
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # numba's setting is for the user's own kernels; a function's place is fixed when it is made.
    before, _config.CACHE_DIR = _config.CACHE_DIR, CACHE_DIR
    try:
        kernel = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    finally:
        _config.CACHE_DIR = before
    compile_now = kernel.compile

    def compile_once(signature: Any) -> Any:
        with _turn(f"{function.__module__}.{function.__qualname__}"):
            return compile_now(signature)

    kernel.compile = compile_once
    return kernel


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """One process of a node compiles a kernel; the others wait and find it in the cache.

    All processes of a job start together, and on a small node they would otherwise do the same
    work at the same time. The wait has a limit: after it a process compiles for itself.
    """
    folder = Path(CACHE_DIR) if CACHE_DIR else Path(__file__).parent / "__pycache__"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:  # a folder that cannot be written: nothing is cached, nobody is waited for
        yield
        return
    try:
        deadline = time.monotonic() + TURN_LIMIT_S
        # Once compiled, it is read by all at the same time: the file's byte says so.
        while not (os.fstat(lock).st_size or _locked(lock)) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield
        if not os.fstat(lock).st_size:
            os.write(lock, b".")
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    """Whether the lock could be had now; closing the file gives it back."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@intrinsic
def pointer(_context, address):  # type: ignore[no-untyped-def]
    """An address (int64) as a pointer, for `numba.carray`."""

    def code(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(numba.types.voidptr))

    return numba.types.voidptr(numba.types.int64), code


_carray: Any = numba.carray  # type: ignore[attr-defined]


@intrinsic
def fetch(_context, address):  # type: ignore[no-untyped-def]
    """Have the cache line at an address (int64) brought into the cache, without waiting for it.

    Nothing is read: an address that is no memory does no harm.
    """

    def code(_context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        # For reading (0), into all levels (3), data (1).
        builder.call(prefetch, [pointer, number(0), number(3), number(1)])
        return _context.get_dummy_value()

    return numba.types.void(numba.types.int64), code


@inlined
def row_at(address, width, like):  # type: ignore[no-untyped-def]
    """The `width` numbers at an address, of the dtype of the array `like`."""
    return _carray(pointer(address), (width,), like.dtype)


@jit
def _nothing(number):  # type: ignore[no-untyped-def]
    return number


def warm_up() -> None:
    """Have numba load all that it loads with the first kernel: 0.2 s of every process."""
    _nothing(0)
