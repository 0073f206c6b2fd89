"""What `bench/drill.py` has done, as records that can be kept in a file, and as markdown."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Planned:
    """A kill: so long after the training's begin, this process."""

    after_s: float
    kind: str  # role, agent, am
    role: str = ""
    rank: int = -1

    @property
    def name(self) -> str:
        """For the report."""
        if self.kind == "am":
            return "ApplicationMaster"
        return f"{self.role} {self.rank}" + (", its agent" if self.kind == "agent" else "")


@dataclass
class Kill:
    """A kill that was done. `recovery_s` None: the job ended before the rank was needed again."""

    planned: Planned
    time: float
    recovery_s: float | None = None


@dataclass
class Run:
    """One run and what came of it. `model`: a fingerprint of all values in the model."""

    seed: int
    revision: str
    application: str = ""
    kills: list[Kill] = field(default_factory=list)
    state: str = ""
    auc: float = 0.0
    rows: int | None = None
    model: str = ""
    elapsed_s: float = 0.0
    replayed: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        """What is wrong with it, or how it ended."""
        return "; ".join(self.wrong) or self.state

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(line: str) -> Run:
        """The inverse of `to_json`."""
        data = json.loads(line)
        kills = [Kill(**{**kill, "planned": Planned(**kill["planned"])}) for kill in data["kills"]]
        return Run(**{**data, "kills": kills})


def kept(path: Path | None) -> dict[int, Run]:
    """Earlier runs, by their seeds."""
    if path is None or not path.exists():
        return {}
    return {run.seed: run for run in map(Run.from_json, path.read_text().splitlines())}


def report(runs: Sequence[Run], cluster: str, mode: str, about: str) -> str:
    """The report as markdown. `about`: what each run trains, and what is right."""
    right = sum(not run.wrong for run in runs)
    kills = [kill for run in runs for kill in run.kills]
    revisions = ", ".join(dict.fromkeys(run.revision for run in runs))
    lines = [
        f"# Drill, sync.mode {mode}, cluster {cluster}",
        "",
        f"Revision {revisions}, {time.strftime('%Y-%m-%d %H:%M')} UTC, {os.cpu_count()} cores. "
        f"{right} of {len(runs)} runs right, {len(kills)} kills with SIGKILL. Again: "
        f"`python -m bench.drill --cluster {cluster} --mode {mode} --runs {len(runs)} "
        f"--seed {runs[0].seed}`.",
        "",
        about,
        "",
        "| killed | times | recovery, median s | longest s |",
        "| --- | --- | --- | --- |",
        *recoveries(kills),
        "",
        "| seed | kills (seconds to recovery) | result | AUC | model | rows counted | replayed "
        "| seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        done = ", ".join(f"{k.planned.name} ({seconds(k.recovery_s)})" for k in run.kills)
        lines.append(
            f"| {run.seed} | {done or 'none'} | {run.result} | {run.auc:.4f} | {run.model} | "
            f"{run.rows or 0:,} | {run.replayed:,} | {run.elapsed_s:.0f} |"
        )
    return "\n".join(lines) + "\n"


def recoveries(kills: Sequence[Kill]) -> Iterator[str]:
    """One line for each kind of victim."""
    kinds = sorted({(kill.planned.role, kill.planned.kind) for kill in kills})
    for role, kind in kinds:
        some = [k for k in kills if (k.planned.role, k.planned.kind) == (role, kind)]
        times = [k.recovery_s for k in some if k.recovery_s is not None]
        name = {"am": "ApplicationMaster", "agent": f"a {role}'s agent"}.get(kind, f"a {role}")
        middle = f"{statistics.median(times):.1f}" if times else "–"
        yield f"| {name} | {len(some)} | {middle} | {seconds(max(times, default=None))} |"


def seconds(value: float | None) -> str:
    """A time, or a dash where the job had ended before."""
    return "–" if value is None else f"{value:.1f}"


def revision() -> str:
    """Of the source, with a mark when it was changed."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    return done.stdout.strip() or "unknown"
