"""Any other file system that fsspec knows: `s3:`, `gs:`, `memory:`, …"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, BinaryIO, Literal, TypeVar, cast

from yarnps._errors import ClusterError, DataError, InputError

from ._base import FileInfo, Files, Infos, exists_already, not_there
from ._limits import within

CALL_S = 120.0

T = TypeVar("T")


class FsspecFiles(Files):
    """A file system of fsspec's.

    Object stores have no exclusive creation and no atomic rename of folders: `write_new` checks
    first, and of two callers in the same moment both may win.
    """

    def __init__(self, scheme: str, inner: Any) -> None:
        self.scheme = scheme
        self.notes: list[str] = []
        self._inner = inner

    def _ask(self, path: str, call: Callable[[], T]) -> T:
        address = self.address(path)
        try:
            return within(CALL_S, call, what=address, remedy="Check that the service is up.")
        except FileNotFoundError as error:
            raise not_there(address, error) from error
        except FileExistsError as error:
            raise exists_already(address) from error
        except PermissionError as error:
            raise DataError(f"no permission: {address}", "Check the credentials.") from error
        except OSError as error:
            raise ClusterError(f"{error}: {address}", "Check that the service is up.") from error

    def address(self, path: str) -> str:
        return str(self._inner.unstrip_protocol(path))

    def info(self, path: str) -> FileInfo:
        return _info(self._ask(path, lambda: self._inner.info(path)))

    def list(self, path: str) -> Infos:
        found = self._ask(path, lambda: self._inner.ls(path, detail=True))
        return sorted(_info(item) for item in found if item["name"].rstrip("/") != path.rstrip("/"))

    def open(self, path: str, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
        return cast(BinaryIO, self._ask(path, lambda: self._inner.open(path, mode)))

    def write_new(self, path: str, data: bytes, *, mode: int | None = None) -> bool:
        if self.exists(path):
            return False
        self._replace(path, data, mode)
        return True

    def _replace(self, path: str, data: bytes, mode: int | None) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            self._ask(parent, lambda: self._inner.makedirs(parent, exist_ok=True))
        self._ask(path, lambda: self._inner.pipe_file(path, data))

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise exists_already(self.address(target))
        self._ask(source, lambda: self._inner.mv(source, target, recursive=True))

    def mkdirs(self, path: str, *, mode: int | None = None) -> None:
        self._ask(path, lambda: self._inner.makedirs(path, exist_ok=True))

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        if not self.exists(path):
            return False
        self._ask(path, lambda: self._inner.rm(path, recursive=recursive))
        return True

    def home(self) -> str:
        raise InputError(
            f"a {self.scheme}: file system has no home folder", "Write the whole path."
        )


def _info(item: dict[str, Any]) -> FileInfo:
    return FileInfo(
        item["name"], int(item.get("size") or 0), _modified_ms(item), item["type"] == "directory"
    )


def _modified_ms(item: dict[str, Any]) -> int:
    """File systems name it differently, and some do not tell."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        value = item.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, (int, float)):
            return int(value * 1000)
    return -1


def fsspec_files(address: str) -> tuple[FsspecFiles, str]:
    """The file system of `address`, and the path in it.

    Raises
    ------
    InputError
        When fsspec does not know the scheme, or its library is missing.
    """
    from fsspec.core import url_to_fs

    scheme = address.partition(":")[0]
    try:
        inner, path = url_to_fs(address)  # type: ignore[no-untyped-call]
    except (ValueError, ImportError) as error:
        raise InputError(
            f"cannot open addresses of this kind: {address}: {error}",
            "Install the library it names in the job's environment, or use hdfs: or file:.",
        ) from error
    return FsspecFiles(scheme, inner), str(path)
