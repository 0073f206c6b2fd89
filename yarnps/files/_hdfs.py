"""HDFS, by the native client (no JVM)."""

from __future__ import annotations

import io
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, BinaryIO, Literal, TypeVar, cast
from urllib.parse import urlsplit

from yarnps._errors import ClusterError, DataError, InputError, YarnpsError

from . import _hdfs_io, _tokens
from ._base import BLOCK_BYTES, Blocks, FileInfo, Files, Infos, exists_already, not_there
from ._hadoop import HadoopConf
from ._hdfs_io import Reader, Writer, read_ahead
from ._limits import within
from ._webhdfs import BlockLocations

CONNECT_S = 3.0  # one name node's port
# The name node gives no next block before it has heard of the last one. hdfs-native takes that for
# a failure; Hadoop's own client asks again after these times, and we write the file again.
NOT_REPLICATED = "NotReplicatedYetException"
REPLICATION_WAITS_S = (0.4, 0.8, 1.6, 3.2, 6.4)
CALL_S = 60.0  # one question to the name node; it also covers a switch to the other name node

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

    def _no_data(self, path: str) -> dict[str, str]:
        return {
            "what": f"the data nodes do not serve the file: {self.address(path)}",
            "remedy": "Check that they run and can be reached from here (hdfs fsck PATH -files "
            "-blocks -locations tells which they are).",
        }

    def _ask(self, path: str, call: Callable[[Any], T]) -> T:
        """Run one call to the name node within a limit, its errors in our words."""
        return self._limited(path, call, CALL_S, self._unreachable())

    def _transfer(self, path: str, call: Callable[[], T]) -> T:
        """The same for a piece of data."""
        return self._limited(path, lambda _client: call(), _hdfs_io.BLOCK_S, self._no_data(path))

    def _limited(
        self, path: str, call: Callable[[Any], T], seconds: float, words: dict[str, str]
    ) -> T:
        client = self._connected()
        try:
            return within(seconds, lambda: call(client), **words)
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
            reader = Reader(self._transfer, self.stream, path, inner)
            return cast(BinaryIO, io.BufferedReader(reader, buffer_size=BLOCK_BYTES))
        writer = Writer(self._transfer, path, self._create(path, overwrite=True, mode=None))
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
            yield from read_ahead(
                lambda: inner.read_range_stream(start, size - start),
                lambda error: self._in_our_words(path, error),
                self._no_data(path),
            )

    def read_bytes(self, path: str) -> bytes:
        return b"".join(self.stream(path))

    def write_new(self, path: str, data: bytes, *, mode: int | None = None) -> bool:
        path = self._absolute(path)
        try:
            self._write(path, data, overwrite=False, mode=mode)
        except DataError as error:
            if isinstance(error.__cause__, FileExistsError):
                return False
            raise
        return True

    def _replace(self, path: str, data: bytes, mode: int | None) -> None:
        # Written beside and renamed: a reader sees the old content or the new one, never a part.
        path = self._absolute(path)
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/.{name}.{secrets.token_hex(6)}.tmp"
        self._write(beside, data, overwrite=True, mode=mode)
        try:
            self._ask(path, lambda client: client.rename(beside, path, True))
        except YarnpsError:
            self._drop(beside)
            raise

    def _write(self, path: str, data: bytes, *, overwrite: bool, mode: int | None) -> None:
        """Write a file from its beginning, again where slow data nodes have held up its end."""
        for wait_s in (*REPLICATION_WAITS_S, None):
            try:
                self._fill(path, self._create(path, overwrite=overwrite, mode=mode), data)
                return
            except YarnpsError as error:
                if wait_s is None or NOT_REPLICATED not in str(error.__cause__):
                    raise
            time.sleep(wait_s)

    def _fill(self, path: str, inner: Any, data: bytes) -> None:
        try:
            with Writer(self._transfer, path, inner) as writer:
                for start in range(0, len(data), BLOCK_BYTES):
                    writer.write(data[start : start + BLOCK_BYTES])
        except YarnpsError:
            self._drop(path)
            raise

    def _drop(self, path: str) -> None:
        """Remove what could not be finished, if the file system still answers."""
        with suppress(YarnpsError):
            self._ask(path, lambda client: client.delete(path, False))

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
