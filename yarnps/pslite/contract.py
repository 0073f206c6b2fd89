"""The environment that a ps-lite program is started with: what DMLC's launchers promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the job model needs no more than the names below, and loads fast
    from yarnps.pslite.wire import Address, Seat

# Cleared before the contract is set, unless the job says otherwise: variables of an outer job, or
# of a machine, would be believed. PORT is the port that a node binds.
CLEARED: Final = ("DMLC_*", "PS_*", "PORT")

# A file of the container that is sourced before the program: it finds the program's own Python.
PROGRAM_SETUP: Final = "yarnps_program.sh"

# What only the scheduler may say.
OURS: Final = (
    "DMLC_ROLE",
    "DMLC_NUM_WORKER",
    "DMLC_NUM_SERVER",
    "DMLC_PS_ROOT_URI",
    "DMLC_PS_ROOT_PORT",
    "DMLC_LOCAL",
    "DMLC_RANK",
    "DMLC_TASK_ID",
    "DMLC_WORKER_ID",
    "DMLC_SERVER_ID",
    "DMLC_NUM_ATTEMPT",
)


@dataclass(frozen=True)
class Contract:
    """One process and its place.

    Parameters
    ----------
    workers, servers
        Of the whole job.
    scheduler
        Where this process finds the scheduler: numeric, and a port of its own.
    host
        The address that it binds and tells the others; empty: it chooses.
    interface
        The network interface whose address it takes instead.
    attempt
        How many times the job, or this process, has failed before.
    cluster
        ``yarn``, ``local``, ``ssh``, …
    vcores
        Processor cores that it may use.
    """

    seat: Seat
    workers: int
    servers: int
    scheduler: Address
    host: str = ""
    interface: str = ""
    attempt: int = 0
    cluster: str = "local"
    vcores: int = 1

    def environment(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """All of the contract's variables; those in `given` that are the user's to set win."""
        rank, given = str(self.seat.rank), given or {}
        env = {
            "DMLC_ROLE": self.seat.role,
            "DMLC_NUM_WORKER": str(self.workers),
            "DMLC_NUM_SERVER": str(self.servers),
            "DMLC_PS_ROOT_URI": self.scheduler.host,
            "DMLC_PS_ROOT_PORT": str(self.scheduler.port),
            "DMLC_TASK_ID": rank,
            "DMLC_WORKER_ID" if self.seat.role == "worker" else "DMLC_SERVER_ID": rank,
            "DMLC_NUM_ATTEMPT": str(self.attempt),
        }
        own = {
            "DMLC_JOB_CLUSTER": self.cluster,
            "OMP_NUM_THREADS": str(self.vcores),
        }
        if not {"DMLC_NODE_HOST", "DMLC_INTERFACE"} & given.keys():
            own |= {"DMLC_INTERFACE": self.interface} if self.interface else {}
            own |= {"DMLC_NODE_HOST": self.host} if self.host and not self.interface else {}
        return {**own, **{k: v for k, v in given.items() if k not in OURS}, **env}


def program_command(script: str, environment: str | None) -> list[str]:
    """What is run for a program.

    Parameters
    ----------
    script
        Lines of bash.
    environment
        `dmlc.environment` of the job: the program's own Python, as PYTHON and first on PATH.
    """
    scheme, _, path = (environment or "").partition("://")
    if scheme == "python":
        python = PurePosixPath(path)
        setup = f'export PYTHON={quote(path)} PATH={quote(str(python.parent))}:"$PATH"\n'
    else:
        setup = f". ./{PROGRAM_SETUP}\n" if environment else ""
    return ["bash", "-c", setup + script]


def cleared(name: str) -> bool:
    """Whether a variable of the surroundings must not reach the program."""
    return any(
        name.startswith(rule[:-1]) if rule.endswith("*") else name == rule for rule in CLEARED
    )
