"""The status document of a job, put together from what its parts know."""

from __future__ import annotations

import dataclasses

from yarnps.am.job import JobMachine
from yarnps.am.shell.events import EventLog
from yarnps.am.shell.sentence import clock, sentence
from yarnps.am.shell.telemetry import Telemetry
from yarnps.am.training import plan as steps
from yarnps.am.training.crew import RoleProcess
from yarnps.status import Process, Progress, Status, TableInfo

# The page and the terminal want whom to worry about first.
_WORST_FIRST = {
    "failed": 0,
    "lost": 1,
    "restarting": 2,
    "requested": 3,
    "starting": 4,
    "running": 5,
    "finished": 6,
}

# Each process of ours sends its figures every second: a person hears of it when some are missing.
SILENT_S = 5.0

Quiet = list[tuple[RoleProcess, str]]  # of processes that say nothing: what a person should hear

_STATE_OF_PHASE = {"prepare": "PREPARING", "train": "TRAINING", "test": "EVALUATING"}


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What only the shell knows."""

    user: str
    cluster: str
    queue: str
    am_restarts: int = 0
    loop_lag_s: float = 0.0
    waiting_reason: str = ""


def build(
    machine: JobMachine,
    telemetry: Telemetry,
    events: EventLog,
    around: Surroundings,
    now: float,
    *,
    events_after: int = 0,
) -> Status:
    """The job as it is now."""
    config, course = machine.config, machine.training.course
    ledger, saver = course.ledger, course.saver
    progress = ledger.summary(now) if ledger else Progress(epochs=config.block.train.epochs)
    quiet = silent(machine, telemetry, now)
    rows = processes(machine, telemetry, quiet, now)
    status = Status(
        application=config.application,
        name=config.job.name,
        user=around.user,
        state=state_of(machine),
        sentence="",
        attempt=config.attempt,
        generation=machine.training.routes.generation,
        started=machine.started - course.elapsed_before,
        now=now,
        ended=machine.ended,
        job_dir=config.job_dir,
        model=config.model,
        cluster=around.cluster,
        queue=around.queue,
        runtime=config.block.runtime,
        app=config.block.app or "",
        progress=progress,
        metrics=dict(course.results.newest),
        best=course.history.best_metrics(),
        curves=course.results.curves(),
        rate=telemetry.rate_points(),
        processes=rows,
        events=events.after(events_after),
        waits=tuple(waits(machine, around, quiet, now)),
        outcome=machine.outcome,
        restarts=sum(row.deaths for row in rows),
        lost_rows=course.losses.rows,
        rows_pushed=saver.audited_rows if saver else None,
        last_cut=saver.cuts.newest_number if saver and saver.cuts.newest else None,
        last_cut_time=saver.last_cut_time if saver else None,
        am_restarts=around.am_restarts,
        am_loop_lag_s=around.loop_lag_s,
    )
    return dataclasses.replace(status, sentence=sentence(status))


def state_of(machine: JobMachine) -> str:
    """The job's state, in the words of `yarnps.status.STATES`."""
    if machine.outcome is not None:
        return machine.outcome.state
    if machine.programs is not None:
        return machine.programs.state
    course = machine.training.course
    writing = isinstance(course.step, steps.Export) and course.step.kind == steps.FINAL
    if course.over or writing or isinstance(course.step, steps.Publish):
        return "FINISHING"
    if course.ledger is None or course.ledger.epoch == 0:
        return "STARTING"
    return _STATE_OF_PHASE[course.ledger.phase]


def waits(machine: JobMachine, around: Surroundings, quiet: Quiet, now: float) -> list[str]:
    """What the job waits for at the moment, and until when."""
    if machine.outcome is not None:
        return []
    out = _missing(machine, around)
    out += [f"{member.name} {text}" for member, text in quiet]
    return out + (machine.programs.waits(now) if machine.programs is not None else [])


def silent(machine: JobMachine, telemetry: Telemetry, now: float) -> Quiet:
    """Processes of ours that live and say nothing, since when, and until when they may."""
    limits, words = machine.members.settings.limits, telemetry.last_words()
    out = []
    for member, limit in machine.training.expected_to_speak(limits.silence, limits.process_start):
        silence = now - words.get(member.id, now)
        if silence >= SILENT_S:
            text = f"has said nothing for {silence:.0f} s, and is replaced after {limit:.0f} s"
            out.append((member, text))
    return out


def _missing(machine: JobMachine, around: Surroundings) -> list[str]:
    """Containers and processes that are not there."""
    missing = machine.members.missing()
    if not missing:
        return []
    text = "waiting for " + ", ".join(missing[:5])
    if len(missing) > 5:
        text += f" and {len(missing) - 5} more"
    if not machine.members.all_up_once:
        until = machine.started + machine.config.block.start_timeout
        text += f", until {clock(until)} (start_timeout)"
    out = [text]
    if around.waiting_reason and any("has been asked for" in m for m in missing):
        out.append(around.waiting_reason)
    return out


def processes(
    machine: JobMachine, telemetry: Telemetry, quiet: Quiet, now: float
) -> tuple[Process, ...]:
    """One row per rank, those in trouble first."""
    notes = {(member.role, member.rank): text for member, text in quiet}
    rows = [
        _process(machine, telemetry, row, notes.get((row.role, row.rank), ""))
        for row in machine.members.processes(now)
    ]
    rows.sort(key=lambda p: (_WORST_FIRST.get(p.state, 3), p.role, p.rank))
    return tuple(rows)


def _process(machine: JobMachine, telemetry: Telemetry, row: Process, note: str) -> Process:
    """A row of the members with what the training side and the figures add."""
    live = list(machine.training.crew.of_rank(row.role, row.rank))
    figures = [telemetry.figures_of(member.id) for member in live]
    if not figures or machine.programs is not None:
        return row  # programs of other runtimes tell nothing
    tables: dict[str, TableInfo] = {}
    for table in (t for f in figures for t in f.tables):
        known = tables.get(table.name)
        tables[table.name] = table if known is None else known + table
    worker = row.role == "worker"
    return dataclasses.replace(
        row,
        note=row.note or note,
        rows=sum(member.rows for member in live),
        rows_per_s=sum(f.rows_per_s for f in figures) if worker else None,
        clock=max(f.clock for f in figures) if worker else None,
        idle_s=sum(f.idle_s for f in figures) if worker else None,
        late=sum(f.late for f in figures),
        tables=tuple(tables.values()),
    )
