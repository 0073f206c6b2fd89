"""What an agent is told by its container's environment."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnps._errors import InputError

OWN_PYTHON = "@python"

EXIT_CODE = "exit_code"  # in a local container's folder: the file that says how it has ended

AM_SILENCE_S = 300.0  # until the ApplicationMaster's Welcome says otherwise


@dataclass(frozen=True)
class Settings:
    """An agent's place in the application.

    Attributes
    ----------
    am
        ``host:port`` of the ApplicationMaster when the container was asked for.
    lookup
        Where to ask for a newer one: ``file:<folder>`` or ``skein:<host:port>``; empty: nowhere.
    node
        The node's name as the cluster spells it.
    log_dir
        Output of the role's processes goes here.
    env
        The environment for role processes.
    """

    am: str
    application: str
    container: str
    nonce: str
    role: str
    rank: int
    node: str
    lookup: str
    log_dir: Path
    certificate: bytes
    key: bytes
    am_silence_s: float
    env: Mapping[str, str]

    @classmethod
    def from_environment(cls, env: Mapping[str, str], folder: Path) -> Settings:
        """Read a container's environment and the certificate in its `folder`."""
        container = env.get("YARNPS_CONTAINER") or env.get("SKEIN_CONTAINER_ID", "")
        needed = {
            name: env.get(name, "")
            for name in ("YARNPS_AM", "YARNPS_APPLICATION", "YARNPS_NONCE", "YARNPS_ROLE")
        } | {"YARNPS_CONTAINER": container}
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise InputError(
                f"the agent's environment is incomplete: {', '.join(missing)}",
                "An agent is started by the ApplicationMaster, not by hand.",
            )
        return cls(
            am=needed["YARNPS_AM"],
            application=needed["YARNPS_APPLICATION"],
            container=container,
            nonce=needed["YARNPS_NONCE"],
            role=needed["YARNPS_ROLE"],
            rank=int(env.get("YARNPS_RANK", "0")),
            node=env.get("YARNPS_NODE") or env.get("NM_HOST") or socket.gethostname(),
            lookup=_lookup(env),
            # YARN names several disks; the first is as good as any.
            log_dir=Path(env.get("LOG_DIRS", "").split(",")[0] or folder),
            certificate=_read(folder / ".skein.crt"),
            key=_read(folder / ".skein.pem"),
            am_silence_s=float(env.get("YARNPS_AM_SILENCE", AM_SILENCE_S)),
            env={
                "NUMBA_CACHE_DIR": kernel_cache(env, folder),
                **{k: v for k, v in env.items() if k != "YARNPS_NONCE"},
            },
        )


def kernel_cache(env: Mapping[str, str], folder: Path) -> str:
    """Where compiled kernels are kept: shared by the application's containers of this node."""
    if env.get("YARNPS_KERNEL_CACHE"):
        return env["YARNPS_KERNEL_CACHE"]
    local = env.get("LOCAL_DIRS", "").split(",")[0]
    return str((Path(local) if local else folder) / "numba")


def without(env: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The variables but for those in `names`; a name that ends in ``*`` stands for many."""
    stems = tuple(name[:-1] for name in names if name.endswith("*"))
    return {k: v for k, v in env.items() if k not in names and not k.startswith(stems)}


def own_python(command: Sequence[str]) -> list[str]:
    """The command with `@python` as its first word standing for the agent's own interpreter."""
    words = list(command)
    return [sys.executable, *words[1:]] if words[:1] == [OWN_PYTHON] else words


def _lookup(env: Mapping[str, str]) -> str:
    if "YARNPS_LOOKUP" in env:
        return env["YARNPS_LOOKUP"]
    address = env.get("SKEIN_APPMASTER_ADDRESS")
    return f"skein:{address}" if address else ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise InputError(
            f"the application's certificate cannot be read: {path}: {e.strerror}",
            "The container's folder should hold it; was the folder cleaned?",
        ) from e
