"""`yarnps schema`: the JSON schema of job files."""

from __future__ import annotations

import click

from yarnps.client import exits
from yarnps.client.output import OUTPUT, print_json


@click.command("schema")
@OUTPUT
def command(output: str) -> int:
    """Print the JSON schema of job files (it is JSON in either case).

    An editor that knows it completes keys and marks mistakes while you type.
    """
    from yarnps.spec import json_schema

    print_json(json_schema())
    return exits.SUCCEEDED
