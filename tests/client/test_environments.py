"""Environments become files and bash that really runs; archives are uploaded once."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from yarnps._errors import InputError
from yarnps.client import environments, exits, interpreter, package
from yarnps.client.cache import ArchiveCache


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YARNPS_HOME", str(tmp_path / "home"))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, told: list[str]) -> ArchiveCache:
    return ArchiveCache(f"file://{tmp_path}/cluster/cache", told.append)


def run(lines: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a container's setup the way YARN does, with nothing of ours in the environment."""
    script = "\n".join([*lines, 'echo "python is $PYTHON"'])
    return subprocess.run(
        ["bash", "-c", script],
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_the_default_is_the_interpreter_that_submits(
    cache: ArchiveCache, told: list[str], tmp_path: Path
) -> None:
    ready = environments.prepare(None, tmp_path, cache, told.append)
    assert ready.files == {}
    done = run(ready.script(), tmp_path)
    assert (done.returncode, done.stdout) == (0, f"python is {sys.executable}\n"), done.stderr


def test_a_node_without_the_interpreter_says_so_by_name(tmp_path: Path) -> None:
    ready = environments.prepare("python:///opt/none/bin/python", tmp_path, None, print)
    done = run(ready.script(), tmp_path)
    assert done.returncode == exits.NO_ENVIRONMENT
    assert "no Python at /opt/none/bin/python on " in done.stderr
    assert "venv:///path" in done.stderr


def test_a_node_whose_interpreter_lacks_packages_names_them(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    done = run(environments._at_path(str(python), "").script(), tmp_path)
    assert done.returncode == exits.NO_ENVIRONMENT
    assert "numpy" in done.stderr


def test_an_environment_without_numpy_is_refused_before_it_is_queued(
    tmp_path: Path, cache: ArchiveCache
) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    for wanted in (f"venv://{tmp_path}/bare", f"python://{tmp_path}/bare/bin/python"):
        with pytest.raises(InputError, match="numpy"):
            environments.prepare(wanted, tmp_path, cache, print)
    with pytest.raises(InputError, match="numpy"):
        environments.local_python("venv://bare", tmp_path)


@pytest.mark.parametrize("wanted", ["venv:///nonexistent", "conda://nowhere", "none.tar.gz"])
def test_environments_that_are_not_there(wanted: str, tmp_path: Path, cache: ArchiveCache) -> None:
    with pytest.raises(InputError, match="there is no"):
        environments.prepare(wanted, tmp_path, cache, print)


def test_docker_is_yarns_runtime(tmp_path: Path) -> None:
    ready = environments.prepare("docker://lab/yarnps:1", tmp_path, None, print)
    assert ready.env == {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "lab/yarnps:1",
    }
    with pytest.raises(InputError, match="--cluster local"):
        environments.local_python("docker://lab/yarnps:1", tmp_path)


def an_archive(path: Path, inside: str = "") -> None:
    """An environment whose Python is the one that runs the tests."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (
            ("bin/activate", "export WAS_ACTIVATED=yes\n"),
            ("bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n'),
        ):
            info = tarfile.TarInfo(inside + name)
            info.size, info.mode = len(text), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))


def a_container(ready: environments.Environment, folder: Path) -> Path:
    """A container's folder with its files in it."""
    folder.mkdir(parents=True)
    ((name, file),) = ready.files.items()
    assert (file["type"], file["visibility"]) == ("FILE", "PRIVATE")
    shutil.copy(file["source"].removeprefix("file://"), folder / name)
    return folder


@pytest.mark.parametrize("inside", ["", "myenv/"])
def test_an_archive_is_found_and_activated_with_or_without_a_folder_around_it(
    inside: str, tmp_path: Path, cache: ArchiveCache
) -> None:
    an_archive(tmp_path / "env.tar.gz", inside)
    ready = environments.prepare("env.tar.gz", tmp_path, cache, print)
    container = a_container(ready, tmp_path / "container")
    done = run((*ready.script(), 'echo "activated: $WAS_ACTIVATED"'), container)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "activated: yes",
        f"python is {container}/yarnps_env/{inside}bin/python",
    ]


def test_the_containers_of_an_application_share_what_is_unpacked(
    tmp_path: Path, cache: ArchiveCache
) -> None:
    an_archive(tmp_path / "env.tar.gz")
    ready = environments.prepare("env.tar.gz", tmp_path, cache, print)
    shared = tmp_path / "appcache"
    shared.mkdir()
    (shared / "yarnps_env.new").mkdir()  # what a container that was killed has left
    folders = [a_container(ready, tmp_path / f"container_{n}") for n in range(3)]
    script = "\n".join([*ready.script(), 'echo "$PYTHON"'])
    environ = {"PATH": "/usr/bin:/bin", "LOCAL_DIRS": f"{shared},/data2"}
    running = [
        subprocess.Popen(
            ["bash", "-c", script], cwd=f, env=environ, stdout=subprocess.PIPE, text=True
        )
        for f in folders
    ]
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, f"{shared}/yarnps_env/bin/python\n")
    assert sorted(p.name for p in shared.iterdir()) == ["yarnps_env", "yarnps_env.lock"]
    assert not list(tmp_path.glob("container_*/yarnps_env"))


def test_a_broken_archive_is_named(tmp_path: Path, cache: ArchiveCache) -> None:
    (tmp_path / "env.tar.gz").write_bytes(b"not an archive")
    ready = environments.prepare("env.tar.gz", tmp_path, cache, print)
    done = run(ready.script(), a_container(ready, tmp_path / "container"))
    assert done.returncode == exits.NO_ENVIRONMENT
    assert "the environment could not be unpacked" in done.stderr


def test_content_is_uploaded_once(cache: ArchiveCache, told: list[str], tmp_path: Path) -> None:
    source = tmp_path / "x.zip"
    source.write_bytes(b"some content")
    first = cache.put_file(source, "zip", "environment")
    assert cache.uploaded == 12
    again = ArchiveCache(f"file://{tmp_path}/cluster/cache", told.append)
    assert again.put_bytes(b"some content", "zip", "environment") == first
    assert again.uploaded == 0
    assert told[-1] == "environment: on the cluster already, 0 bytes uploaded"
    kept = Path(first.removeprefix("file://"))
    assert kept.read_bytes() == b"some content"
    assert [p.name for p in kept.parent.iterdir()] == [kept.name], "no half archive is left"


def test_a_packed_environment_is_packed_and_uploaded_once(
    cache: ArchiveCache, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    monkeypatch.setattr(interpreter, "check", lambda found: None)
    wanted = f"venv://{tmp_path}/env"
    first = environments.prepare(wanted, tmp_path, cache, told.append)
    uploaded = cache.uploaded
    assert uploaded > 1_000_000
    second = environments.prepare(wanted, tmp_path, cache, told.append)
    assert second.files == first.files
    assert cache.uploaded == uploaded
    assert told[-1] == "environment: unchanged and on the cluster already, 0 bytes uploaded"


def test_yarnps_travels_whole(tmp_path: Path) -> None:
    data = package.archive()
    assert package.archive() == data, "the same content makes the same bytes"
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        names = set(file.namelist())
        file.extractall(tmp_path)
    assert {"yarnps/__init__.py", "yarnps/am/__main__.py", "yarnps/client/main.py"} <= names
    assert not [n for n in names if "__pycache__" in n or "tests" in n]
    program = "import yarnps, yarnps.am, yarnps.client; print(yarnps.am.__path__[0])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{tmp_path}/yarnps/am"
