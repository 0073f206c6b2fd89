"""`yarnps submit`: check a job file, start the job, and follow it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnps._errors import YarnpsError
from yarnps.client import clusters, exits
from yarnps.client.output import OUTPUT, print_json, say
from yarnps.client.signals import Signals, kept

if TYPE_CHECKING:
    from yarnps.client.job import JobView
    from yarnps.spec import Job

SET = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the job file, such as --set yarnps.train.epochs=3. May be repeated.",
)


@click.command("submit")
@click.argument("file", type=click.Path(path_type=Path))
@SET
@clusters.CLUSTER
@OUTPUT
@click.option("--nodes", default=2, show_default=True, help="Nodes of a sandbox that is started.")
@click.option("--detach", is_flag=True, help="Do not follow the job; print its id.")
@click.option("--kill-on-exit", is_flag=True, help="End the job when this command ends before it.")
@click.option("--dry-run", is_flag=True, help="Check everything, submit nothing.")
def command(
    file: Path,
    sets: tuple[str, ...],
    cluster: str | None,
    output: str,
    nodes: int,
    detach: bool,
    kill_on_exit: bool,
    dry_run: bool,
) -> int:
    """Check a job file, start the job, and follow it to its end.

    With --detach the job's id is all that is printed on stdout. The exit status says how the job
    ended.
    """
    started = time.monotonic()
    with kept() as signals:
        try:
            chosen = clusters.choose(cluster, report=say, start=True, nodes=nodes)
            say(chosen.sentence())
            from yarnps.spec import load

            job = load(file, sets=sets)
            view = _start(job, chosen, dry_run, signals.remember)
        except YarnpsError as error:
            if output == "json":
                print_json(_refused(error, time.monotonic() - started))
            raise
        if view is None:
            say("all checks passed; nothing was submitted (--dry-run)")
            return exits.SUCCEEDED
        kill = kill_on_exit or bool(job.block and job.block.kill_on_exit)
        return see_through(view, output, detach, kill, started, signals)


def _start(
    job: Job, chosen: clusters.Cluster, dry_run: bool, begins: Callable[[], None]
) -> JobView | None:
    """Check and start; None after a dry run."""
    if chosen.local:
        from yarnps.client import local_submit

        return local_submit.submit(job, say, dry_run=dry_run, begins=begins)
    from yarnps.client import submission

    return submission.submit(job, say, dry_run=dry_run, begins=begins)


def see_through(
    view: JobView,
    output: str,
    detach: bool,
    kill: bool,
    started: float,
    signals: Signals | None = None,
) -> int:
    """Follow the job, then say how it ended."""
    job_dir = view.store().address
    if detach:
        if output == "json":
            status = view.look().status
            elapsed = time.monotonic() - started
            answer = exits.result(
                view.application, None, status=status, job_dir=job_dir, elapsed_s=elapsed
            )
            print_json({**answer, "state": status.state if status else "STARTING"})
        else:
            print(view.application)
            say(f"Watch it: yarnps attach {view.application}")
        return exits.SUCCEEDED
    from yarnps.client.watch import watch

    try:
        watched = watch(view, kill_on_exit=kill, signals=signals)
    finally:
        view.close()
    say(watched.end.sentence)
    if output == "json":
        print_json(
            exits.result(
                view.application,
                watched.end.outcome,
                status=watched.status,
                job_dir=job_dir,
                elapsed_s=time.monotonic() - started,
            )
        )
    return watched.end.code


def _refused(error: YarnpsError, elapsed_s: float) -> dict[str, object]:
    """The object of `-o json` for a job that never came to be."""
    from yarnps.causes import Cause
    from yarnps.status import Outcome

    code = Cause.INPUT.value if error.exit_code == exits.WRONG_INPUT else ""
    outcome = Outcome("REFUSED", error.what, code, retry_helps=False if code else None)
    return exits.result(None, outcome, elapsed_s=elapsed_s)
