"""Packing a Python so that it runs on machines that have none, wherever it is unpacked.

A Python finds its standard library beside its own binary: ``bin/python3.11`` looks for
``../lib/python3.11/os.py``. So an archive with the real binary, the whole standard library and all
packages in that layout works in any folder; nothing in it points back to where it came from.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from yarnps.client.interpreter import Interpreter

ACTIVATE = "bin/yarnps-activate"
# Of the standard library: what no job needs.
NOT_PACKED = {"test", "idlelib", "turtledemo", "lib2to3", "ensurepip", "site-packages",
              "dist-packages"}  # fmt: skip
CONDA_NOT_PACKED = {"pkgs", "envs", "conda-bld"}
PYC = "__pycache__"
# yarnps itself travels apart, so that a job runs what submitted it.
OURS = "yarnps"
EDITABLE = "__editable__"
# Fast: an environment is packed once, and unpacked on every node.
GZIP_LEVEL = 1

ACTIVATE_TEXT = """\
# Source this: it activates the environment wherever it has been unpacked.
YARNPS_ENV="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PATH="$YARNPS_ENV/bin:$PATH" PYTHONNOUSERSITE=1
unset PYTHONHOME
"""
LIBRARIES_TEXT = 'export LD_LIBRARY_PATH="$YARNPS_ENV/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n'


class Entry(NamedTuple):
    """One file of the archive; `link` is the target of a symbolic link."""

    name: str
    source: Path | None = None
    link: str = ""
    text: str = ""


def entries(python: Interpreter) -> list[Entry]:
    """Everything that goes into the archive, sorted by name."""
    found = _conda(python) if python.conda else _plain(python)
    unique: dict[str, Entry] = {}
    for entry in found:
        unique.setdefault(entry.name, entry)  # the first on sys.path wins, as when importing
    return [unique[name] for name in sorted(unique)]


def fingerprint(files: list[Entry]) -> str:
    """Changes when a file does; byte code, which Python writes as it likes, does not count."""
    digest = hashlib.sha256()
    for entry in files:
        if PYC in entry.name:
            continue
        if entry.source is None:
            digest.update(f"{entry.name}|{entry.link}|{entry.text}\n".encode())
        else:
            stat = entry.source.stat()
            line = f"{entry.name}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_mode & 0o111}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def write(files: list[Entry], target: Path) -> None:
    """Write the archive (tar.gz); the same files make the same bytes."""
    with (
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=GZIP_LEVEL, mtime=0) as z,
        tarfile.open(fileobj=z, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in files:
            _add(tar, entry)


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    if entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
    elif entry.source is None:
        data = entry.text.encode()
        info.size, info.mode = len(data), 0o644
        tar.addfile(info, io.BytesIO(data))
    else:
        with open(entry.source, "rb") as file:
            stat = os.fstat(file.fileno())
            info.size, info.mtime = stat.st_size, int(stat.st_mtime)  # byte code is valid by it
            info.mode = 0o755 if stat.st_mode & 0o100 else 0o644
            tar.addfile(info, file)


# ---------------------------------------------------------------- what to pack


def _plain(python: Interpreter) -> Iterator[Entry]:
    lib = f"lib/{python.short}"
    yield Entry(f"bin/{python.short}", python.executable)
    yield Entry("bin/python", link=python.short)
    yield Entry("bin/python3", link=python.short)
    activate = ACTIVATE_TEXT
    if python.libpython is not None and python.libpython.exists():
        yield Entry(f"lib/{python.libpython.name}", python.libpython)
        activate += LIBRARIES_TEXT
    yield Entry(ACTIVATE, text=activate)
    # Debian's Python looks for packages under another name.
    yield Entry(f"{lib}/dist-packages", link="site-packages")
    for folder in python.stdlib:
        yield from _tree(folder, lib, skip=NOT_PACKED, skip_prefix="config-")
    for folder in python.site:
        yield from _site(folder, f"{lib}/site-packages")
    share = python.prefix / "share"
    if python.prefix != python.base_prefix and share.is_dir():
        yield from _tree(share, "share")


def _conda(python: Interpreter) -> Iterator[Entry]:
    yield Entry(ACTIVATE, text=ACTIVATE_TEXT + LIBRARIES_TEXT)
    site = f"lib/{python.short}/site-packages"
    for entry in _tree(python.prefix, "", skip=CONDA_NOT_PACKED):
        inside = entry.name.removeprefix(f"{site}/")
        if not (inside != entry.name and _points_elsewhere(inside.split("/")[0])):
            yield entry
    for folder in python.site:
        if not folder.is_relative_to(python.prefix):
            yield from _site(folder, site)
    yield from _mapped(python.prefix / site, site)


def _site(folder: Path, target: str) -> Iterator[Entry]:
    """The packages in a folder on `sys.path`."""
    if folder.name not in ("site-packages", "dist-packages"):
        yield from _sources(folder, target)
        return
    for child in _sorted(folder):
        if _points_elsewhere(child.name) or child.name == PYC:
            continue
        if child.is_dir():
            yield from _tree(Path(child.path), f"{target}/{child.name}")
        elif not (child.name.endswith(".pth") and _only_paths(Path(child.path))):
            yield Entry(f"{target}/{child.name}", Path(child.path))
    yield from _mapped(folder, target)


def _sources(folder: Path, target: str) -> Iterator[Entry]:
    """Packages and modules of a source tree that is installed as editable."""
    for child in _sorted(folder):
        if child.name == OURS:
            continue
        if child.is_dir() and Path(child.path, "__init__.py").exists():
            yield from _tree(Path(child.path), f"{target}/{child.name}")
        elif child.name.endswith(".py"):
            yield Entry(f"{target}/{child.name}", Path(child.path))


def _mapped(folder: Path, target: str) -> Iterator[Entry]:
    """Packages that setuptools' finders of editable installs point to."""
    for finder in sorted(folder.glob(f"{EDITABLE}*_finder.py")):
        for name, place in _mapping(finder).items():
            path, inside = Path(place), f"{target}/{name.replace('.', '/')}"
            if name.split(".")[0] == OURS:
                continue
            if path.is_dir():
                yield from _tree(path, inside)
            elif path.with_suffix(".py").is_file():
                yield Entry(f"{inside}.py", path.with_suffix(".py"))


def _mapping(finder: Path) -> dict[str, str]:
    for node in ast.parse(finder.read_text()).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "MAPPING":
            assert node.value is not None
            return dict(ast.literal_eval(node.value))
    return {}


def _points_elsewhere(name: str) -> bool:
    """Whether a child of site-packages is ours, or only says where an editable install is."""
    return name == OURS or name.startswith(EDITABLE)


def _only_paths(pth: Path) -> bool:
    """Whether a .pth file only names folders of this machine (their content is packed)."""
    lines = [x.strip() for x in pth.read_text(errors="replace").splitlines()]
    lines = [x for x in lines if x and not x.startswith("#")]
    return all(os.path.isabs(line) for line in lines)


def _tree(
    folder: Path, target: str, *, skip: set[str] | None = None, skip_prefix: str | None = None
) -> Iterator[Entry]:
    """All files below a folder. Links inside it stay links, others become what they point to."""
    root = folder.resolve()
    for child in _sorted(folder):
        if child.name in (skip or ()) or (skip_prefix and child.name.startswith(skip_prefix)):
            continue
        yield from _node(Path(child.path), f"{target}/{child.name}".lstrip("/"), root)


def _node(path: Path, name: str, root: Path) -> Iterator[Entry]:
    if path.is_symlink():
        real = path.resolve()
        if real.is_relative_to(root) and real.exists():
            yield Entry(name, link=os.path.relpath(real, path.parent.resolve()))
            return
    if path.is_dir():
        if path.is_symlink() and root.is_relative_to(path.resolve()):
            return  # a link to a folder above: following it would never end
        for child in _sorted(path):
            yield from _node(Path(child.path), f"{name}/{child.name}", root)
    elif path.is_file() and os.access(path, os.R_OK):
        yield Entry(name, path)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as children:
        return sorted(children, key=lambda child: child.name)
