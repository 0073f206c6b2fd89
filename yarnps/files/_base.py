"""What every file system here can do."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from fnmatch import translate
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from yarnps._errors import DataError

BLOCK_BYTES = (
    1 << 20
)  # one request: large enough for a disk or a data node, small enough for caches
# What is handed on at once of a local file: what is made of it has its place in a core's cache, and
# memory for it is taken from what the last piece has given back.
PIECE_BYTES = 256 << 10


class FileInfo(NamedTuple):
    """One file or folder. `path` is inside its file system; `modified_ms` is -1 if unknown."""

    path: str
    size: int
    modified_ms: int
    is_dir: bool


class BlockHosts(NamedTuple):
    """Which hosts hold the bytes [start, start + length) of a file."""

    start: int
    length: int
    hosts: tuple[str, ...]


# Named here because inside the class `list` is the method.
Infos: TypeAlias = list[FileInfo]
Blocks: TypeAlias = list[BlockHosts]
Notes: TypeAlias = list[str]
Hosts: TypeAlias = list[str]


class Files(ABC):
    """A file system; get one with `open_files`.

    Paths are those inside the file system (without scheme and host). A file that does not exist
    raises `DataError`, a file system that cannot be reached `ClusterError`; no call waits without
    a limit.
    """

    scheme: str
    #: Sentences about what this file system could not do, such as telling the hosts of a file.
    notes: Notes

    @abstractmethod
    def address(self, path: str) -> str:
        """The full address of `path`, good on every node."""

    @abstractmethod
    def info(self, path: str) -> FileInfo:
        """Size and time of a file or folder."""

    @abstractmethod
    def list(self, path: str) -> Infos:
        """What a folder holds, by name."""

    @abstractmethod
    def open(self, path: str, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
        """A file to read, or one to write (an existing one is replaced)."""

    @abstractmethod
    def write_new(self, path: str, data: bytes, *, mode: int | None = None) -> bool:
        """Create `path` with `data`; False when it exists already. Of two callers one wins."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder; an existing target is an error."""

    @abstractmethod
    def mkdirs(self, path: str, *, mode: int | None = None) -> None:
        """Make a folder and those above it. `mode` is for the folder itself."""

    @abstractmethod
    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or folder; False when there is none."""

    @abstractmethod
    def home(self) -> str:
        """The user's folder."""

    def exists(self, path: str) -> bool:
        try:
            self.info(path)
        except DataError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise
        return True

    def stream(self, path: str, start: int = 0) -> Generator[bytes, None, None]:
        """The file's bytes from `start` on, in pieces. Close the iterator to stop early."""
        with self.open(path, "rb") as file:
            file.seek(start)
            while piece := file.read(PIECE_BYTES):
                yield piece

    def read_bytes(self, path: str) -> bytes:
        with self.open(path, "rb") as file:
            return file.read()

    def write_bytes(
        self, path: str, data: bytes, *, overwrite: bool = True, mode: int | None = None
    ) -> None:
        """Write a whole file; folders above it are made.

        Raises
        ------
        DataError
            When the file exists and `overwrite` is False.
        """
        if not overwrite:
            if not self.write_new(path, data, mode=mode):
                raise exists_already(self.address(path))
            return
        self._replace(path, data, mode)

    @abstractmethod
    def _replace(self, path: str, data: bytes, mode: int | None) -> None: ...

    def blocks(self, path: str, size: int) -> Blocks:
        """Where the file's bytes are; empty when the file system does not tell."""
        return []

    def block_hosts(self, path: str, start: int, length: int) -> Hosts:
        """Hosts that hold most of [start, start + length), best first."""
        return best_hosts(self.blocks(path, start + length), start, length)

    def glob(self, pattern: str) -> Infos:
        """Files and folders that match, sorted: `*`, `?`, `[…]`, `{a,b}` and `**` for any depth.

        Names that start with a dot are matched like all others.
        """
        found: dict[str, FileInfo] = {}
        for plain in expand_braces(pattern):
            for info in self._glob_one(plain):
                found[info.path] = info
        return [found[path] for path in sorted(found)]

    def _glob_one(self, pattern: str) -> Infos:
        parts = [part for part in pattern.split("/") if part]
        root = "/" if pattern.startswith("/") else ""
        fixed = 0
        while fixed < len(parts) and not has_magic(parts[fixed]):
            fixed += 1
        base = root + "/".join(parts[:fixed])
        if not self.exists(base or "/"):
            return []
        level = [self.info(base or "/")]
        for part in parts[fixed:]:
            level = self._step(level, part)
        return level

    def _step(self, level: Infos, part: str) -> Infos:
        folders = [info.path for info in level if info.is_dir]
        if part == "**":
            return level + [below for folder in folders for below in self.walk(folder)]
        name = re.compile(translate(part))
        return [
            info
            for folder in folders
            for info in self.list(folder)
            if name.match(info.path.rstrip("/").rpartition("/")[2])
        ]

    def walk(self, folder: str) -> Iterator[FileInfo]:
        """Everything below `folder`."""
        for info in self.list(folder):
            yield info
            if info.is_dir:
                yield from self.walk(info.path)


def has_magic(text: str) -> bool:
    return any(sign in text for sign in "*?[{")


def expand_braces(pattern: str) -> list[str]:
    """`a{b,c}d` → `abd`, `acd`; also nested."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        whole
        for choice in found[1].split(",")
        for whole in expand_braces(pattern[: found.start()] + choice + pattern[found.end() :])
    ]


def best_hosts(blocks: Blocks, start: int, length: int) -> list[str]:
    """The hosts of a byte range, those with most bytes of it first."""
    held: dict[str, int] = {}
    for block in blocks:
        shared = min(start + length, block.start + block.length) - max(start, block.start)
        if shared > 0:
            for host in block.hosts:
                held[host] = held.get(host, 0) + shared
    return sorted(held, key=lambda host: (-held[host], host))


def not_there(address: str, cause: BaseException | None = None) -> DataError:
    error = DataError(f"there is no such file: {address}", "Check the path and the file system.")
    error.__cause__ = cause if isinstance(cause, FileNotFoundError) else FileNotFoundError(address)
    return error


def exists_already(address: str) -> DataError:
    error = DataError(f"it exists already: {address}", "Choose another path, or remove it first.")
    error.__cause__ = FileExistsError(address)
    return error
