"""The distribution: three folders, one package, in the wheel and in the checkout."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"yarnps": "yarnps", "am": "yarnps.am", "client": "yarnps.client"}


def source_files() -> list[Path]:
    """Every file of the three folders that has to be in the wheel."""
    kinds = {".py", ".proto", ".pyi", ".html", ".css", ".js", ".svg", ".typed"}
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in kinds or path.name == "py.typed"
        if "__pycache__" not in path.parts and ".mypy_cache" not in path.parts
    ]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.splitlines()
    for name in tracked:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(copy)], check=True, timeout=300)
    (built,) = folder.glob("yarnps-*.whl")
    return built


def test_the_wheel_holds_every_file_under_its_import_name(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = set()
    for path in source_files():
        folder, *rest = path.relative_to(ROOT).parts
        expected.add("/".join([FOLDERS[folder].replace(".", "/"), *rest]))
    assert expected - names == set()
    assert "yarnps/am/web/index.html" in expected


def test_the_wheel_works_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import yarnps, yarnps.am.job, yarnps.client.main, yarnps.am.web.server;"
        "print(yarnps.am.job.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "site" / "yarnps" / "am" / "job.py")


def test_the_checkout_finds_the_mapped_packages_from_its_root() -> None:
    code = "import yarnps.am.job, yarnps.client.main; print(yarnps.am.job.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(ROOT / "am" / "job.py")


def imports_of(path: Path) -> set[str]:
    """The absolute names that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("yarnps", ("yarnps.am", "yarnps.client")),
        ("am", ("yarnps.client",)),
        ("client", ("yarnps.am",)),
    ],
)
def test_imports_go_one_way(folder: str, forbidden: tuple[str, ...]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in sorted(imports_of(path))
        if any(name == root or name.startswith(f"{root}.") for root in forbidden)
    ]
    assert wrong == []


def test_importing_yarnps_loads_nothing_heavy() -> None:
    code = (
        "import sys, yarnps;"
        "print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'numpy', 'numba', 'zmq', 'grpc', 'pydantic', 'skein', 'aiohttp'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
