"""Where containers come from: YARN through skein, or processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from yarnps._errors import InputError
from yarnps.am.clusters.base import Cluster, ContainerInfo
from yarnps.spec import Job

__all__ = ["Cluster", "ContainerInfo", "connect"]


def connect(job: Job, folder: Path) -> Cluster:
    """The cluster that this ApplicationMaster's process was started on."""
    kind = os.environ.get("YARNPS_CLUSTER", "")
    if kind == "local":
        return _local(job, folder)
    if kind == "yarn":
        from yarnps.am.clusters.yarn import YarnCluster

        return YarnCluster()
    raise InputError(
        f"YARNPS_CLUSTER must be yarn or local: {kind or 'not set'}",
        "The ApplicationMaster is started by `yarnps submit`.",
    )


def _local(job: Job, folder: Path) -> Cluster:
    from yarnps.am.clusters._folders import LocalRole
    from yarnps.am.clusters._forks import Forks
    from yarnps.am.clusters.local import LocalCluster

    roles = {}
    for name, role in job.roles.items():
        service = (job.skein.get("services") or {}).get(name) or {}
        kinds: dict[bool, dict[str, str]] = {False: {}, True: {}}
        for target, value in (service.get("files") or {}).items():
            source = str((job.folder / _source(value)).resolve())
            kinds[_is_archive(value)][target] = source
        roles[name] = LocalRole(env=dict(role.env), files=kinds[False], archives=kinds[True])
    return LocalCluster(
        folder.parent,
        os.environ["YARNPS_APPLICATION"],
        roles=roles,
        certificate=folder,
        forks=Forks.from_environment(),
    )


def _source(value: object) -> str:
    """The path of a file in a skein specification: plain, or with its options."""
    text = str(value["source"]) if isinstance(value, dict) else str(value)
    return text.removeprefix("file://")


def _is_archive(value: object) -> bool:
    """skein's rule: as the specification says, else by the name's ending."""
    kind = str(value.get("type", "infer")).lower() if isinstance(value, dict) else "infer"
    if kind == "infer":
        return _source(value).endswith((".zip", ".tar.gz", ".tgz"))
    return kind == "archive"
