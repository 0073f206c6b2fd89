"""`yarnps nearest`: the words nearest to one."""

from __future__ import annotations

import click

from yarnps.client import exits
from yarnps.client.output import OUTPUT, print_json, table


@click.command("nearest")
@click.argument("model")
@click.argument("word")
@OUTPUT
@click.option(
    "-n", "count", type=click.IntRange(1), default=10, show_default=True, help="How many."
)
def command(model: str, word: str, output: str, count: int) -> int:
    """Words whose vectors are nearest to that of WORD, by the cosine between them.

    MODEL is a folder that a job with `app: word2vec` has written, or a file in word2vec's text or
    binary format, on any file system.
    """
    from yarnps.apps.word2vec.vectors import read

    found = read(model).nearest(word, count)
    if output == "json":
        print_json([neighbour._asdict() for neighbour in found])
    else:
        print(table(("word", "cosine"), [(n.word, f"{n.cosine:.4f}") for n in found]))
    return exits.SUCCEEDED
