"""The first thing that a person reads about a job, as one sentence."""

from __future__ import annotations

import time

from yarnps.status import Status


def duration(seconds: float) -> str:
    """A length of time as a person would say it: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock(when: float) -> str:
    """A time of day, in UTC."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(when))


def metrics_text(metrics: dict[str, float]) -> str:
    """Metrics as ``name value`` pairs."""
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(metrics.items()))


def sentence(status: Status) -> str:
    """The sentence for `status`, whose own `sentence` is not looked at."""
    if status.outcome is not None:
        return _ended(status)
    if status.state == "STARTING":
        return "Starting: " + ("; ".join(status.waits) or "the processes are being got ready") + "."
    if status.state == "PREPARING":
        p = status.progress
        text = "Preparing: a pass over the training input before the first epoch"
        return _with_waits(f"{text}: {p.splits_done} of {p.splits_total} splits", status)
    if status.runtime != "native":
        return _with_waits(_programs(status), status)
    if status.state == "TRAINING":
        return _with_waits(_training(status), status)
    if status.state == "EVALUATING":
        p = status.progress
        text = f"Evaluating the model after epoch {p.epoch} of {p.epochs}"
        return _with_waits(f"{text}: {p.splits_done} of {p.splits_total} splits", status)
    return _with_waits(f"Finishing: the model is being written to {status.model}", status)


def _with_waits(text: str, status: Status) -> str:
    return text + "".join(f"; {wait}" for wait in status.waits) + "."


def _programs(status: Status) -> str:
    """Of programs whose progress nobody but they themselves know."""
    up = sum(process.state == "running" for process in status.processes)
    through = sum(process.state == "finished" for process in status.processes)
    what = "Finishing" if status.state == "FINISHING" else "Training"
    text = f"{what}: {up} of {len(status.processes)} programs run"
    return f"{text}, {through} are through" if through else text


def _training(status: Status) -> str:
    p = status.progress
    text = f"Training: epoch {p.epoch} of {p.epochs}, {p.rows:,} rows"
    if p.rows_total:
        text += f" of {p.rows_total:,} ({100 * p.fraction:.0f} %)"
    text += f", {p.rows_per_s:,.0f} rows/s"
    if p.seconds_left is not None:
        text += f", {duration(p.seconds_left)} left"
        text += f" (until about {clock(status.now + p.seconds_left)})"
    return text


def _ended(status: Status) -> str:
    outcome = status.outcome
    assert outcome is not None
    took = duration((status.ended or status.now) - status.started)
    if outcome.state == "SUCCEEDED":
        text = f"Succeeded after {took}"
        if outcome.skipped_splits:
            text += f" with {outcome.skipped_splits} splits of the input skipped"
        if status.lost_rows:
            text += f", with the pushes of {status.lost_rows:,} rows lost in shards of dead servers"
        if status.metrics:
            text += f": {metrics_text(status.best or status.metrics)}"
        return f"{text}; the model is in {status.model}." if status.model else f"{text}."
    if outcome.state == "KILLED":
        return f"Killed after {took}: {outcome.cause}".rstrip(".") + "."
    return f"Failed after {took}: {outcome.cause}".rstrip(".") + "."
