"""`yarnps sandbox`: a real Hadoop on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from yarnps.client import sandbox as sandboxes

_home = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the sandbox (default: $YARNPS_SANDBOX_HOME or ~/.yarnps/sandbox).",
)
_output = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of what is printed.",
)


@click.group(name="sandbox")
def command() -> None:
    """Run a real Hadoop (HDFS and YARN) on this machine.

    The daemons come from Maven's artifacts, listen on loopback only, and need no root.
    """


@command.command()
@_home
@_output
@click.option("--nodes", type=click.IntRange(1, 200), default=2, show_default=True, metavar="N")
@click.option(
    "--node-memory",
    type=click.IntRange(min=256),
    default=6144,
    show_default=True,
    metavar="MB",
    help="What each node offers to containers.",
)
@click.option("--node-vcores", type=click.IntRange(min=1), default=8, show_default=True)
@click.option(
    "--am-expiry",
    type=click.IntRange(min=5),
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="An ApplicationMaster that says nothing for so long, also at its start, is lost. On a "
    "machine with much other work: more.",
)
def start(
    home: Path | None,
    output: str,
    nodes: int,
    node_memory: int,
    node_vcores: int,
    am_expiry: int,
) -> None:
    """Start it and wait until it works."""
    # Standard output holds the result only.
    sandbox = sandboxes.start(
        home,
        nodes,
        report=lambda line: click.echo(line, err=True),
        node_memory_mb=node_memory,
        node_vcores=node_vcores,
        am_expiry_s=am_expiry,
    )
    _print_status(sandboxes.status(sandbox.home), output)


@command.command()
@_home
@_output
def status(home: Path | None, output: str) -> None:
    """Say what runs and where the resource manager's page is (exit status 3: nothing runs)."""
    found = sandboxes.status(home)
    _print_status(found, output)
    if not found.running:
        click.get_current_context().exit(3)


@command.command()
@_home
def stop(home: Path | None) -> None:
    """Stop it and remove its folder; the downloaded jars stay."""
    click.echo("stopped" if sandboxes.stop(home) else "nothing to stop")


@command.command()
@_home
def env(home: Path | None) -> None:
    """Print what a shell needs to use it: eval "$(yarnps sandbox env)"."""
    sandbox = sandboxes.find_running(home)
    if sandbox is None:
        raise sandboxes.SandboxError(
            f"no sandbox runs in {sandboxes.resolve_home(home)}",
            "Start one with `yarnps sandbox start`.",
        )
    click.echo(sandbox.shell_exports())


def as_json(found: sandboxes.SandboxStatus) -> dict[str, Any]:
    """Return a status as plain JSON data."""
    data = asdict(found)
    data["nodes"] = [node._asdict() for node in found.nodes]
    return data


def _print_status(found: sandboxes.SandboxStatus, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(as_json(found), default=str, indent=1))
        return
    if not found.running:
        click.echo(f"no sandbox runs in {found.home}")
        if found.daemons:
            click.echo("An earlier one left its folder; the next start or stop removes it.")
        return
    click.echo(f"resource manager  {found.rm_page}")
    click.echo(f"HDFS              {found.fs_default}")
    click.echo(f"configuration     {found.conf_dir}")
    for node in found.nodes:
        click.echo(
            f"node {node.address}   {node.state}, {node.containers} containers, "
            f"{node.memory_used_mb} of {node.memory_mb} MB, "
            f"{node.vcores_used} of {node.vcores} vcores"
        )
    if not found.nodes:
        click.echo("nodes             unknown: the resource manager does not answer")
    for daemon in found.daemons:
        if not daemon.alive:
            click.echo(f"{daemon.name} is dead; its log: {daemon.log}")
    click.echo('Use it from a shell:  eval "$(yarnps sandbox env)"')
