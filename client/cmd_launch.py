"""`yarnps launch`: start a ps-lite program as `launch.py` and `dmlc-submit` did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from yarnps.client.launch.options import LAUNCHERS, UNSUPPORTED

F = TypeVar("F", bound=Callable[..., Any])

WHERE = click.Choice(LAUNCHERS)
COUNT = click.IntRange(min=1)


def _unsupported(function: F) -> F:
    """Options that are known by name only, to be refused by name."""
    for name in UNSUPPORTED:
        flag = name == "--byteps-launch"
        names = ("-SH", name) if name == "--server-hostfile" else (name,)
        function = click.option(*names, hidden=True, is_flag=flag)(function)
    return function


@click.command("launch", context_settings={"allow_interspersed_args": False})
@click.option("-n", "--num-workers", type=COUNT, required=True, help="Worker processes.")
@click.option(
    "-s",
    "--num-servers",
    type=click.IntRange(min=0),
    help="Server processes. Default: as many as workers, or none with --cluster.",
)
@click.option("--launcher", type=WHERE, help="How processes are started.")
@click.option("--cluster", type=WHERE, help="The same by dmlc-submit's name.")
@click.option("-H", "--hostfile", "--host-file", metavar="FILE", help="Hosts (ssh, mpi).")
@click.option("--host-ip", metavar="IP", help="Address of this machine, if it is guessed wrong.")
@click.option("--sync-dst-dir", metavar="DIR", help="Copy this folder to DIR on the hosts (ssh).")
@click.option("--queue", help="Queue of the batch system (yarn, sge).")
@click.option("--worker-cores", type=COUNT, help="Cores of a worker.")
@click.option("--worker-memory", metavar="SIZE", help="Memory of a worker: 2g, 512m. Default: 1g.")
@click.option("--server-cores", type=COUNT, help="Cores of a server.")
@click.option("--server-memory", metavar="SIZE", help="Memory of a server. Default: 1g.")
@click.option("--jobname", help="Name of the job.")
@click.option(
    "--files",
    multiple=True,
    metavar="PATH[#NAME]",
    help="File to ship, under its own or another name. May be repeated (yarn).",
)
@click.option(
    "--archives",
    multiple=True,
    metavar="PATH",
    help="Archive to ship and unpack. May be repeated (yarn).",
)
@click.option(
    "--auto-file-cache", type=bool, help="Ship the files that the command names. Default: true."
)
@click.option(
    "--env",
    multiple=True,
    metavar="K:V",
    help="Variable for all processes; K alone passes on its present value. May be repeated.",
)
@click.option("--env-server", multiple=True, metavar="K:V", help="The same for servers only.")
@click.option("--env-worker", multiple=True, metavar="K:V", help="The same for workers only.")
@click.option("--hdfs-tempdir", metavar="DIR", help="Folder for the job directory (yarn).")
@click.option("--ship-libcxx", metavar="DIR", help="Ship the libstdc++ of this folder (yarn).")
@click.option("--sge-log-dir", metavar="DIR", help="Folder of the tasks' output (sge).")
@click.option("--p3", is_flag=True, help="Priority-based propagation (DMLC_PS_VAN_TYPE=p3).")
@click.option("--log-level", type=click.Choice(["INFO", "DEBUG"]), help="DEBUG says more.")
@click.option("--log-file", metavar="FILE", help="What the launcher says goes there, too.")
@click.option(
    "--start-timeout",
    default="10 min",
    show_default=True,
    metavar="DURATION",
    help="Time for all processes to register after the first one has.",
)
@click.option(
    "--barrier-timeout",
    default="60 min",
    show_default=True,
    metavar="DURATION",
    help="Time that processes may wait for others at a barrier.",
)
@click.option("--print", "show", is_flag=True, help="Show what would be done, and do nothing.")
@_unsupported
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(show: bool, log_level: str | None, log_file: str | None, **given: Any) -> int:
    """Start a ps-lite program, such as MXNet's, as launch.py and dmlc-submit did.

    The COMMAND runs in every worker and server; the scheduler is this process (with yarn: the
    job's ApplicationMaster). Without servers, XGBoost's tracker is there instead. The exit status
    is that of the first worker that failed.

    \b
    yarnps launch -n 2 -s 1 --launcher local -- python train.py --kv-store dist_sync
    yarnps launch -n 8 -s 4 --cluster yarn --worker-memory 4g python train.py
    """
    import os

    from yarnps.client.launch import options
    from yarnps.client.launch.journal import Journal

    asked = options.read(given, os.environ)
    limits = options.limits_of(given)
    with Journal(debug=log_level == "DEBUG", path=Path(log_file) if log_file else None) as journal:
        for note in asked.notes:
            journal.say(f"note: {note}")
        if asked.launcher == "yarn":
            from yarnps.client.launch import yarn

            return yarn.launch(asked, limits, journal.say, show=show)
        from yarnps.client.launch import start

        if show:
            return start.show(asked, os.environ)
        return start.launch(asked, os.environ, journal.say, limits)
