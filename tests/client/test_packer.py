"""A packed Python runs elsewhere, without the machine that it came from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from yarnps._errors import InputError
from yarnps.client import environments, interpreter, packer

# What a program in the unpacked environment says about itself.
PROGRAM = """
import json, sys
import ctypes, sqlite3, ssl  # extension modules of the standard library
import edited, mapped, plain
print(json.dumps({"prefix": sys.prefix, "path": sys.path, "values": [
    plain.VALUE, edited.VALUE, mapped.VALUE]}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with one ordinary package and two editable ones."""
    base = tmp_path_factory.mktemp("made")
    folder = base / "env"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "plain").mkdir()
    (site / "plain" / "__init__.py").write_text("VALUE = 1\n")
    for name, value in (("edited", 2), ("mapped", 3)):
        source = base / f"src-{name}" / name
        source.mkdir(parents=True)
        (source / "__init__.py").write_text(f"VALUE = {value}\n")
    (site / "edited.pth").write_text(f"{base}/src-edited\n")
    (base / "src-edited" / "notes.txt").write_text("not a module")
    (site / "__editable___mapped_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'mapped': '{base}/src-mapped/mapped'}}\n"
    )
    (site / "yarnps").mkdir()
    (site / "yarnps" / "__init__.py").write_text("raise ImportError('of another version')\n")
    return folder


@pytest.fixture(scope="module")
def asked(environment: Path) -> interpreter.Interpreter:
    return interpreter.ask(str(environment / "bin" / "python"))


@pytest.fixture(scope="module")
def unpacked(asked: interpreter.Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    packer.write(packer.entries(asked), folder / "env.tar.gz")
    target = folder / "yarnps_env"
    with tarfile.open(folder / "env.tar.gz") as tar:
        tar.extractall(target)
    return target


def test_it_describes_itself(asked: interpreter.Interpreter, environment: Path) -> None:
    assert asked.version == sys.version_info[:3]
    assert asked.prefix == environment
    assert not asked.executable.is_symlink()
    assert asked.executable.is_relative_to(asked.base_prefix)
    assert "numpy" in asked.missing
    assert not asked.conda


def assert_runs(unpacked: Path) -> None:
    """With all that belongs to it, and with nothing of this machine's."""
    program = f". {unpacked}/{packer.ACTIVATE}; python -c '{PROGRAM}'"
    done = subprocess.run(
        ["bash", "-c", program],
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["values"] == [1, 2, 3]
    assert told["prefix"] == str(unpacked)
    outside = [p for p in told["path"] if p and not p.startswith(str(unpacked))]
    assert outside == []


def test_it_runs_where_it_is_unpacked(unpacked: Path) -> None:
    assert_runs(unpacked)


def test_a_conda_environment_is_packed_whole(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One as conda makes it: a folder with an interpreter of its own, and ``conda-meta``."""
    made = tmp_path / "conda" / "envs" / "training"
    shutil.copytree(unpacked, made, symlinks=True)
    (made / "conda-meta").mkdir()
    (made / "conda-meta" / "history").write_text("==> made <==\n")
    (made / "etc").mkdir()
    (made / "etc" / "settings").write_text("of a package\n")
    (made / "pkgs").mkdir()
    (made / "pkgs" / "downloaded").write_text("kept by conda\n")
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda" / "bin" / "conda"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made / "lib"))  # conda's programs know it themselves
    assert environments.conda_prefix("training") == made
    python = interpreter.ask(str(made / "bin" / "python"))
    assert python.conda
    packer.write(packer.entries(python), tmp_path / "env.tar.gz")
    target = tmp_path / "node"
    with tarfile.open(tmp_path / "env.tar.gz") as tar:
        tar.extractall(target)
    shutil.rmtree(made)
    assert_runs(target)
    assert (target / "etc" / "settings").read_text() == "of a package\n"
    assert not (target / "pkgs").exists()


def test_nothing_in_it_points_back(unpacked: Path) -> None:
    for path in unpacked.rglob("*"):
        if path.is_symlink():
            assert not os.readlink(path).startswith("/"), path
    assert not list(unpacked.rglob("__editable__*"))
    assert not list(unpacked.rglob("site-packages/yarnps"))
    assert not list(unpacked.rglob("notes.txt"))


def test_the_same_environment_makes_the_same_bytes(
    asked: interpreter.Interpreter, tmp_path: Path
) -> None:
    files = [e for e in packer.entries(asked) if "site-packages" in e.name or e.text]
    packer.write(files, tmp_path / "a")
    packer.write(files, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_fingerprint_sees_changes_but_not_byte_code(
    asked: interpreter.Interpreter, environment: Path
) -> None:
    before = packer.fingerprint(packer.entries(asked))
    (package,) = environment.glob("lib/python*/site-packages/plain")
    cache = package / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "__init__.cpython-39.pyc").write_bytes(b"x")
    assert packer.fingerprint(packer.entries(asked)) == before
    (package / "more.py").write_text("")
    assert packer.fingerprint(packer.entries(asked)) != before
    (package / "more.py").unlink()


def test_links_that_lead_in_circles(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tmp_path / "a" / "b" / "up").symlink_to("../..")
    (tmp_path / "a" / "link").symlink_to("b/file")
    names = {e.name: e.link for e in packer._tree(tmp_path / "a", "t")}
    assert names == {"t/b/file": "", "t/link": "b/file"}


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/bin/true"])
def test_no_python_at_all(python: str) -> None:
    with pytest.raises(InputError, match="Python"):
        interpreter.ask(python)


def test_what_is_missing_is_named_with_the_command(asked: interpreter.Interpreter) -> None:
    with pytest.raises(InputError) as caught:
        interpreter.check(asked)
    assert "numpy" in caught.value.what
    assert f"{asked.python} -m pip install yarnps" in caught.value.remedy
    interpreter.check(interpreter.ask(sys.executable))
