"""What programs that read HDFS by libhdfs, or by `hadoop fs`, find in their environment.

libhdfs starts a Java machine in its process: it wants every jar by name (no ``*``), its own library
and Java's. DMLC's launcher ran ``hadoop classpath`` for that in every container; here the nodes'
configuration is read, without a Java process.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

# YARN's own default of `yarn.application.classpath`.
DEFAULT = ",".join(
    (
        "$HADOOP_CONF_DIR",
        *(
            f"${home}/share/hadoop/{part}/{jars}"
            for home, part in (
                ("HADOOP_COMMON_HOME", "common"),
                ("HADOOP_HDFS_HOME", "hdfs"),
                ("HADOOP_YARN_HOME", "yarn"),
            )
            for jars in ("*", "lib/*")
        ),
    )
)
SETTING = "yarn.application.classpath"
OPTIONS = "-Xmx128m"
_HOMES = ("HADOOP_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME")
_JAVA_LIBRARIES = ("lib/server", "jre/lib/amd64/server", "jre/lib/server")
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}|\{\{(\w+)\}\}")


def hadoop_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables to set on top of a container's; none where the node tells of no Hadoop."""
    path = class_path(env)
    if not path:
        return {}
    libraries = [*_existing_libraries(env), env.get("LD_LIBRARY_PATH", "")]
    return {
        "CLASSPATH": os.pathsep.join(filter(None, [env.get("CLASSPATH", ""), *path])),
        "LIBHDFS_OPTS": env.get("LIBHDFS_OPTS") or env.get("DMLC_HDFS_OPTS") or OPTIONS,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
    }


def class_path(env: Mapping[str, str]) -> list[str]:
    """Folders and jars of this node's Hadoop, each by name."""
    found: list[str] = []
    for entry in _configured(env).split(","):
        expanded = _expand(entry.strip(), env)
        if expanded is None:
            continue
        if expanded.endswith("*"):
            found += sorted(map(str, Path(expanded[:-1]).glob("*.jar")))
        elif os.path.exists(expanded):
            found.append(expanded)
    return list(dict.fromkeys(found))


def _configured(env: Mapping[str, str]) -> str:
    """The class path of YARN's applications, as the node's configuration has it."""
    site = Path(env.get("HADOOP_CONF_DIR", "")) / "yarn-site.xml"
    if "HADOOP_CONF_DIR" not in env or not site.is_file():
        return DEFAULT
    for setting in ET.parse(site).getroot().iter("property"):
        if setting.findtext("name", "").strip() == SETTING:
            return setting.findtext("value", "")
    return DEFAULT


def _expand(entry: str, env: Mapping[str, str]) -> str | None:
    """An entry with its variables filled in; None where one of them is not set."""
    names = [next(filter(None, match)) for match in _VARIABLE.findall(entry)]
    if not entry or any(not env.get(name) for name in names):
        return None
    return _VARIABLE.sub(lambda match: env[next(filter(None, match.groups()))], entry)


def _existing_libraries(env: Mapping[str, str]) -> Iterator[str]:
    """Folders with libhdfs, and with Java's own library."""
    homes = [env[name] for name in _HOMES if env.get(name)]
    places = [f"{home}/{lib}" for home in dict.fromkeys(homes) for lib in ("lib/native", "lib")]
    if env.get("JAVA_HOME"):
        places += [f"{env['JAVA_HOME']}/{lib}" for lib in _JAVA_LIBRARIES]
    yield os.curdir
    yield from (place for place in places if os.path.isdir(place))
