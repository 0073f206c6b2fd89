"""`yarnps render`: what a job file becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from yarnps.client import exits
from yarnps.client.cmd_submit import SET
from yarnps.client.output import OUTPUT, print_json, table


@click.command("render")
@click.argument("file", type=click.Path(path_type=Path))
@SET
@OUTPUT
@click.option("--sources", is_flag=True, help="Every value and where it came from, instead.")
def command(file: Path, sets: tuple[str, ...], output: str, sources: bool) -> int:
    """Print the skein specification that a job file becomes.

    No key is in it, and the values of variables whose names say that they hold a secret are
    masked.
    """
    from yarnps.spec import load, masked, masked_job

    job = load(file, sets=sets)
    if sources:
        rows = masked_job(job).sources()
        if output == "json":
            print_json([row._asdict() for row in rows])
        else:
            print(table(("PATH", "VALUE", "FROM"), [(p, _short(v), o) for p, v, o in rows]))
        return exits.SUCCEEDED
    specification = masked(_rendered(job))
    if output == "json":
        print_json(specification)
    else:
        import yaml

        print(yaml.safe_dump(specification, sort_keys=False, width=100), end="")
    return exits.SUCCEEDED


def _rendered(job: Any) -> Any:
    """As it would be submitted, with names in place of addresses that only submitting makes."""
    from yarnps.client import environments, submission
    from yarnps.client.local import JOB_FILE
    from yarnps.spec import RenderParts, render

    if job.block is None:
        return render(job)
    environment = environments.describe(job.block.environment)
    files = {**environment.files, submission.PACKAGE_FOLDER: "<yarnps, as an archive>"}
    script = environment.script()
    job_file = {JOB_FILE: "<the job file, as checked>"}
    return render(
        job,
        RenderParts(
            files=files,
            master_files={**files, **job_file},
            setup=script,
            master_setup=script,
            python='"$PYTHON"',
            master_python='"$PYTHON"',
            env=environment.env,
            master_env=environment.env,
        ),
    )


def _short(value: object) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
