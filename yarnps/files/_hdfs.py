"""HDFS, by the native client (no JVM)."""

from __future__ import annotations

import io
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO, Literal, TypeVar, cast
from urllib.parse import urlsplit

from yarnps._errors import ClusterError, DataError, InputError

from . import _tokens
from ._base import BLOCK_BYTES, Blocks, FileInfo, Files, Infos, exists_already, not_there
from ._hadoop import HadoopConf
from ._limits import within
from ._webhdfs import BlockLocations

CONNECT_S = 3.0  # one name node's port
CALL_S = 60.0  # one question to the name node; it also covers a switch to the other name node
BLOCK_S = 120.0  # one piece of data: the client goes through all replicas by itself
AHEAD = 4  # pieces read ahead of the reader

T = TypeVar("T")


class HdfsFiles(Files):
    """`hdfs:` addresses; `host` may be a name service."""

    def __init__(self, scheme: str, host: str, port: int | None, conf: HadoopConf) -> None:
        self.scheme = scheme
        self.notes: list[str] = []
        self._conf = conf
        self._name_service = scheme == "viewfs" or conf.is_name_service(host)
        self._host, self._port = host, port
        if not self._name_service and port is None:
            self._port = conf.rpc_addresses(host, None)[0][1]
        self._tokens = _tokens.container_tokens()
        self._root = f"{scheme}://{host}" + (f":{self._port}" if self._port else "")
        self._lock = threading.Lock()
        self._client: Any = None
        self._locations: BlockLocations | None = None

    # -- the connection

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._probe()
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> Any:
        from hdfs_native import Client

        host, port = _tokens.spell_as_token(self._host, self._port, self._tokens)
        url = f"{self.scheme}://{host}" + (f":{port}" if port else "")
        try:
            return within(
                CALL_S, lambda: Client(url, None, self._conf.folder), **self._unreachable()
            )
        except ClusterError:
            raise
        except Exception as error:
            raise self._cannot(error) from error

    def _probe(self) -> None:
        """Fail in seconds when no name node listens: the client itself would try for minutes."""
        if self.scheme == "viewfs":
            return
        reasons = []
        for host, port in self._conf.rpc_addresses(self._host, self._port):
            try:
                socket.create_connection((host, port), timeout=CONNECT_S).close()
                return
            except OSError as error:
                reasons.append(f"{host}:{port}: {error.strerror or error}")
        raise self._cannot(OSError("; ".join(reasons) or "no address of a name node is known"))

    def _cannot(self, error: BaseException) -> ClusterError:
        words = self._unreachable()
        return ClusterError(f"{words['what']}: {_one_line(error)}", words["remedy"])

    def _unreachable(self) -> dict[str, str]:
        folder = self._conf.folder or "not set"
        return {
            "what": f"HDFS cannot be reached: {self._root}",
            "remedy": "Check that the name node runs and that the address is the right one "
            f"(HADOOP_CONF_DIR is {folder}); on a cluster with Kerberos, run kinit.",
        }

    def _ask(self, path: str, call: Callable[[Any], T], seconds: float = 0) -> T:
        """Run one call of the client within a limit, its errors in our words."""
        client = self._connected()
        try:
            return within(seconds or CALL_S, lambda: call(client), **self._unreachable())
        except ClusterError:
            self._forget()
            raise
        except Exception as error:
            raise self._in_our_words(path, error) from error

    def _forget(self) -> None:
        """Probe again before the next call."""
        with self._lock:
            self._client = None

    def _in_our_words(self, path: str, error: Exception) -> ClusterError | DataError:
        address, text = self.address(path), _one_line(error)
        if isinstance(error, FileNotFoundError) or "FileNotFound" in text:
            return not_there(address, error)
        if isinstance(error, FileExistsError) or "AlreadyExists" in text:
            return exists_already(address)
        if isinstance(error, PermissionError) or "AccessControl" in text:
            return DataError(
                f"no permission: {address}: {text}",
                "Give this user the right to it, or use another path.",
            )
        if "SafeMode" in text:
            return ClusterError(
                f"HDFS is in safe mode and takes no writes: {address}",
                "Wait until it has left safe mode (hdfs dfsadmin -safemode get).",
            )
        self._forget()
        return self._cannot(error)

    # -- names

    def address(self, path: str) -> str:
        return self._root + _absolute(path, self.home)

    def home(self) -> str:
        prefix = self._conf.get("dfs.user.home.dir.prefix", "/user")
        return f"{prefix.rstrip('/')}/{self._user()}"

    def _user(self) -> str:
        for token in self._tokens:
            if token.kind == _tokens.HDFS_KIND and token.owner:
                return token.owner.split("@")[0].split("/")[0]
        return user_name()

    def _absolute(self, path: str) -> str:
        return _absolute(path, self.home)

    # -- what Files asks for

    def info(self, path: str) -> FileInfo:
        path = self._absolute(path)
        return _info(self._ask(path, lambda client: client.get_file_info(path)))

    def list(self, path: str) -> Infos:
        path = self._absolute(path)
        found = self._ask(path, lambda client: list(client.list_status(path, False)))
        return sorted(_info(status) for status in found)

    def open(self, path: str, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
        path = self._absolute(path)
        if mode == "rb":
            inner = self._ask(path, lambda client: client.read(path))
            reader = _Reader(self, path, inner)
            return cast(BinaryIO, io.BufferedReader(reader, buffer_size=BLOCK_BYTES))
        writer = _Writer(self, path, self._create(path, overwrite=True, mode=None))
        return cast(BinaryIO, io.BufferedWriter(writer, buffer_size=BLOCK_BYTES))

    def _create(self, path: str, *, overwrite: bool, mode: int | None) -> Any:
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=overwrite, create_parent=True, permission=mode)
        return self._ask(path, lambda client: client.create(path, options))

    def stream(self, path: str, start: int = 0) -> Generator[bytes, None, None]:
        path = self._absolute(path)
        inner = self._ask(path, lambda client: client.read(path))
        size = len(inner)
        if start < size:
            yield from _read_ahead(
                lambda: inner.read_range_stream(start, size - start),
                lambda error: self._in_our_words(path, error),
                self._unreachable(),
            )

    def write_new(self, path: str, data: bytes, *, mode: int | None = None) -> bool:
        path = self._absolute(path)
        try:
            inner = self._create(path, overwrite=False, mode=mode)
        except DataError as error:
            if isinstance(error.__cause__, FileExistsError):
                return False
            raise
        self._fill(path, inner, data)
        return True

    def _replace(self, path: str, data: bytes, mode: int | None) -> None:
        path = self._absolute(path)
        self._fill(path, self._create(path, overwrite=True, mode=mode), data)

    def _fill(self, path: str, inner: Any, data: bytes) -> None:
        with _Writer(self, path, inner) as writer:
            for start in range(0, len(data), BLOCK_BYTES):
                writer.write(data[start : start + BLOCK_BYTES])

    def rename(self, source: str, target: str) -> None:
        source, target = self._absolute(source), self._absolute(target)
        parent = target.rpartition("/")[0] or "/"
        self._ask(parent, lambda client: client.mkdirs(parent, 0o755, True))
        self.info(source)
        try:
            self._ask(target, lambda client: client.rename(source, target, False))
        except (DataError, ClusterError):
            if self.exists(target):
                raise exists_already(self.address(target)) from None
            raise

    def mkdirs(self, path: str, *, mode: int | None = None) -> None:
        path = self._absolute(path)
        self._ask(path, lambda client: client.mkdirs(path, 0o755, True))
        if mode is not None:
            self._ask(path, lambda client: client.set_permission(path, mode))

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        path = self._absolute(path)
        if not self.exists(path):
            return False
        return bool(self._ask(path, lambda client: client.delete(path, recursive)))

    def blocks(self, path: str, size: int) -> Blocks:
        with self._lock:
            if self._locations is None:
                self._locations = BlockLocations(self._conf, self._host, self._user(), self.notes)
        return self._locations.blocks(self._absolute(path), size)


class _Reader(io.RawIOBase):
    """The client's reader within limits."""

    def __init__(self, files: HdfsFiles, path: str, inner: Any) -> None:
        self._files, self._path, self._inner = files, path, inner
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._inner)}
        self._at = base[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        length = min(len(view), len(self._inner) - self._at)
        if length <= 0:
            return 0
        data = self._files._ask(
            self._path, lambda _client: self._inner.read_range(self._at, length), BLOCK_S
        )
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Writer(io.RawIOBase):
    """The client's writer within limits. An error while writing leaves no half file behind."""

    def __init__(self, files: HdfsFiles, path: str, inner: Any) -> None:
        self._files, self._path, self._inner = files, path, inner

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = bytes(data)
        self._files._ask(self._path, lambda _client: self._inner.write(view), BLOCK_S)
        return len(view)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._files._ask(self._path, lambda _client: self._inner.close(), BLOCK_S)


def _read_ahead(
    start: Callable[[], Iterator[bytes]],
    in_our_words: Callable[[Exception], Exception],
    unreachable: dict[str, str],
) -> Iterator[bytes]:
    """Pieces of about BLOCK_BYTES, read by a thread while the caller works on earlier ones."""
    ready: queue.Queue[bytes | Exception | None] = queue.Queue(AHEAD)
    stopped = threading.Event()

    def put(item: bytes | Exception | None) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=1.0)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        try:
            for piece in _gathered(start()):
                if not put(piece):
                    return
        except Exception as error:  # noqa: BLE001 - raised in the reader's thread
            put(error)
        else:
            put(None)

    threading.Thread(target=run, name="yarnps-read-ahead", daemon=True).start()
    try:
        while True:
            try:
                item = ready.get(timeout=BLOCK_S)
            except queue.Empty:
                raise ClusterError(
                    f"no data within {BLOCK_S:g} s: {unreachable['what']}", unreachable["remedy"]
                ) from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise in_our_words(item) from item
            yield item
    finally:
        stopped.set()


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def user_name() -> str:
    """Who HDFS takes this process for, without Kerberos."""
    import getpass

    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _info(status: Any) -> FileInfo:
    return FileInfo(status.path, status.length, status.modification_time, status.isdir)


def _absolute(path: str, home: Callable[[], str]) -> str:
    if path.startswith("/"):
        return path.rstrip("/") or "/"
    return f"{home()}/{path}".rstrip("/")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def hdfs_files(address: str, conf: HadoopConf) -> tuple[HdfsFiles, str]:
    """The file system of an `hdfs:` address, and the path in it.

    Raises
    ------
    InputError
        When the address names no host and the configuration none either.
    """
    parts = urlsplit(address.replace("?", "%3F").replace("#", "%23"))
    path = parts.path.replace("%3F", "?").replace("%23", "#")
    host, port = parts.hostname, parts.port
    if not host:
        default = urlsplit(conf.default_fs or "")
        if default.scheme != parts.scheme or not default.hostname:
            raise InputError(
                f"the address names no name node: {address}",
                "Write hdfs://host:port/path, or point HADOOP_CONF_DIR at the cluster's "
                "configuration.",
            )
        host, port = default.hostname, default.port
    return HdfsFiles(parts.scheme, host, port, conf), path or "/"


# An address may be opened often (each split does): clients are shared.
_opened: dict[tuple[object, ...], tuple[float, HdfsFiles]] = {}
_opened_lock = threading.Lock()
_SHARED_S = 3600.0  # then the token file is read anew


def shared(files: HdfsFiles, conf: HadoopConf) -> HdfsFiles:
    """The instance for the same file system that is open already."""
    key = (
        files._root,
        conf.folder,
        os.environ.get("HADOOP_TOKEN_FILE_LOCATION"),
        os.environ.get("HADOOP_USER_NAME"),
    )
    now = time.monotonic()
    with _opened_lock:
        born, known = _opened.get(key, (0.0, files))
        if known is files or now - born > _SHARED_S:
            _opened[key] = (now, files)
            return files
        return known
