"""The skein specification of a job: what is really submitted."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ._checks import PACKAGE_FOLDER, RETRY_SUFFIX
from ._job import Job, Role
from ._units import MIB

DEFAULT_MASTER: Final = {"memory": "1 GiB", "vcores": 1}
DEFAULT_MAX_ATTEMPTS: Final = 2
# Without these, skein's own pages fail with 500 on Java 16 and later.
JAVA_OPTIONS: Final = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.util", "java.lang", "java.util.concurrent")
)

# skein looks to the RM every second while a request of its own is outstanding, otherwise every 5 s;
# and the AM's first requests come just after it has looked. So there is one from the start that
# nothing can fulfil, on a host that does not exist (an address that RFC 5737 keeps free; a name
# would be looked up). The AM takes it back with its own first request.
AWAKE: Final = "yarnps-awake"
_AWAKE_SERVICE: Final[Mapping[str, Any]] = {
    "instances": 1,
    "max_restarts": 0,
    "allow_failures": True,
    "nodes": ["192.0.2.1"],
    "relax_locality": False,
    "resources": {"memory": "64 MiB", "vcores": 1},
    "script": "exit 0",
}

Files = Mapping[str, "str | Mapping[str, Any]"]


@dataclass(frozen=True)
class RenderParts:
    """What the client knows and the job file does not: how programs get to the containers.

    Parameters
    ----------
    files : mapping of str to str or dict
        Files of every server and worker container, by their name there: a source address, or a
        skein file (``source``, ``type``, ``visibility``, ...). Holds the packed environment, and
        yarnps itself as an archive named ``yarnps_pkg`` where it is shipped.
    master_files : mapping
        The same for the AM's container; holds ``yarnps-job.json``.
    setup : tuple of str
        Lines of bash that run first in every container (activate an environment, ...).
    master_setup : tuple of str
        The same for the AM's container.
    python, master_python : str
        The interpreter, as bash reads it after the setup: a path, a name, or ``"$PYTHON"``.
    env, master_env : mapping
        Environment variables, such as those of YARN's Docker runtime. The job file's win.
    """

    files: Files = field(default_factory=dict)
    master_files: Files = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    master_setup: tuple[str, ...] = ()
    python: str = "python3"
    master_python: str = "python3"
    env: Mapping[str, str] = field(default_factory=dict)
    master_env: Mapping[str, str] = field(default_factory=dict)


def render(job: Job, parts: RenderParts | None = None) -> dict[str, Any]:
    """The skein specification to submit, as plain data.

    The roles' services have no instances, no restarts and may fail, because the AM asks for
    every container itself; other services keep their instances and restarts, and may fail as far
    as skein knows, because the AM judges that. There is no key pair in it: the
    client gives each application its own. Relative sources of files start at the job file's
    folder. A job without a `yarnps` block is given as it was written, but for that.

    Parameters
    ----------
    parts : RenderParts, optional
        Without: as `yarnps render` shows it on a machine that submits nothing.
    """
    parts = parts or RenderParts()
    spec: dict[str, Any] = copy.deepcopy(dict(job.skein))
    _resolve_sources(spec, job.folder)
    if job.block is None:
        return spec
    spec = _without_nulls(spec)
    spec["name"] = job.name
    spec["queue"] = job.queue
    spec.setdefault("max_attempts", DEFAULT_MAX_ATTEMPTS)
    spec["master"] = _master(spec.get("master") or {}, parts)
    services = spec["services"]
    for name in job.roles:
        service = _role_service(services[name], parts)
        services[name] = service
        if job.block.retry_memory is not None:
            retry = copy.deepcopy(service)
            retry["resources"]["memory"] = retry_mib(job.roles[name], job.block.retry_memory)
            services[name + RETRY_SUFFIX] = retry
    for name, service in services.items():
        if name not in job.roles and name.removesuffix(RETRY_SUFFIX) not in job.roles:
            # The AM judges its failures; skein would start the whole application again.
            services[name] = {**service, "allow_failures": True}
    services[AWAKE] = copy.deepcopy(dict(_AWAKE_SERVICE))
    return spec


def retry_mib(role: Role, factor: float) -> int:
    """MiB of the container that follows a death for lack of memory."""
    return int(role.memory // MIB * factor)


def _master(given: dict[str, Any], parts: RenderParts) -> dict[str, Any]:
    env = {**parts.master_env, **(given.get("env") or {})}
    env["JDK_JAVA_OPTIONS"] = " ".join(
        part for part in (JAVA_OPTIONS, env.get("JDK_JAVA_OPTIONS", "")) if part
    )
    env["YARNPS_CLUSTER"] = "yarn"
    return {
        **given,
        "resources": given.get("resources") or dict(DEFAULT_MASTER),
        "env": env,
        "files": {**(given.get("files") or {}), **_plain(parts.master_files)},
        "script": _script(parts.master_setup, parts.master_python, "yarnps.am.supervisor"),
    }


def _role_service(given: dict[str, Any], parts: RenderParts) -> dict[str, Any]:
    service = {key: value for key, value in given.items() if key != "depends"}
    return {
        **service,
        "instances": 0,
        "max_restarts": 0,
        "allow_failures": True,
        "env": {**parts.env, **(given.get("env") or {})},
        "files": {**(given.get("files") or {}), **_plain(parts.files)},
        "script": _script(parts.setup, parts.python, "yarnps.agent"),
    }


def _script(setup: tuple[str, ...], python: str, module: str) -> str:
    """`exec`, so that the signals that end a container reach Python and not bash."""
    path = f'export PYTHONPATH="$PWD/{PACKAGE_FOLDER}:$PWD${{PYTHONPATH:+:$PYTHONPATH}}"'
    return "\n".join([*setup, path, f"exec {python} -m {module}", ""])


def _without_nulls(data: Any) -> Any:
    """A key without a value means its default, for skein's keys as for ours."""
    if isinstance(data, dict):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    return data


def _plain(files: Files) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else dict(value) for name, value in files.items()}


def _resolve_sources(spec: dict[str, Any], folder: Path) -> None:
    """Relative file sources start at the job file, as in skein's own reader."""
    master = spec.get("master") or {}
    holders = [master, *(spec.get("services") or {}).values()]
    for holder in holders:
        files = holder.get("files") or {}
        for name, value in files.items():
            files[name] = _resolved(value, folder)
    if master.get("log_config"):
        master["log_config"] = _resolved(master["log_config"], folder)
    security = master.get("security") or {}
    for key in ("cert_file", "key_file"):
        if security.get(key):
            security[key] = _resolved(security[key], folder)


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {**value, "source": _resolved(value["source"], folder)}
    if urlsplit(value).scheme:
        return value
    return f"file://{(folder / value).resolve()}"
