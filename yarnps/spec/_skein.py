"""skein's specification, key for key, so that its errors have a line, too.

Only checked here: the plain data goes on to skein as it was written.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ._block import Block
from ._section import Section
from ._units import Memory, Texts, fault


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _target(value: str) -> str:
    if "/" in value.removeprefix("./") or value in ("", ".", ".."):
        raise fault(f"expected a plain name (no folder) for the file's target, found {value!r}")
    return value


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):  # bash cannot export others
        raise fault(f"expected a name of letters, digits and _ for a variable, found {value!r}")
    return value


def _at_least_one_mib(value: int) -> int:
    if value < 1:
        raise fault("expected more than 0")
    return value


def _names(value: Any) -> Any:
    """skein takes a list or, for tags and depends, anything iterable; never a bare text."""
    if isinstance(value, str):
        raise fault(f"expected a list, found the text {value!r}: write [{value}]")
    return value


Upper = BeforeValidator(_upper)
Names = Annotated[Texts, BeforeValidator(_names)]
Env = dict[Annotated[str, AfterValidator(_variable)], str]


class Resources(Section):
    """What a container asks for."""

    memory: Annotated[Memory, AfterValidator(_at_least_one_mib)] = Field(
        description="Memory: `1 GiB`, `512 MiB`; a number without a unit is MiB."
    )
    vcores: int = Field(ge=1, description="Virtual cores.")
    gpus: int = Field(default=0, ge=0, description="GPUs (`yarn.io/gpu`).")
    fpgas: int = Field(default=0, ge=0, description="FPGAs (`yarn.io/fpga`).")


class File(Section):
    """A file or archive that is brought to a container; also just its source as a text."""

    source: str = Field(min_length=1, description="Path or address; relative to the job file.")
    type: Annotated[Literal["INFER", "FILE", "ARCHIVE"], Upper] = Field(
        default="INFER", description="Archives are unpacked. `infer`: by the name's ending."
    )
    visibility: Annotated[Literal["APPLICATION", "PUBLIC", "PRIVATE"], Upper] = Field(
        default="APPLICATION", description="Who shares the copy on a node."
    )
    size: int = Field(default=0, ge=0, description="Bytes; 0: looked up.")
    timestamp: int = Field(default=0, ge=0, description="Time of change; 0: looked up.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data


Files = dict[Annotated[str, AfterValidator(_target)], File]


class Service(Section):
    """A group of equal containers."""

    instances: int = Field(default=1, ge=0, description="How many containers.")
    resources: Resources
    script: str = Field(default="", description="Bash script: the program of each container.")
    env: Env = Field(default_factory=dict, description="Environment; values are texts.")
    files: Files = Field(default_factory=dict, description="Files brought along: `{name: source}`.")
    depends: Names = Field(default=(), description="Services that start first.")
    max_restarts: int = Field(
        default=0,
        ge=-1,
        description="Restarts after failures; -1: no limit. In `server` and `worker`: for each "
        "rank, 3 if not given.",
    )
    allow_failures: bool = Field(
        default=False, description="Go on when this service has failed for good."
    )
    node_label: str = Field(default="", description="Node label expression.")
    nodes: Names = Field(default=(), description="Run on these nodes.")
    racks: Names = Field(default=(), description="Run on these racks.")
    relax_locality: bool = Field(
        default=False, description="`nodes` and `racks` are wishes, not conditions."
    )


class Security(Section):
    """Certificate pair of the application."""

    cert_file: File | None = Field(default=None, description="Certificate, PEM.")
    key_file: File | None = Field(default=None, description="Private key, PEM.")
    cert_bytes: str | None = Field(default=None, description="Certificate itself, PEM.")
    key_bytes: str | None = Field(default=None, description="Private key itself, PEM.")


class Master(Section):
    """The container of the ApplicationMaster."""

    resources: Resources | None = Field(
        default=None, description="With a `yarnps` block 1 GiB and 1 vcore if not given."
    )
    script: str = Field(default="", description="Bash script (not with a `yarnps` block).")
    env: Env = Field(default_factory=dict, description="Environment; values are texts.")
    files: Files = Field(default_factory=dict, description="Files brought along: `{name: source}`.")
    log_level: Annotated[
        Literal["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"], Upper
    ] = Field(default="INFO", description="Log level of skein's own AM.")
    log_config: File | None = Field(default=None, description="A `log4j.properties` file.")
    security: Security | None = Field(
        default=None, description="Certificate pair (not with a `yarnps` block)."
    )


class Acls(Section):
    """Who may see and change the application."""

    enable: bool = Field(default=False, description="Whether the lists below count.")
    view_users: Names = Field(default=(), description="Users who may see it; `*`: all.")
    view_groups: Names = Field(default=(), description="Groups that may see it.")
    modify_users: Names = Field(default=(), description="Users who may change it, kill it.")
    modify_groups: Names = Field(default=(), description="Groups that may change it, kill it.")
    ui_users: Names = Field(default=(), description="Users who may open the web page.")


class Application(Section):
    """A whole job file: skein's specification and the `yarnps` block."""

    name: str | None = Field(
        default=None, description="Name of the application. Not given: the file's name."
    )
    queue: str = Field(default="default", description="YARN queue.")
    user: str = Field(default="", description="Submit as this user (needs proxy rights).")
    node_label: str = Field(default="", description="Node label expression of all containers.")
    tags: Names = Field(default=(), description="YARN tags.")
    file_systems: Names = Field(
        default=(), description="Further Hadoop file systems to get tokens for."
    )
    acls: Acls | None = Field(default=None)
    max_attempts: int = Field(
        default=2, ge=1, description="Attempts of the AM. Without a `yarnps` block: 1."
    )
    master: Master | None = Field(default=None)
    services: dict[str, Service] = Field(
        default_factory=dict,
        description="`server`, `worker`, and any others that run beside them.",
    )
    yarnps: Block | None = Field(default=None)
