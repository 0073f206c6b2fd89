"""File systems: HDFS without a JVM, files of this machine, and whatever fsspec knows.

Examples
--------
>>> from yarnps.files import open_files
>>> files, path = open_files("hdfs:///data/train")        # doctest: +SKIP
>>> [info.path for info in files.list(path)]              # doctest: +SKIP
"""

from __future__ import annotations

import re

from ._base import BlockHosts, FileInfo, Files, best_hosts
from ._hadoop import HadoopConf, default_fs, read_conf

__all__ = [
    "BlockHosts",
    "FileInfo",
    "Files",
    "HadoopConf",
    "best_hosts",
    "default_fs",
    "home_address",
    "open_files",
    "read_conf",
]

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]+):")  # two letters at least: not a drive


def open_files(address: str) -> tuple[Files, str]:
    """The file system that `address` belongs to, and the path inside it.

    Parameters
    ----------
    address
        `hdfs://host:port/path`, `hdfs:///path`, `file:///path` or any address that fsspec knows.
        Without a scheme it is a path on the default file system of HADOOP_CONF_DIR, or on this
        machine when there is none. Nothing is connected before the first call.

    Raises
    ------
    InputError
        When the scheme is unknown or the address incomplete.
    """
    found = _SCHEME.match(address)
    scheme = found[1].lower() if found else ""
    if not scheme:
        base = default_fs()
        if base is None or base.startswith("file:"):
            return _local_files(address)
        relative = "" if address.startswith("/") else "/./"
        return open_files(base + relative + address)
    if scheme == "file":
        return _local_files(re.sub(r"^file:(//[^/]*)?", "", address, flags=re.IGNORECASE))
    if scheme in ("hdfs", "viewfs"):
        from ._hdfs import hdfs_files, shared

        conf = read_conf()
        files, path = hdfs_files(address, conf)
        return shared(files, conf), path.removeprefix("/./")
    from ._fsspec import fsspec_files

    return fsspec_files(address)


def home_address() -> str:
    """The user's folder on the default file system, or on this machine when there is none."""
    files, _ = open_files("/")
    return files.address(files.home())


def _local_files(path: str) -> tuple[Files, str]:
    from ._local import LocalFiles

    return LocalFiles(), path or "/"
