"""`yarnps list`: jobs on the cluster and on this machine."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass

import click

from yarnps._errors import ClusterError
from yarnps.client import clusters, exits, job, local
from yarnps.client.output import OUTPUT, clock, print_json, say, table

SENTENCE_CHARS = 80


@dataclass(frozen=True)
class Line:
    """One job in the list."""

    application: str
    name: str
    user: str
    cluster: str
    state: str
    started: float | None
    ended: float | None
    progress: float
    sentence: str


@click.command("list")
@clusters.CLUSTER
@OUTPUT
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that have ended.")
@click.option("--user", help="Only this user's jobs (on a cluster).")
def command(cluster: str | None, output: str, everything: bool, user: str | None) -> int:
    """List the jobs that run, on the cluster (where there is one) and on this machine."""
    lines = _local_lines(everything) if cluster in (None, clusters.LOCAL) else []
    code = exits.SUCCEEDED
    if cluster != clusters.LOCAL:
        try:
            lines += _yarn_lines(clusters.choose_for_reading(cluster), everything, user)
        except ClusterError as error:
            # Without a cluster the local jobs are all there is to list.
            if cluster is not None:
                raise
            if error is not clusters.NO_CLUSTER:
                code = error.exit_code
                say(f"the cluster's jobs are not shown: {error.what}")
    if output == "json":
        print_json([asdict(line) for line in lines])
    elif not lines:
        print("no jobs" if everything else "no job runs (--all shows those that have ended)")
    else:
        header = ("APPLICATION", "NAME", "USER", "STATE", "STARTED", "ENDED", "")
        print(table(header, [_row(line) for line in lines]))
    return code


def _row(line: Line) -> tuple[str, ...]:
    started, ended = clock(line.started), clock(line.ended)
    return (
        line.application, line.name, line.user, line.state, started, ended,
        textwrap.shorten(line.sentence, SENTENCE_CHARS, placeholder=" …"),
    )  # fmt: skip


def _local_lines(everything: bool) -> list[Line]:
    lines = []
    for known in local.all_jobs():
        alive = known.am_alive()
        if not alive and not everything:
            continue
        sight = job.LocalView(known).look()
        status = sight.status
        state = status.state if status else ("STARTING" if alive else "FAILED")
        if status and not alive and status.outcome is None:
            state = "FAILED"
        lines.append(
            Line(
                known.application,
                status.name if status else "",
                status.user if status else "",
                "local",
                state,
                status.started if status else known.folder.stat().st_ctime,
                status.ended if status else None,
                status.progress.fraction if status else 0.0,
                status.sentence if status else "",
            )
        )
    return lines


def _yarn_lines(chosen: clusters.Cluster, everything: bool, user: str | None) -> list[Line]:
    from yarnps.client.yarn_job import reports

    return [
        Line(
            r.application,
            r.name,
            r.user,
            chosen.kind,
            exits.outcome_of_report(r).state if r.ended else r.state,
            r.started,
            r.finished,
            r.progress,
            r.diagnostics.splitlines()[0] if r.diagnostics and not r.ended else "",
        )
        for r in reports(all_states=everything, user=user)
    ]
