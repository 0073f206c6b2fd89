"""The flights, whole and reduced, and a folder of job files beside the reduced ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import Done, submit

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
FLIGHTS = ROOT / ".data" / "flights"
MOVIELENS = ROOT / ".data" / "movielens"
LINES = 1200  # of each file of the reduced flights


@pytest.fixture(scope="session", autouse=True)
def own_home(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Path]:
    """A home for all jobs of the session; compiled kernels are kept for the next one."""
    home = tmp_path_factory.mktemp("home")
    kernels = Path(str(pytestconfig.rootpath)) / ".pytest_cache" / "d" / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    (home / "kernels").symlink_to(kernels)
    no_defaults = home / "site.yaml"
    no_defaults.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YARNPS_HOME", str(home))
        patch.setenv("YARNPS_CONFIG", str(no_defaults))
        patch.delenv("HADOOP_CONF_DIR", raising=False)
        yield home


@pytest.fixture(scope="session")
def flights() -> Path:
    """The whole task; made when `make data` was not called before."""
    if not (FLIGHTS / "csv" / "DONE").exists():
        script = [sys.executable, str(SPECS / "flights_data.py"), str(FLIGHTS)]
        subprocess.run(script, check=True, timeout=250)
    return FLIGHTS


@pytest.fixture(scope="session")
def movielens() -> Path:
    """The ratings; made when they are not there."""
    script = [sys.executable, str(SPECS / "movielens_data.py"), str(MOVIELENS)]
    subprocess.run(script, check=True, timeout=250)
    return MOVIELENS


@pytest.fixture(scope="session")
def specs(tmp_path_factory: pytest.TempPathFactory, flights: Path) -> Path:
    """A copy of `specs/` whose `flights` hold a few rows of each file."""
    folder = tmp_path_factory.mktemp("specs")
    (folder.parent / ".data").symlink_to(ROOT / ".data")
    for path in SPECS.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    digits = [sys.executable, str(SPECS / "digits_files.py"), str(folder / "digits")]
    subprocess.run(digits, check=True, timeout=60)
    for path in sorted(flights.rglob("part-*")):
        target = folder / "flights" / path.relative_to(flights)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(path) as lines:
            target.write_text("".join(line for line, _ in zip(lines, range(LINES), strict=False)))
    return folder


@pytest.fixture(scope="session")
def first(specs: Path) -> Done:
    """The flights job on the reduced flights; its model is `flights/model`."""
    return submit(specs / "flights.yaml", ["model.path=flights/model"])
