"""`yarnps kill`: end a job."""

from __future__ import annotations

import click

from yarnps.client import clusters, exits, job
from yarnps.client.cmd_attach import JOB_DIR
from yarnps.client.output import OUTPUT, print_json, say


@click.command("kill")
@click.argument("application")
@clusters.CLUSTER
@JOB_DIR
@OUTPUT
@click.option("--reason", default="killed by the user", help="For the job's record.")
def command(
    application: str, cluster: str | None, job_dir: str | None, output: str, reason: str
) -> int:
    """End a job. Its containers go, and its record says who ended it and why."""
    from yarnps.client.watch import kill_and_wait

    view = job.find(clusters.choose_for_job(application, cluster), application, job_dir)
    try:
        sight = view.look()
        over = sight.gone or (sight.report is not None and sight.report.ended)
        if over:
            state = _state(sight)
            say(f"{application} has ended already: {state}")
        else:
            end = kill_and_wait(view, reason)
            state = end.outcome.state if end.outcome else "UNKNOWN"
            say(end.sentence)
    finally:
        view.close()
    if output == "json":
        print_json({"application": application, "state": state, "ended_before": over})
    return exits.SUCCEEDED


def _state(sight: job.Sight) -> str:
    if sight.status is not None and sight.status.outcome is not None:
        return sight.status.outcome.state
    if sight.report is not None:
        return exits.outcome_of_report(sight.report).state
    return "FAILED"
