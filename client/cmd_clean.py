"""`yarnps clean`: remove the job directories of jobs that ended long ago."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from yarnps._errors import InputError, YarnpsError
from yarnps.client import clusters, exits, local
from yarnps.client.output import OUTPUT, clock, print_json, say, table

DEFAULT_AGE_S = 30 * 86_400.0


@dataclass(frozen=True)
class Old:
    """A job directory that has had its time."""

    application: str
    address: str
    ended: float
    holds_model: bool


@click.command("clean")
@clusters.CLUSTER
@OUTPUT
@click.option("--older-than", metavar="AGE", help="Such as `7 d`. Default: the job's `retention`.")
@click.option("--models", is_flag=True, help="Also directories that hold the job's only model.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    cluster: str | None,
    output: str,
    older_than: str | None,
    models: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Remove the job directories (events, status, checkpoints) of jobs that ended long ago.

    Jobs that run are never touched. A directory that holds the job's model, because the job file
    names no other place, stays unless --models is given.
    """
    age = _age(older_than)
    chosen = clusters.choose_for_reading(cluster)
    folders = _local_folders() if chosen.kind == clusters.LOCAL else _cluster_folders()
    old = [found for address in folders if (found := _look(address, age)) is not None]
    kept = [one for one in old if one.holds_model and not models]
    old = [one for one in old if models or not one.holds_model]
    if output == "json":
        print_json({"remove": [asdict(o) for o in old], "kept": [asdict(o) for o in kept]})
    else:
        if old:
            rows = [(one.application, clock(one.ended), one.address) for one in old]
            print(table(("APPLICATION", "ENDED", "DIRECTORY"), rows))
        say(f"{len(old)} job directories to remove; {len(kept)} stay because they hold a model")
    if not old or dry_run:
        return exits.SUCCEEDED
    if not yes and not click.confirm("Remove them?", default=False, err=True):
        return exits.SUCCEEDED
    return _remove(old)


def _age(text: str | None) -> float | None:
    if text is None:
        return None
    from yarnps.spec import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--older-than {text}: {error}", "Write it as in `7 d`.") from error


def _local_folders() -> list[str]:
    return [job.address for job in local.all_jobs() if not job.am_alive()]


def _cluster_folders() -> list[str]:
    from yarnps.files import home_address, open_files

    base = f"{home_address().rstrip('/')}/.yarnps"
    files, path = open_files(base)
    if not files.exists(path):
        return []
    names = [info.path.rstrip("/").rsplit("/", 1)[-1] for info in files.list(path) if info.is_dir]
    return [f"{base}/{name}" for name in sorted(names) if name.startswith("application_")]


def _look(address: str, age: float | None) -> Old | None:
    """The directory, if its job has ended for good and long enough ago."""
    from yarnps.jobdir import JOB_JSON, MODEL, OUTCOME, JobDir

    folder = JobDir(address)
    if not folder.exists(OUTCOME):
        return None
    ended = folder.files.info(folder.inside(OUTCOME)).modified_ms / 1000
    kept_s = DEFAULT_AGE_S
    if age is not None:
        kept_s = age
    elif (job := folder.read_json(JOB_JSON)) is not None and job.get("block"):
        kept_s = float(job["block"].get("retention", DEFAULT_AGE_S))
    if time.time() - ended < kept_s:
        return None
    name = address.rstrip("/").rsplit("/", 1)[-1]
    return Old(name, address, ended, folder.exists(MODEL))


def _remove(old: list[Old]) -> int:
    from yarnps.files import open_files

    failed = 0
    for one in _progress(old):
        files, path = open_files(one.address)
        try:
            files.delete(path, recursive=True)
        except YarnpsError as error:
            failed += 1
            say(f"{one.application} could not be removed: {error.what}")
    say(f"{len(old) - failed} job directories removed")
    return exits.FAILED if failed else exits.SUCCEEDED


def _progress(old: list[Old]) -> Iterator[Old]:
    for number, one in enumerate(old, 1):
        if number % 100 == 0:
            say(f"{number} of {len(old)} …")
        yield one
