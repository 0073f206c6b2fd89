"""The Python of a job's containers: `yarnps.environment`, made into files and lines of bash.

=====================  ============================================================================
``python:///path``     an interpreter that every node has at this path
``venv:///path``       a virtual environment (or any Python's folder) of this machine, packed
``conda://name``       a conda environment of this machine by name or path, packed
``<archive>``          local or on the cluster: unpacked, and activated if it can be
``docker://image``     YARN's Docker runtime; the image's ``python3``
(none)                 the interpreter that submits, which every node must have at the same path
=====================  ============================================================================
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from yarnps._errors import InputError
from yarnps.client import exits, interpreter, packer
from yarnps.client.cache import ArchiveCache
from yarnps.client.home import home
from yarnps.client.output import Say, size
from yarnps.pslite.contract import PROGRAM_SETUP

ENV_FOLDER = "yarnps_env"
PROGRAM_FOLDER = "yarnps_program"
ARCHIVES = ("tar.gz", "tgz", "zip")
ARCHIVE_FILE = "yarnps_env.tar.gz"
ENV_REMEDY = (
    "set yarnps.environment to venv:///path, conda://name or an archive, which travel with the job"
)

# The archive comes as a file and is unpacked here, once per node into the application's own folder
# (YARN removes that with the application). YARN could unpack it; but that counts against the AM's
# expiry, and a node without Hadoop's native library starts a `chmod` for each of 20,000 files.
UNPACK = f"""\
APP_DIR="${{LOCAL_DIRS%%,*}}"
[ -n "$APP_DIR" ] && [ -w "$APP_DIR" ] || APP_DIR="$PWD"
YARNPS_ENV="$APP_DIR/{ENV_FOLDER}"
unpack() {{
  [ ! -e "$YARNPS_ENV" ] || return 0
  rm -rf "$YARNPS_ENV.new" && mkdir "$YARNPS_ENV.new" || return 1
  tar -xzf {ARCHIVE_FILE} -C "$YARNPS_ENV.new" && mv "$YARNPS_ENV.new" "$YARNPS_ENV"
}}
if ! (flock -w 600 9 && unpack) 9> "$YARNPS_ENV.lock"; then
  echo "yarnps: the environment could not be unpacked on $(hostname) in $APP_DIR" >&2
  exit {exits.NO_ENVIRONMENT}
fi"""

# YARN unpacks zip files: not every node has a program for them.
UNPACKED_BY_YARN = f'YARNPS_ENV="$PWD/{ENV_FOLDER}"'

# Finds the interpreter of an unpacked archive, also when it has one folder around everything.
ACTIVATE = f"""\
for d in "$YARNPS_ENV"/*/; do
  [ -e "$YARNPS_ENV/bin/python" ] || [ ! -e "${{d}}bin/python" ] || YARNPS_ENV="${{d%/}}"
done
if [ -f "$YARNPS_ENV/{packer.ACTIVATE}" ]; then . "$YARNPS_ENV/{packer.ACTIVATE}"
elif [ -f "$YARNPS_ENV/bin/activate" ]; then . "$YARNPS_ENV/bin/activate"; fi
PYTHON="$YARNPS_ENV/bin/python\""""

# Runs in every container before anything else: a node without the environment says so by name.
CHECK = """\
if ! command -v "$PYTHON" > /dev/null; then
  echo "yarnps: no Python at $PYTHON on $(hostname): %(remedy)s" >&2; exit %(code)d
fi
PYTHON="$(command -v "$PYTHON")"
export PYTHON PATH="$(dirname "$PYTHON"):$PATH"
"$PYTHON" -c '
import importlib.util, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
missing = [name for name in sys.argv[1:] if not there(name)]
if missing:
    print("yarnps: packages are missing in", sys.executable, ":", *missing, file=sys.stderr)
sys.exit(%(code)d if missing else 0)' %(needed)s || exit %(code)d"""


# The same for a program with a Python of its own, of which nothing is known.
PROGRAM_CHECK = f"""\
if ! command -v "$PYTHON" > /dev/null; then
  echo "yarnps: no Python at $PYTHON on $(hostname): correct dmlc.environment" >&2
  exit {exits.NO_ENVIRONMENT}
fi
PYTHON="$(command -v "$PYTHON")"
export PYTHON PATH="$(dirname "$PYTHON"):$PATH"
"""


@dataclass(frozen=True)
class Environment:
    """How containers get their Python.

    Attributes
    ----------
    setup
        Lines of bash that set ``PYTHON``; it is exported, and is `python` for scripts, too.
    files
        Further files of a container, as skein's specification has them.
    env
        Environment variables of the containers.
    """

    description: str
    setup: tuple[str, ...]
    files: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def script(self) -> tuple[str, ...]:
        """The setup with the check that it works."""
        values = {
            "remedy": ENV_REMEDY,
            "code": exits.NO_ENVIRONMENT,
            "needed": " ".join(interpreter.NEEDED),
        }
        return (*self.setup, CHECK % values)


def prepare_program(wanted: str, folder: Path, cache: ArchiveCache | None, say: Say) -> Environment:
    """Make `dmlc.environment` ready: any Python, beside the one of yarnps' own processes.

    Its `files` hold the lines that set it up, too, as `PROGRAM_SETUP`.

    Raises
    ------
    InputError
        There is no such environment.
    """
    made = prepare(wanted, folder, cache, say, needed=None)
    lines = tuple(line.replace(ENV_FOLDER, PROGRAM_FOLDER) for line in (*made.setup, PROGRAM_CHECK))
    files = {name.replace(ENV_FOLDER, PROGRAM_FOLDER): value for name, value in made.files.items()}
    if cache is not None:
        address = cache.put_bytes("\n".join(lines).encode(), "sh", "program's set-up")
        files[PROGRAM_SETUP] = {**archive_file(address), "type": "FILE"}
    return replace(made, setup=lines, files=files)


def prepare(
    wanted: str | None,
    folder: Path,
    cache: ArchiveCache | None,
    say: Say,
    *,
    needed: tuple[str, ...] | None = interpreter.NEEDED,
) -> Environment:
    """Make `yarnps.environment` ready for containers.

    Parameters
    ----------
    wanted
        The value in the job file.
    folder
        Where relative paths start.
    cache
        Where archives go; None: nothing is packed or uploaded, only checked.
    needed
        Packages that must be in it; None: any Python of any version will do.

    Raises
    ------
    InputError
        There is no such environment, or it lacks what a job needs.
    """
    if wanted is None:
        _look_at(sys.executable, needed)
        return _at_path(sys.executable, "the interpreter that submits")
    scheme, _, rest = wanted.partition("://")
    if scheme == "python":
        path = str(Path(rest).expanduser())
        if os.access(path, os.X_OK):  # the nodes' interpreter may be here, too: then look at it
            _look_at(path, needed)
        return _at_path(path, "an interpreter that the nodes have")
    if scheme == "venv":
        path = str((folder / Path(rest).expanduser()) / "bin" / "python")
        return _packed(path, wanted, cache, say, needed)
    if scheme == "conda":
        return _packed(str(conda_prefix(rest) / "bin" / "python"), wanted, cache, say, needed)
    if scheme == "docker":
        return _docker(rest)
    return _archive(wanted, folder, cache)


def describe(wanted: str | None) -> Environment:
    """The environment as `render` shows it: nothing is looked for, packed or uploaded."""
    scheme, _, rest = (wanted or "").partition("://")
    if wanted is None or scheme == "python":
        return _at_path(rest if wanted else sys.executable, "")
    if scheme == "docker":
        return _docker(rest)
    return _unpacked(wanted, f"<{wanted}, as an archive>")


def _look_at(python: str, needed: tuple[str, ...] | None) -> interpreter.Interpreter:
    """An interpreter that works, and has what is needed."""
    if needed is None:
        return interpreter.ask(python, ())
    found = interpreter.ask(python, needed)
    interpreter.check(found)
    return found


def local_python(
    wanted: str | None,
    folder: Path,
    *,
    needed: tuple[str, ...] | None = interpreter.NEEDED,
) -> str:
    """The interpreter for processes on this machine.

    Raises
    ------
    InputError
        The environment cannot be used without a cluster, or lacks what a job needs.
    """
    if wanted is None:
        return sys.executable
    scheme, _, rest = wanted.partition("://")
    if scheme == "python":
        python = str(Path(rest).expanduser())
    elif scheme == "venv":
        python = str(folder / Path(rest).expanduser() / "bin" / "python")
    elif scheme == "conda":
        python = str(conda_prefix(rest) / "bin" / "python")
    else:
        raise InputError(
            f"an environment that cannot be used with --cluster local: {wanted}",
            "Use python:///path, venv:///path or conda://name, or leave it out.",
        )
    _look_at(python, needed)
    return python


def _docker(image: str) -> Environment:
    env = {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": image,
    }
    return Environment(f"Docker image {image}", ("PYTHON=python3",), env=env)


def _at_path(path: str, description: str) -> Environment:
    return Environment(f"{path} ({description})", (f"PYTHON={shlex.quote(path)}",))


def _packed(
    python: str,
    wanted: str,
    cache: ArchiveCache | None,
    say: Say,
    needed: tuple[str, ...] | None,
) -> Environment:
    if not os.access(python, os.X_OK):
        raise InputError(
            f"there is no such environment: {wanted} (no {python})", "Correct yarnps.environment."
        )
    found = _look_at(python, needed)
    return _unpacked(f"{wanted}, packed", None if cache is None else _pack(found, cache, say))


def _pack(found: interpreter.Interpreter, cache: ArchiveCache, say: Say) -> str:
    """The address of the packed environment; packed only when the cluster does not have it."""
    files = packer.entries(found)
    mark = packer.fingerprint(files)
    note = home() / "packs" / f"{mark}.json"
    digest = _noted(note)
    if digest is not None:
        address = cache.find(digest, "tar.gz")
        if address is not None:
            say("environment: unchanged and on the cluster already, 0 bytes uploaded")
            return address
    say(f"environment: packing {len(files):,} files of {found.prefix} (once)")
    with tempfile.TemporaryDirectory(prefix="yarnps-pack-") as folder:
        target = Path(folder) / "environment.tar.gz"
        packer.write(files, target)
        say(f"environment: packed into {size(target.stat().st_size)}")
        address = cache.put_file(target, "tar.gz", "environment")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"sha256": Path(address).name.split(".")[0]}))
    return address


def _noted(note: Path) -> str | None:
    try:
        return str(json.loads(note.read_text())["sha256"])
    except (OSError, ValueError, KeyError):
        return None


def _archive(wanted: str, folder: Path, cache: ArchiveCache | None) -> Environment:
    """An archive that the user has made."""
    extension = next((e for e in ARCHIVES if wanted.endswith(f".{e}")), None)
    if extension is None:
        raise InputError(
            f"not an environment: {wanted}",
            "Use python:///path, venv:///path, conda://name, docker://image or an archive "
            f"({', '.join(ARCHIVES)}).",
        )
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:", wanted) and not wanted.startswith("file:"):
        from yarnps.files import open_files

        where, path = open_files(wanted)
        if not where.exists(path):
            raise InputError(f"there is no such archive: {wanted}", "Correct yarnps.environment.")
        return _unpacked(wanted, where.address(path))
    local = folder / Path(re.sub("^file:(//)?", "", wanted)).expanduser()
    if not local.is_file():
        raise InputError(f"there is no such archive: {local}", "Correct yarnps.environment.")
    address = None if cache is None else cache.put_file(local, extension, "environment")
    return _unpacked(str(local), address)


def _unpacked(description: str, address: str | None) -> Environment:
    """An environment out of an archive at this address (None: not uploaded, only looked at)."""
    if address is None:
        return Environment(description, (UNPACK, ACTIVATE))
    archive = archive_file(address)
    if address.endswith(".zip"):
        return Environment(description, (UNPACKED_BY_YARN, ACTIVATE), {ENV_FOLDER: archive})
    return Environment(description, (UNPACK, ACTIVATE), {ARCHIVE_FILE: {**archive, "type": "FILE"}})


def archive_file(address: str) -> dict[str, str]:
    """A file of skein's specification that the nodes keep for further applications of the user."""
    return {"source": address, "type": "ARCHIVE", "visibility": "PRIVATE"}


def conda_prefix(name: str) -> Path:
    """The folder of a conda environment, by its name or path."""
    if "/" in name:
        return Path(name).expanduser()
    roots = [
        *(p.parent.parent for p in (Path(os.environ.get("CONDA_EXE", "/nowhere/bin/conda")),)),
        *(Path.home() / n for n in ("miniconda3", "anaconda3", "miniforge3", "mambaforge")),
        Path("/opt/conda"),
    ]
    if os.environ.get("MAMBA_ROOT_PREFIX"):
        roots.insert(0, Path(os.environ["MAMBA_ROOT_PREFIX"]))
    places = [root if name == "base" else root / "envs" / name for root in roots]
    listed = Path.home() / ".conda" / "environments.txt"
    if listed.is_file():
        places += [Path(p) for p in listed.read_text().split() if Path(p).name == name]
    for place in places:
        if (place / "bin" / "python").exists():
            return place
    raise InputError(
        f"there is no conda environment {name!r} on this machine",
        f"Give its folder: conda:///path/to/{name}. Looked in: "
        + ", ".join(str(p.parent) for p in places[:4]),
    )
