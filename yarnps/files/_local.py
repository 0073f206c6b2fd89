"""Files of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO, Literal

from yarnps._errors import DataError

from ._base import FileInfo, Files, Infos, exists_already, not_there


class LocalFiles(Files):
    """`file:` addresses and bare paths."""

    scheme = "file"

    def __init__(self) -> None:
        self.notes: list[str] = []

    def address(self, path: str) -> str:
        return "file://" + os.path.abspath(path)

    def info(self, path: str) -> FileInfo:
        with _named(path):
            return _info(path, os.stat(path))

    def list(self, path: str) -> Infos:
        with _named(path), os.scandir(path) as entries:
            found = []
            for entry in entries:
                try:
                    found.append(_info(entry.path, entry.stat()))
                except FileNotFoundError:  # a link to nowhere: named, so that nobody misses it
                    found.append(FileInfo(entry.path, 0, -1, False))
            return sorted(found)

    def open(self, path: str, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
        with _named(path):
            if mode == "wb":
                _make_parent(path)
            return open(path, mode)

    def write_new(self, path: str, data: bytes, *, mode: int | None = None) -> bool:
        # Written beside and linked: whoever sees the name sees the whole content.
        with _named(path):
            beside = self._write_beside(path, data, mode)
            try:
                os.link(beside, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(beside)
            return True

    def _replace(self, path: str, data: bytes, mode: int | None) -> None:
        with _named(path):
            os.replace(self._write_beside(path, data, mode), path)

    def _write_beside(self, path: str, data: bytes, mode: int | None) -> str:
        _make_parent(path)
        folder, name = os.path.split(path)
        beside = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0)
        with open(number, "wb") as file:
            if mode is not None:
                os.fchmod(number, mode)
            file.write(data)
        return beside

    def rename(self, source: str, target: str) -> None:
        with _named(source):
            if os.path.lexists(target):
                raise exists_already(self.address(target))
            _make_parent(target)
            os.rename(source, target)

    def mkdirs(self, path: str, *, mode: int | None = None) -> None:
        with _named(path):
            os.makedirs(path, exist_ok=True)
            if mode is not None:
                os.chmod(path, mode)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        with _named(path):
            if not os.path.lexists(path):
                return False
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path) if recursive else os.rmdir(path)
            else:
                os.unlink(path)
            return True

    def home(self) -> str:
        return os.path.expanduser("~")


def _make_parent(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)


def _info(path: str, stat: os.stat_result) -> FileInfo:
    return FileInfo(path, stat.st_size, stat.st_mtime_ns // 1_000_000, S_ISDIR(stat.st_mode))


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors of the operating system in our words."""
    address = "file://" + os.path.abspath(path)
    try:
        yield
    except FileNotFoundError as error:
        raise not_there(address, error) from error
    except PermissionError as error:
        raise DataError(
            f"no permission: {address}", "Give this user the right to it, or use another path."
        ) from error
    except OSError as error:
        raise DataError(f"{error.strerror or error}: {address}", "Check the path.") from error
