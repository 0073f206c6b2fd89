"""`yarnps predict`: score a file with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from yarnps._errors import InputError
from yarnps.client import exits
from yarnps.client.output import OUTPUT, count, print_json, say


@click.command("predict")
@click.argument("model")
@click.argument("file")
@OUTPUT
@click.option(
    "--out",
    default="-",
    help="Where the scores go, one a line; without a scheme on this machine. Default: stdout.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=VALUE",
    help="Read the file another way than the model's job did, such as --set format=csv.",
)
def command(model: str, file: str, output: str, out: str, sets: tuple[str, ...]) -> int:
    """Score the records of FILE with MODEL (a folder that a job has written).

    Both may be on any file system; without a scheme they are in your home in HDFS where a cluster
    is configured, else on this machine. The file is read as the model's job read its input.
    """
    from yarnps.apps.predict import predict
    from yarnps.client.local_submit import here

    if output == "json" and out == "-":
        raise InputError("-o json and the scores would both go to stdout", "Give --out.")
    target = out if out == "-" else here(out, Path.cwd())
    result = predict(model, file, overrides(sets), target)
    if output == "json":
        print_json(result.as_json())
        return exits.SUCCEEDED
    left_out = f", {count(result.bad)} records left out" if result.bad else ""
    say(f"scores: {result.out}: {count(result.rows)} rows{left_out}")
    if result.metrics:
        say(", ".join(f"{name} {value:.6g}" for name, value in sorted(result.metrics.items())))
    if result.note:
        say(result.note)
    return exits.SUCCEEDED


def overrides(sets: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` pairs, values read as YAML does."""
    import yaml

    values: dict[str, Any] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"expected NAME=VALUE: {text!r}", "Such as --set format=csv")
        try:
            values[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"this value cannot be read: {text!r}: {error}") from error
    return values
