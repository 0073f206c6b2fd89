"""`yarnps attach`: follow a job that runs already."""

from __future__ import annotations

import time

import click

from yarnps.client import clusters, exits, job
from yarnps.client.output import OUTPUT, print_json, say

JOB_DIR = click.option("--job-dir", help="Where the job directory is, if the job file said so.")


@click.command("attach")
@click.argument("application")
@clusters.CLUSTER
@JOB_DIR
@OUTPUT
@click.option("--kill-on-exit", is_flag=True, help="End the job when this command ends before it.")
def command(
    application: str, cluster: str | None, job_dir: str | None, output: str, kill_on_exit: bool
) -> int:
    """Follow a job to its end. The exit status says how it ended."""
    from yarnps.client.watch import watch

    started = time.monotonic()
    view = job.find(clusters.choose_for_job(application, cluster), application, job_dir)
    try:
        watched = watch(view, kill_on_exit=kill_on_exit)
        address = view.store().address
    finally:
        view.close()
    say(watched.end.sentence)
    if output == "json":
        status = watched.status
        elapsed = time.monotonic() - started
        if status is not None and status.started:
            elapsed = (status.ended or status.now) - status.started
        print_json(
            exits.result(
                application,
                watched.end.outcome,
                status=status,
                job_dir=address,
                elapsed_s=elapsed,
            )
        )
    return watched.end.code
