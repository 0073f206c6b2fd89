"""A job: the job file after checking, as every part of yarnps sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ._block import Block
from ._units import MIB, parse_size

ROLES: Final = ("server", "worker")
DEFAULT_MAX_RESTARTS: Final = 3
_FORMAT: Final = 1


class Source(NamedTuple):
    """Where the value of a key came from."""

    path: str
    value: Any
    origin: str  # "job.yaml:12", "/etc/yarnps.yaml:3", "--set a.b=1" or "default"


@dataclass(frozen=True)
class Role:
    """What the job file says about the servers or the workers.

    Parameters
    ----------
    instances : int
        Containers of this role.
    memory : int
        Bytes of a container.
    vcores : int
        Virtual cores of a container; a server container runs so many server processes.
    max_restarts : int
        Deaths of its own making that each rank may have; -1: no limit.
    allow_failures : bool
        Whether the job goes on when a rank has been given up.
    script : str
        The user's program (bash); empty: the built-in one.
    """

    name: str
    instances: int
    memory: int
    vcores: int
    max_restarts: int = DEFAULT_MAX_RESTARTS
    allow_failures: bool = False
    script: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    native: bool = True  # the runtime is ours

    @property
    def processes(self) -> int:
        """Role processes in one container."""
        return self.vcores if self.name == "server" and self.native else 1

    @classmethod
    def from_service(cls, name: str, service: Mapping[str, Any], *, native: bool = True) -> Role:
        """Read a role out of its (checked) service of the skein specification."""
        given = {key: value for key, value in service.items() if value is not None}
        resources = given["resources"]
        return cls(
            name=name,
            instances=given.get("instances", 1),
            memory=-(-parse_size(resources["memory"], unit=MIB) // MIB) * MIB,
            vcores=resources["vcores"],
            max_restarts=given.get("max_restarts", DEFAULT_MAX_RESTARTS),
            allow_failures=given.get("allow_failures", False),
            script=given.get("script", ""),
            env=dict(given.get("env", {})),
            nodes=tuple(given.get("nodes", ())),
            racks=tuple(given.get("racks", ())),
            depends=tuple(given.get("depends", ())),
            native=native,
        )


@dataclass(frozen=True)
class Job:
    """A checked job file with site defaults and `--set` applied.

    Parameters
    ----------
    name, queue : str
        As in the file; the name defaults to the file's.
    text : str
        The job file as written.
    path : str
        Where it was read from (absolute).
    block : Block or None
        The `yarnps:` block; None for a plain skein file.
    roles : dict of str to Role
        "server" and "worker"; empty for a plain skein file.
    skein : dict
        The skein specification as plain data, without the block.
    """

    name: str
    queue: str
    text: str
    path: str
    block: Block | None
    roles: Mapping[str, Role]
    skein: Mapping[str, Any]
    origins: tuple[Source, ...] = ()

    def sources(self) -> list[Source]:
        """Every key with its value and where that came from, in the reference's order."""
        return list(self.origins)

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the job file start from."""
        return Path(self.path).parent

    def to_json(self) -> str:
        """All of it, for `from_json` in another process."""
        block = None if self.block is None else self.block.model_dump(mode="json")
        if block is not None and not block["data"]["train"]:
            del block["data"]  # none was given
        return json.dumps(
            {
                "format": _FORMAT,
                "name": self.name,
                "queue": self.queue,
                "text": self.text,
                "path": self.path,
                "block": block,
                "skein": self.skein,
                "sources": self.origins,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` wrote.

        Raises
        ------
        ValueError
            The text is not one that this version of `to_json` writes.
        """
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ValueError("not a job as this version of yarnps writes it")
        block = None if data["block"] is None else Block.model_validate(data["block"])
        return cls(
            name=data["name"],
            queue=data["queue"],
            text=data["text"],
            path=data["path"],
            block=block,
            roles=roles_of(data["skein"], block) if block is not None else {},
            skein=data["skein"],
            origins=tuple(Source(*entry) for entry in data["sources"]),
        )


def roles_of(skein: Mapping[str, Any], block: Block) -> dict[str, Role]:
    """The roles that a (checked) skein specification describes."""
    services = skein.get("services") or {}
    native = block.runtime == "native"
    return {
        name: Role.from_service(name, services[name], native=native)
        for name in ROLES
        if name in services
    }
