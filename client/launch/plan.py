"""Which processes a launch means, and what each of them finds in its environment."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yarnps._errors import InputError
from yarnps.client.launch.options import Options
from yarnps.pslite.contract import OURS, Contract, cleared
from yarnps.pslite.wire import Address, Seat

LOOPBACK: Final = "127.0.0.1"

# A datagram socket that is connected to it shows the interface of the default route; nothing is
# sent there (RFC 5737 keeps the address free).
_ANYWHERE: Final = "192.0.2.1"

THREADS: Final = "OMP_NUM_THREADS"

# What another launch, or the machine, may have left in the environment, and programs would believe.
# PORT is the one that a node binds.
_OF_ONE_PROCESS: Final = ("PORT", "DMLC_NODE_HOST", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT")
UNSET: Final = (*_OF_ONE_PROCESS, *OURS)


@dataclass(frozen=True)
class Task:
    """A process to start.

    Attributes
    ----------
    command
        For a POSIX shell.
    env
        What it finds in its environment, on top of what is there.
    """

    seat: Seat
    command: str
    env: Mapping[str, str]


def seats(options: Options) -> list[Seat]:
    """All processes, servers first."""
    return [
        Seat(role, rank)
        for role in ("server", "worker")
        for rank in range(options.role(role).count)
    ]


def environment_of(options: Options, seat: Seat, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own variables for a process, the command line's before the launcher's.

    Parameters
    ----------
    environ
        The launcher's environment. What of it configures ps-lite (PS_VERBOSE, DMLC_INTERFACE, …)
        reaches all processes, wherever they run.
    """
    ask = options.role(seat.role)
    theirs = {k: v for k, v in environ.items() if cleared(k) and k not in UNSET}
    threads = {THREADS: str(ask.cores)} if ask.cores else {}
    return {**theirs, **threads, **options.env, **ask.env}


def task(options: Options, seat: Seat, scheduler: Address, environ: Mapping[str, str]) -> Task:
    """A process of ps-lite with the variables of the DMLC contract.

    Parameters
    ----------
    scheduler
        Where this process finds the scheduler: it has a port of its own there.
    environ
        The launcher's environment.
    """
    given = environment_of(options, seat, environ)
    contract = Contract(
        seat,
        workers=options.worker.count,
        servers=options.server.count,
        scheduler=scheduler,
        cluster=options.launcher,
    )
    env = contract.environment(given)
    if THREADS not in given:
        del env[THREADS]  # nobody has said how many cores a process may use
    return Task(seat, options.shell_command, env)


def own_address(options: Options, first_host: str) -> str:
    """The scheduler's numeric address.

    `--host-ip` where it is given; else that of the interface that reaches the first host; the
    loopback for `local`.

    Raises
    ------
    InputError
        The address or the host has no IPv4 address.
    """
    if options.host_ip:
        return numeric(options.host_ip)
    if options.launcher == "local":
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((numeric(first_host) if first_host else _ANYWHERE, 9))
        except OSError:
            return LOOPBACK  # no network at all: everything can only be here
        return str(probe.getsockname()[0])


def numeric(host: str) -> str:
    """A host's IPv4 address: ps-lite takes no names.

    Raises
    ------
    InputError
        It has none.
    """
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise InputError(
            f"{host}: no IPv4 address is known for it ({error.strerror})",
            "Correct the host's name, or give its address; ps-lite knows IPv4 only.",
        ) from error
