"""`yarnps validate`: a job file, and with --data its input, without starting anything."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarnps._errors import ClusterError, DataError, JobFileError
from yarnps.client import checks, clusters, exits
from yarnps.client.cmd_submit import SET
from yarnps.client.output import OUTPUT, count, print_json, say, size

if TYPE_CHECKING:
    from yarnps.spec import Job, Limits, Needs


@click.command("validate")
@click.argument("file", type=click.Path(path_type=Path))
@SET
@clusters.CLUSTER
@OUTPUT
@click.option("--data", "with_data", is_flag=True, help="Read the input's first records, too.")
def command(
    file: Path, sets: tuple[str, ...], cluster: str | None, output: str, with_data: bool
) -> int:
    """Check a job file and say what it needs.

    Where a cluster is at hand, its limits count, too. With --data: ten records as the program
    will see them, and the number of files, splits and bytes.
    """
    from yarnps.spec import load, needs

    try:
        job = load(file, sets=sets)
    except JobFileError as error:
        if output == "json":
            print_json({"valid": False, "problems": [p._asdict() for p in error.problems]})
            return exits.WRONG_INPUT
        raise
    chosen, limits = _limits(cluster)
    needed = needs(job, limits)
    if output == "text":
        _print_needs(job, needed)
    data, wrong = _data(job, chosen, output) if with_data else (None, None)
    if output == "json":
        problems = [p._asdict() for p in needed.problems]
        if wrong is not None:
            problems.append({"line": 0, "path": "yarnps.data", "message": wrong.what})
        answer = {"valid": not problems, "problems": problems, "needs": asdict(needed)}
        print_json({**answer, "data": data} if with_data else answer)
        return exits.WRONG_INPUT if problems else exits.SUCCEEDED
    if needed.problems:
        text = "\n".join(str(p) for p in needed.problems)
        raise JobFileError(f"the cluster cannot give what the job asks for:\n{text}")
    if wrong is not None:
        raise wrong
    print(f"{file}: valid")
    return exits.SUCCEEDED


def _limits(asked: str | None) -> tuple[clusters.Cluster | None, Limits | None]:
    """The cluster and its limits; none of both when no cluster is at hand and none was named."""
    from yarnps.client import hadoop_conf, rm, submission

    try:
        chosen = clusters.choose_for_reading(asked)
        if chosen.local:
            return chosen, None
        conf = hadoop_conf.load()
        return chosen, submission.yarn_limits(rm.ResourceManager.of(conf), conf)
    except ClusterError as error:
        if asked is not None:
            raise
        if error is not clusters.NO_CLUSTER:
            say(f"the cluster's limits are not checked: {error.what}")
        return None, None


def _print_needs(job: Job, needed: Needs) -> None:
    for ask in needed.asks:
        rounded = ""
        if ask.granted_memory != ask.memory:
            rounded = f" (YARN makes {size(ask.granted_memory)} of it)"
        print(f"{ask.name}: {ask.containers} x {size(ask.memory)}{rounded}, {ask.vcores} vcores")
    print(f"together: {size(needed.memory)}, {needed.vcores} vcores")
    if job.block is not None:
        print(f"tables: at most {size(needed.table_memory)} on each server")
    for warning in needed.warnings:
        print(f"note: {warning}")


def _data(
    job: Job, chosen: clusters.Cluster | None, output: str
) -> tuple[dict[str, Any] | None, DataError | None]:
    """What is known of the input, printed as it is found; and what is wrong with it."""
    if job.block is None:
        return None, DataError("a plain skein file has no data", "Leave out --data.")
    if chosen is None or chosen.local:
        from yarnps.client.local_submit import on_this_machine

        job = on_this_machine(job)
    answer: dict[str, Any] = {}
    for name in ("train", "test"):
        try:
            found = checks.look(job, name)
        except DataError as error:
            return answer, error
        if found is None:
            continue
        answer[name] = found.as_json()
        if output == "text":
            print(
                f"\ndata.{name}: {count(found.files)} files, {count(found.splits)} splits, "
                f"{size(found.bytes)}"
            )
            for path, why in found.skipped:
                print(f"  left out: {path}: {why}")
            for record in found.records:
                print(f"  {record}")
        if found.problems:
            return answer, checks.unreadable(job, name, found)
        for line in found.bad:
            say(f"data.{name}: cannot be read, and is allowed for: {line}")
    return answer, None
