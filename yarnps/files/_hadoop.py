"""The part of Hadoop's client configuration that is needed to find its file system."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from yarnps._errors import InputError

DEFAULT_RPC_PORT = 8020
DEFAULT_HTTP_PORT = 9870
DEFAULT_HTTPS_PORT = 9871
_SUBSTITUTIONS = 20  # Hadoop's own limit for ${...} inside ${...}


@dataclass(frozen=True)
class HadoopConf:
    """Settings of core-site.xml and hdfs-site.xml."""

    values: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None

    def get(self, name: str, default: str = "") -> str:
        return self._expand(self.values.get(name, default))

    def names(self, name: str) -> list[str]:
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def _expand(self, text: str) -> str:
        for _ in range(_SUBSTITUTIONS):
            found = re.search(r"\$\{(env\.)?([^${}\s]+)\}", text)
            if found is None:
                break
            source: Mapping[str, str] = os.environ if found[1] else self.values
            value = source.get(found[2])
            if value is None:
                break
            text = text[: found.start()] + value + text[found.end() :]
        return text

    @property
    def default_fs(self) -> str | None:
        value = self.get("fs.defaultFS") or self.get("fs.default.name")
        return value.rstrip("/") or None

    def is_name_service(self, host: str) -> bool:
        """Whether `host` names a pair of name nodes rather than a machine."""
        return host in self.names("dfs.nameservices") and bool(
            self.names(f"dfs.ha.namenodes.{host}")
        )

    def rpc_addresses(self, host: str, port: int | None) -> list[tuple[str, int]]:
        """Where the name nodes behind `hdfs://host:port` listen."""
        if not self.is_name_service(host):
            return [(host, port or DEFAULT_RPC_PORT)]
        found = []
        for node in self.names(f"dfs.ha.namenodes.{host}"):
            text = self.get(f"dfs.namenode.rpc-address.{host}.{node}")
            if text:
                found.append(split_address(text, DEFAULT_RPC_PORT))
        return found

    def http_addresses(self, host: str) -> list[str]:
        """Base addresses of the name nodes' web services."""
        secure = self.get("dfs.http.policy", "HTTP_ONLY").upper() == "HTTPS_ONLY"
        key = "dfs.namenode.https-address" if secure else "dfs.namenode.http-address"
        default = DEFAULT_HTTPS_PORT if secure else DEFAULT_HTTP_PORT
        suffixes = [""]
        if self.is_name_service(host):
            suffixes = [f".{host}.{node}" for node in self.names(f"dfs.ha.namenodes.{host}")]
        found = []
        for suffix in suffixes:
            text = self.get(key + suffix)
            name, port = split_address(text, default) if text else (host, default)
            if name in ("", "0.0.0.0", "[::]"):
                name = host
            found.append(f"{'https' if secure else 'http'}://{name}:{port}")
        return found


def split_address(text: str, default_port: int) -> tuple[str, int]:
    """`host:port` (the port may be missing) in its parts."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdigit():
        return host, int(port)
    return text, default_port


def read_conf(folder: str | os.PathLike[str] | None = None) -> HadoopConf:
    """Read `folder`, by default HADOOP_CONF_DIR, or etc/hadoop under HADOOP_HOME.

    No folder at all gives an empty configuration.
    """
    if folder is None:
        folder = os.environ.get("HADOOP_CONF_DIR") or None
    if folder is None and os.environ.get("HADOOP_HOME"):
        folder = Path(os.environ["HADOOP_HOME"]) / "etc" / "hadoop"
    if folder is None:
        return HadoopConf()
    values: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        path = Path(folder) / name
        if path.is_file():
            values.update(_read_xml(path))
    return HadoopConf(values, str(folder))


def _read_xml(path: Path) -> dict[str, str]:
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except (ElementTree.ParseError, OSError) as error:
        raise InputError(
            f"cannot read Hadoop's configuration: {path}: {error}",
            "Mend the file, or point HADOOP_CONF_DIR at another folder.",
        ) from error
    values = {}
    for entry in root.iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        if name:
            values[name.strip()] = (value or "").strip()
    return values


def default_fs() -> str | None:
    """The default file system of HADOOP_CONF_DIR, such as `hdfs://host:8020`; None without one."""
    return read_conf().default_fs
