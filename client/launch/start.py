"""The launches that this process itself sees through: local, ssh, mpi, sge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from yarnps.client import exits
from yarnps.client.launch.local import LocalPlace
from yarnps.client.launch.mpi import MpiPlace
from yarnps.client.launch.options import Limits, Options
from yarnps.client.launch.places import Place
from yarnps.client.launch.plan import Task, environment_of, own_address, seats, task
from yarnps.client.launch.session import Session
from yarnps.client.launch.sge import SgePlace
from yarnps.client.launch.ssh import SshPlace, read_hosts
from yarnps.pslite.wire import Address, Seat
from yarnps.rabit import contract

PORTS = ("DMLC_PS_ROOT_PORT", contract.TRACKER_PORT)


def place_of(options: Options, environ: Mapping[str, str]) -> Place:
    """Where the processes of a launch run.

    Raises
    ------
    InputError
        The host file is wrong.
    """
    hosts = read_hosts(options.host_file) if options.host_file else []
    if options.launcher == "ssh":
        return SshPlace(hosts, environ, options.sync_dst_dir)
    if options.launcher == "mpi":
        return MpiPlace(options.host_file, hosts[0].bare if hosts else "")
    if options.launcher == "sge":
        return SgePlace(options, environ)
    return LocalPlace()


def launch(
    options: Options, environ: Mapping[str, str], say: Callable[..., None], limits: Limits
) -> int:
    """Run a launch to its end; returns its exit status.

    Raises
    ------
    YarnpsError
        It could not be started.
    """
    place = place_of(options, environ)

    async def run() -> int:
        return await Session(options, place, environ, say, limits).run()

    return asyncio.run(run())


def show(options: Options, environ: Mapping[str, str]) -> int:
    """Print what each process would run, with what in its environment."""
    host = own_address(options, place_of(options, environ).first_host)
    for seat in seats(options):
        shown = _shown(options, seat, host, environ)
        print(f"{seat}: {shown.command}")
        for name, value in sorted(shown.env.items()):
            print(f"  {name}={'<a free port>' if name in PORTS else value}")
    return exits.SUCCEEDED


def _shown(options: Options, seat: Seat, host: str, environ: Mapping[str, str]) -> Task:
    """A task without a port."""
    if options.server.count:
        return task(options, seat, Address(host, 0), environ)
    given = environment_of(options, seat, environ)
    workers, cluster = options.worker.count, options.launcher
    env = contract.environment(seat.rank, workers, host, 0, cluster=cluster, given=given)
    return Task(seat, options.shell_command, env)
