"""What a Python interpreter is made of: asked from the interpreter itself."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from yarnps._errors import InputError

# What the agent, the ApplicationMaster, servers and workers import.
NEEDED = (
    "grpc", "google.protobuf", "numpy", "numba", "zmq", "hdfs_native", "fsspec", "pydantic",
    "yaml", "aiohttp", "safetensors", "prometheus_client", "zstandard", "skein",
)  # fmt: skip
OLDEST = (3, 10)
ASK_LIMIT_S = 60.0

# Runs in the other interpreter, which may be an old one: nothing but the standard library.
QUESTION = """
import json, os, sys, sysconfig
def there(name):
    import importlib.util
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
get = sysconfig.get_config_var
print(json.dumps({
    "version": sys.version_info[:3],
    "executable": os.path.realpath(sys.executable),
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
    "libpython": os.path.join(get("LIBDIR") or "", get("INSTSONAME") or "")
        if get("Py_ENABLE_SHARED") else "",
    "path": [p for p in sys.path if p and os.path.isdir(p)],
    "missing": [n for n in %(needed)r if not there(n)],
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python and where its parts are.

    Attributes
    ----------
    executable
        The binary itself, behind all links.
    stdlib
        Folders of the standard library, without duplicates.
    site
        Further folders on `sys.path`, in order.
    missing
        Packages that yarnps needs and that are not there.
    """

    python: str
    version: tuple[int, int, int]
    executable: Path
    prefix: Path
    base_prefix: Path
    stdlib: tuple[Path, ...]
    libpython: Path | None
    site: tuple[Path, ...]
    missing: tuple[str, ...]

    @property
    def conda(self) -> bool:
        """Whether conda made it: then its folder is complete in itself."""
        return (self.prefix / "conda-meta").is_dir()

    @property
    def short(self) -> str:
        """Such as ``python3.11``."""
        return f"python{self.version[0]}.{self.version[1]}"


def ask(python: str, needed: tuple[str, ...] = NEEDED) -> Interpreter:
    """Let an interpreter describe itself.

    Raises
    ------
    InputError
        It does not run.
    """
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [python, "-c", QUESTION % {"needed": needed}],
            capture_output=True,
            text=True,
            timeout=ASK_LIMIT_S,
            env=environ,
            cwd="/",
            check=True,
        )
        told = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        tail = error.stderr.strip().splitlines()[-1:]
        raise InputError(f"this Python does not work: {python}: {' '.join(tail)}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"this is no working Python: {python}: {error}", "Correct yarnps.environment."
        ) from error
    stdlib = [Path(p) for p in dict.fromkeys(told["stdlib"])]
    inside = {*stdlib, *(p / "lib-dynload" for p in stdlib)}
    return Interpreter(
        python=python,
        version=tuple(told["version"]),
        executable=Path(told["executable"]),
        prefix=Path(told["prefix"]),
        base_prefix=Path(told["base_prefix"]),
        stdlib=tuple(p for p in stdlib if p.is_dir()),
        libpython=Path(told["libpython"]) if told["libpython"] else None,
        site=tuple(Path(p) for p in told["path"] if Path(p) not in inside),
        missing=tuple(told["missing"]),
    )


def check(found: Interpreter) -> None:
    """Refuse an interpreter that cannot run a job.

    Raises
    ------
    InputError
        It is too old, or packages are missing.
    """
    version = ".".join(map(str, found.version))
    if found.version[:2] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InputError(
            f"Python {version} is too old: {found.python}",
            f"yarnps needs Python {oldest} or newer; name another one in yarnps.environment.",
        )
    if found.missing:
        raise InputError(
            f"packages are missing in the job's environment: {', '.join(found.missing)} "
            f"({found.python}, Python {version})",
            f"Install them there: {found.python} -m pip install yarnps",
        )
