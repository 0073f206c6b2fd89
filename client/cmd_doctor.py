"""`yarnps doctor`: what is wrong with the cluster, this machine, or how they fit a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnps._errors import ClusterError, YarnpsError
from yarnps.client import clusters, doctor, exits
from yarnps.client.output import OUTPUT, print_json, say

if TYPE_CHECKING:
    from yarnps.spec import Job


@click.command("doctor")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@clusters.CLUSTER
@OUTPUT
@click.option("--probe", is_flag=True, help="Also try the job's Python in a real container.")
def command(file: Path | None, cluster: str | None, output: str, probe: bool) -> int:
    """Look for what is wrong; with a job FILE, also for what does not fit it.

    Every finding comes with what to do. Exit status 3 when something is bad.
    """
    job = None
    if file is not None:
        from yarnps.spec import load

        job = load(file)
    found = []
    for finding in _findings(job, cluster, probe):
        found.append(finding)
        if output == "text":
            print(f"{finding.level:<5} {finding.check}: {finding.text}")
            for line in finding.remedy.splitlines():
                print(f"      {line}")
    if output == "json":
        print_json([asdict(f) for f in found])
    bad = any(f.level == doctor.BAD for f in found)
    return exits.LOST if bad else exits.SUCCEEDED


def _findings(job: Job | None, cluster: str | None, probe: bool) -> Iterator[doctor.Finding]:
    yield from doctor.run(doctor.this_machine())
    try:
        chosen = clusters.choose_for_reading(cluster)
    except ClusterError as error:
        yield doctor.Finding("cluster", doctor.BAD, error.what, error.remedy)
        return
    yield doctor.Finding("cluster", doctor.OK, f"{chosen.kind}: {chosen.why}")
    if chosen.local:
        return
    yield from doctor.run(doctor.hadoop(job))
    if probe:
        from yarnps.client.probe import probe as try_container

        wanted = job.block.environment if job is not None and job.block else None
        folder = job.folder if job is not None else Path.cwd()
        try:
            yield from try_container(wanted, folder, job.queue if job else "", say)
        except YarnpsError as error:
            yield doctor.Finding("probe", doctor.BAD, error.what, error.remedy)
