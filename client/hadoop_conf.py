"""What the client needs from the cluster's configuration files."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from yarnps._errors import ClusterError

FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
VARIABLE = re.compile(r"\$\{([^}]+)\}")
DEFAULTS = {
    "yarn.scheduler.maximum-allocation-mb": "8192",
    "yarn.scheduler.maximum-allocation-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    "yarn.resourcemanager.hostname": "0.0.0.0",
}


@dataclass(frozen=True)
class HadoopConf:
    """The properties of HADOOP_CONF_DIR's site files."""

    folder: Path
    values: dict[str, str] = field(repr=False)

    def get(self, name: str, default: str = "") -> str:
        """A property, with ``${other}`` in it resolved."""
        value = self.values.get(name, DEFAULTS.get(name, default))
        for _ in range(20):  # deeper nesting than Hadoop itself follows is a cycle
            resolved = VARIABLE.sub(self._resolve, value)
            if resolved == value:
                break
            value = resolved
        return value

    def _resolve(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if name.startswith("env."):
            return os.environ.get(name[4:], "")
        return self.values.get(name, DEFAULTS.get(name, ""))

    @property
    def secure(self) -> bool:
        """Whether the cluster wants Kerberos."""
        return self.get("hadoop.security.authentication", "simple").lower() == "kerberos"

    def rm_web(self) -> list[str]:
        """Base addresses of the resource managers' web service."""
        https = self.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        scheme, key, port = (
            ("https", "yarn.resourcemanager.webapp.https.address", 8090)
            if https
            else ("http", "yarn.resourcemanager.webapp.address", 8088)
        )
        ids = [i.strip() for i in self.get("yarn.resourcemanager.ha.rm-ids").split(",") if i]
        addresses = []
        for suffix in [f".{i}" for i in ids] or [""]:
            host = self.get(f"yarn.resourcemanager.hostname{suffix}")
            address = self.get(f"{key}{suffix}") or (f"{host}:{port}" if host else "")
            if address:
                addresses.append(f"{scheme}://{address.replace('0.0.0.0', '127.0.0.1')}")
        return addresses


def load() -> HadoopConf:
    """Read HADOOP_CONF_DIR.

    Raises
    ------
    ClusterError
        There is none, or one of its files is not XML.
    """
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder:
        raise ClusterError("HADOOP_CONF_DIR is not set", "Set it to the cluster's configuration.")
    values: dict[str, str] = {}
    for name in FILES:
        values |= _read(Path(folder) / name)
    return HadoopConf(Path(folder), values)


def scheduler_property(name: str) -> str | None:
    """A property of the capacity scheduler, where its file is in HADOOP_CONF_DIR.

    The RM's own copy counts; on most clusters the clients get the same file. None: no such file.
    """
    path = load().folder / "capacity-scheduler.xml"
    if not path.is_file():
        return None
    return _read(path).get(name, "")


def _read(path: Path) -> dict[str, str]:
    """The properties of one file; none when there is no such file."""
    if not path.is_file():
        return {}
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise ClusterError(
            f"a configuration file cannot be read: {path}: {error}",
            "Get a sound copy from the cluster's administrator.",
        ) from error
    found = {}
    for prop in root.iter("property"):
        key, value = prop.findtext("name"), prop.findtext("value")
        if key is not None:
            found[key.strip()] = (value or "").strip()
    return found
