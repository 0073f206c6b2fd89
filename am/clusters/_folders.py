"""The folder of a local container: what is put into it, and what is left there."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from yarnps.agent._settings import EXIT_CODE

TAIL_BYTES = 8192

CERTIFICATE = (".skein.crt", ".skein.pem")

# `trap :` and not `trap ''`: the shell must outlive a SIGTERM to its group, the agent must get it.
SHELL = (
    'trap : TERM INT HUP; "$@"; code=$?; '
    f"echo $code > {EXIT_CODE}.new && mv {EXIT_CODE}.new {EXIT_CODE}"
)


@dataclass(frozen=True)
class LocalRole:
    """What a role's containers get besides the ApplicationMaster's environment.

    Attributes
    ----------
    env
        Environment variables.
    files
        Name in the container's folder -> path on this machine, linked.
    archives
        Name in the container's folder -> path of an archive, unpacked into a folder of that name.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)


def furnish(folder: Path, role: LocalRole, certificate: Path) -> None:
    """Put a role's files into a container's folder, and the key pair that is in `certificate`."""
    for name in CERTIFICATE:
        source = certificate / name
        if source.exists():
            shutil.copyfile(source, folder / name)
            (folder / name).chmod(0o600)
    for name, source_path in role.files.items():
        (folder / name).symlink_to(Path(source_path).absolute())
    for name, source_path in role.archives.items():
        _unpack(Path(source_path), folder / name)


def _unpack(archive: Path, folder: Path) -> None:
    # Where this Python knows the filter, members may not lead out of the folder.
    tar = ".tar" in archive.suffixes or archive.suffix == ".tgz"
    if tar and hasattr(tarfile, "data_filter"):
        shutil.unpack_archive(archive, folder, filter="data")
    else:
        shutil.unpack_archive(archive, folder)


def tail(path: Path) -> str:
    """The end of an output; empty where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as f:
        f.seek(max(0, f.seek(0, os.SEEK_END) - TAIL_BYTES))
        return f.read().decode(errors="replace")


def exit_message(folder: Path, *, released: bool) -> str:
    """Say how a container ended, in YARN's words."""
    path = folder / EXIT_CODE
    code = path.read_text().strip() if path.exists() else "137"
    if released:
        return f"Container killed by the ApplicationMaster. Exit code is {code}"
    if code == "0":
        return ""
    return f"Container exited with a non-zero exit code {code}."
