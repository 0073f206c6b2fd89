"""The main job, from nothing to a model: what `make demo` runs.

    python specs/demo.py --data .data/flights [--cluster sandbox|local]

Starts a Hadoop of its own on this machine (two nodes), puts the flights into its HDFS, submits
``specs/flights.yaml``, checks the result and where the containers ran, and stops everything again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SPEC = Path(__file__).with_name("flights.yaml")
AUC_AT_LEAST, LOGLOSS_AT_MOST = 0.768, 0.456


@contextmanager
def sandbox(am_expiry_s: int = 20) -> Iterator[dict[str, str]]:
    """A Hadoop of its own in a temporary folder; yields the environment that points at it.

    Parameters
    ----------
    am_expiry_s
        So long an ApplicationMaster may need to come up.
    """
    from yarnps.client import sandbox as hadoop

    with tempfile.TemporaryDirectory(prefix="yarnps-demo-") as folder:
        home = Path(folder) / "sandbox"
        print("demo: starting HDFS and YARN with two nodes …", flush=True)
        running = hadoop.start(
            home,
            nodes=2,
            am_expiry_s=am_expiry_s,
            report=lambda line: print(f"  {line}", flush=True),
        )
        try:
            yield {**os.environ, **running.environ()}
        finally:
            hadoop.stop(home)
            print("demo: HDFS and YARN are stopped", flush=True)


def put_input(data: Path, env: dict[str, str]) -> None:
    """Copy the flights into HDFS."""
    for command in (["-mkdir", "-p", "flights"], ["-put", *map(str, parts(data)), "flights/"]):
        subprocess.run(["hdfs", "dfs", *command], env=env, check=True, timeout=300)
    print("demo: the flights are in HDFS, in the folder flights of your home folder", flush=True)


def parts(data: Path) -> list[Path]:
    """The folders of the task."""
    return [data / "train", data / "test"]


def submit(arguments: list[str], env: dict[str, str], folder: Path) -> dict[str, Any]:
    """Run `yarnps submit` before the user's eyes; returns its last object."""
    result = folder / "result.json"
    yarnps = str(Path(sys.executable).with_name("yarnps"))
    command = [yarnps, "submit", str(SPEC), *arguments]
    print(f"demo: yarnps {' '.join(command[1:])}", flush=True)
    with open(result, "w") as out:
        done = subprocess.run([*command, "-o", "json"], env=env, stdout=out, timeout=1800)
    text = result.read_text()
    if not text.strip():
        raise SystemExit(f"demo: submit ended with {done.returncode} and without a result")
    final: dict[str, Any] = json.loads(text)
    return final


def nodes_of(job_dir: str) -> dict[str, list[str]]:
    """Role to the nodes that its containers ran on, by the event log."""
    from yarnps.jobdir import JobDir

    nodes: dict[str, list[str]] = {}
    for event in JobDir(job_dir).events():
        if event["kind"] == "up":
            nodes.setdefault(event["role"], []).append(event["node"])
    return nodes


def check(final: dict[str, Any], nodes: dict[str, list[str]]) -> list[str]:
    """What is not as it should be."""
    metrics = final["metrics"]
    wrong = []
    if final["state"] != "SUCCEEDED":
        wrong.append(f"the job ended as {final['state']}: {final['cause']}")
    if metrics.get("test_auc", 0.0) < AUC_AT_LEAST:
        wrong.append(f"test_auc is below {AUC_AT_LEAST}")
    if metrics.get("test_logloss", 9.0) > LOGLOSS_AT_MOST:
        wrong.append(f"test_logloss is above {LOGLOSS_AT_MOST}")
    for role, count in (("server", 2), ("worker", 3)):
        if len(nodes.get(role, [])) < count:
            wrong.append(f"not {count} containers of role {role}: {nodes.get(role)}")
    if len({node for some in nodes.values() for node in some}) < 2:
        wrong.append(f"the containers were not on two nodes: {nodes}")
    return wrong


def run(data: Path, cluster: str) -> int:
    """The demo on one cluster; 0 when all is well."""
    with tempfile.TemporaryDirectory(prefix="yarnps-demo-") as folder:
        if cluster == "local":
            arguments = ["--cluster", "local"]
            for name in ("train", "test"):
                arguments += ["--set", f"yarnps.data.{name}=file://{data.resolve()}/{name}/*"]
            arguments += ["--set", f"yarnps.model.path={folder}/model"]
            return show(submit(arguments, dict(os.environ), Path(folder)))
        with sandbox() as env:
            put_input(data, env)
            final = submit(["--cluster", "yarn"], env, Path(folder))
            os.environ.update(env)  # the job directory is in the sandbox's HDFS
            return show(final)


def show(final: dict[str, Any]) -> int:
    """Tell the result; returns the exit status."""
    nodes = nodes_of(final["job_dir"])
    print(f"demo: {final['application']} {final['state']} after {final['elapsed_s']:.0f} s")
    for name, value in sorted(final["metrics"].items()):
        print(f"  {name:14} {value:.4f}")
    print(f"  model          {final['model']}")
    print(f"  rows           {final['rows']:,} ({final['rows_per_s']:,.0f}/s)")
    for role, some in sorted(nodes.items()):
        print(f"  {role:14} on {', '.join(some)}")
    wrong = check(final, nodes)
    for text in wrong:
        print(f"demo: WRONG: {text}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="made by specs/flights_data.py")
    parser.add_argument("--cluster", choices=("sandbox", "local"), default="sandbox")
    options = parser.parse_args()
    sys.exit(run(options.data, options.cluster))


if __name__ == "__main__":
    main()
