"""`yarnps logs`: what a job's containers have written."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from yarnps._errors import InputError, YarnpsError
from yarnps.client import clusters, exits, job, logs
from yarnps.client.cmd_attach import JOB_DIR
from yarnps.client.output import OUTPUT, print_json, say

FOLLOW_EVERY_S = 1.0


@click.command("logs")
@click.argument("application")
@clusters.CLUSTER
@JOB_DIR
@OUTPUT
@click.option("--role", help="Only this role: server, worker, or am.")
@click.option("--rank", type=int, help="Only this rank of the role.")
@click.option("--incarnation", type=int, help="Only this start of the rank, from 1.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=int, help="Only the last so many lines of each file.")
def command(
    application: str,
    cluster: str | None,
    job_dir: str | None,
    output: str,
    role: str | None,
    rank: int | None,
    incarnation: int | None,
    follow: bool,
    tail: int | None,
) -> int:
    """Print the output of a job's containers, while it runs and afterwards."""
    if rank is not None and role is None:
        raise InputError("--rank says nothing without a role", "Add --role worker or --role server")
    if incarnation is not None and rank is None:
        raise InputError("--incarnation says nothing without a rank", "Add --role and --rank")
    view = job.find(clusters.choose_for_job(application, cluster), application, job_dir)
    wanted = Wanted(view, role, rank, incarnation)
    try:
        chosen = wanted.files()
        if output == "json":
            print_json([_record(c, tail) for c in chosen])
        elif follow:
            _follow(wanted, tail)
        else:
            for one in chosen:
                _print(one, _last(one.file.read(), tail))
    finally:
        view.close()
    return exits.SUCCEEDED


class Wanted:
    """What was asked for; `files` finds it as things are now."""

    def __init__(
        self, view: job.JobView, role: str | None, rank: int | None, incarnation: int | None
    ) -> None:
        self.view = view
        self._role = role
        self._rank = rank
        self._incarnation = incarnation
        self.ended = False

    def files(self) -> list[logs.Chosen]:
        """The files; InputError when there are none."""
        sight = self.view.look()
        self.ended = sight.gone or (sight.report is not None and sight.report.ended)
        try:
            events = self.view.events()
        except YarnpsError as error:
            say(f"which container was whose is not known: {error.what}")
            events = []
        known = logs.owners(events, sight.status.processes if sight.status else ())
        chosen = logs.choose(
            logs.files_of(self.view, ended=self.ended),
            known,
            role=self._role,
            rank=self._rank,
            incarnation=self._incarnation,
        )
        if not chosen:
            roles = {f"{o.role} {o.rank}" for o in known.values()}
            raise InputError(
                "no container matches --role, --rank and --incarnation",
                f"There were: am, {', '.join(sorted(roles))}" if roles else "Try without them.",
            )
        return chosen


def _follow(wanted: Wanted, tail: int | None) -> None:
    """Print what is added to the files until the job ends."""
    printed: dict[tuple[str, str], int] = {}
    shown: tuple[str, str] | None = None
    while True:
        chosen = _if_any(wanted)
        ended = wanted.ended  # seen before reading: what was written till then is read below
        for one in chosen:
            key = (one.file.container, one.file.name)
            text = one.file.read()
            new = text[printed[key] :] if key in printed else _last(text, tail)
            printed[key] = len(text)
            if new:
                print(("" if shown == key else one.title() + "\n") + new, end="", flush=True)
                shown = key
        if ended:
            return
        time.sleep(FOLLOW_EVERY_S)


def _if_any(wanted: Wanted) -> Sequence[logs.Chosen]:
    """The files as they are now; none yet is no mistake while one waits for them."""
    try:
        return wanted.files()
    except InputError:
        if wanted.ended:
            raise
        return ()


def _record(one: logs.Chosen, tail: int | None) -> dict[str, object]:
    return {
        "role": one.owner.role if one.owner else None,
        "rank": one.owner.rank if one.owner else None,
        "container": one.file.container,
        "node": one.file.node,
        "file": one.file.name,
        "text": _last(one.file.read(), tail),
    }


def _last(text: str, lines: int | None) -> str:
    if lines is None:
        return text
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines > 0 else ""


def _print(one: logs.Chosen, text: str) -> None:
    print(one.title())
    print(text, end="" if text.endswith("\n") else "\n")
