"""Pure helpers of `Members`: judging one rank, and putting it into words."""

from __future__ import annotations

import dataclasses
import hmac
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from yarnps.am.resources import decode
from yarnps.am.resources.decisions import (
    Died,
    Expiry,
    Incarnation,
    Limits,
    Note,
    RolePlan,
    Work,
)
from yarnps.am.resources.decode import Ending, Memory
from yarnps.am.resources.hearing import Vitals
from yarnps.am.resources.ranks import WITH_AGENT, ProcessState, Rank
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb
from yarnps.status import Process


def refusal(reg: pb.Register, rank: Rank | None, version: str) -> str:
    """Why an agent's registration is refused; empty: it is not."""
    if reg.version != version:
        return (
            f"this agent is of yarnps {reg.version or 'unknown'} and the ApplicationMaster of "
            f"{version}: the job's own package must come first on PYTHONPATH in the container"
        )
    if rank is None:
        return f"this job has no {reg.role or 'role'} {reg.rank}"
    if not rank.nonce or rank.phase in ("failed", "stopped"):
        return f"no container is wanted for {rank.name} now: {rank.note or rank.phase}"
    if not hmac.compare_digest(reg.nonce.encode(), rank.nonce.encode()):
        return (
            f"container {reg.container} is not the one for {rank.name}: its nonce is not that of "
            "the current request"
        )
    if rank.container and rank.container != reg.container:
        return f"the container for {rank.name} is {rank.container} and not {reg.container}"
    return ""


def exit_of(
    role: str, state: ProcessState | None, exited: pb.RoleExited, memory: Memory, work: Work
) -> Ending | None:
    """How a process ended; None: well, and its rank is through."""
    if work.needless:
        return None
    if exited.ordered:
        return Ending(Cause.OUR_KILL, "ended by order of the ApplicationMaster")
    if state is not None and state.error:
        return decode.program_failed(state.error, state.traceback, user_error=state.user_error)
    if (code := exited.exit_code) != 0:
        ending = decode.process_ended(code, exited.output_tail, memory)
        return dataclasses.replace(ending, exit_code=128 - code if code < 0 else code)
    if work.by_itself:
        return work.complaint
    if role != "worker":
        return Ending(Cause.EXIT, "its program ended with exit status 0, and nobody had told it to")
    if not work.input_left:
        return None
    if not work.asked:
        return Ending(
            Cause.NO_INPUT_READ,
            "its program ended with exit status 0 without having asked for its input; it must loop "
            "over job.data() until that ends",
            certain=True,
        )
    return Ending(
        Cause.EXIT,
        f"its program ended with exit status 0 before the input was done, after {work.rows:,} rows",
    )


def overdue(
    ranks: Collection[Rank],
    plans: Mapping[str, RolePlan],
    vitals_of: Callable[[str], Vitals | None],
    now: float,
    limits: Limits,
    has_files: Callable[[str], bool],
) -> list[Expiry]:
    """The limits that have run out, at most one per rank."""
    kinds = {
        rank.name: _overdue(
            rank, plans[rank.role], vitals_of(rank.container), now, limits, has_files
        )
        for rank in ranks
    }
    registered = [(r.node, v) for r in ranks if (v := vitals_of(r.container)) and v.registered]
    silent = Counter(node for node, v in registered if v.silent_s >= limits.silence / 2)
    heard = {node for node, v in registered if v.silent_s < limits.silence / 2}
    out = []
    for rank in ranks:
        kind = kinds[rank.name]
        if kind == "silence" and silent[rank.node] > 1 and rank.node not in heard:
            # Several containers and none of them heard: the node, long before YARN says so.
            kind = "node"
        if kind:
            out.append(Expiry(kind, rank.role, rank.rank, rank.container))
    return out


def _overdue(
    rank: Rank,
    plan: RolePlan,
    vitals: Vitals | None,
    now: float,
    limits: Limits,
    has_files: Callable[[str], bool],
) -> str:
    """Which limit of a rank has run out; empty: none."""
    if rank.ended:
        return ""
    if rank.up_by is not None and now >= rank.up_by:
        return "up"
    if rank.phase == "waiting":
        return "ask" if rank.ask_at is not None and now >= rank.ask_at else ""
    if vitals is None:
        return ""
    if rank.phase == "granted":
        # On a node that is new to the job its files are fetched first.
        limit = limits.register if has_files(rank.node) else limits.localise
        return "register" if vitals.silent_s >= limit else ""
    if rank.phase in WITH_AGENT and vitals.silent_s >= limits.silence:
        return "silence"
    if not vitals.connected:
        return ""
    if rank.told_at is not None and now >= rank.told_at + limits.process_start:
        return "process"
    return "hello" if plan.own_program and _mute(rank, vitals, now, limits.hello) else ""


def _mute(rank: Rank, vitals: Vitals, now: float, limit: float) -> bool:
    """Whether its processes run for so long and one has not said hello.

    An agent that has come back repeats what we may have missed: the time counts anew.
    """
    if rank.phase != "running" or rank.up or rank.running_since is None:
        return False
    return now >= max(rank.running_since, vitals.registered_at) + limit


def expired(kind: str, rank: Rank, limits: Limits) -> Ending:
    """The ending that a limit means."""
    if kind == "node":
        text = f"no container of this job on {rank.node} was heard of for {limits.silence:.0f} s"
        return Ending(Cause.NODE_LOST, text)
    if kind == "silence":
        text = f"its container was not heard of for {limits.silence:.0f} s"
        return Ending(Cause.SILENT, text)
    if kind == "register":
        text = f"its container runs on {rank.node or 'a node'}, but its agent has not registered"
        return Ending(Cause.LAUNCH, text)
    if kind == "frozen":
        text = f"its process has said nothing for {limits.silence:.0f} s, though its agent lives"
        return Ending(Cause.SILENT, text)
    if kind == "unheard":
        text = "what it said was lost with the ApplicationMaster's process, and it waits for ever"
        return Ending(Cause.OUR_KILL, text)
    if kind == "barrier":
        text = "others have waited for it at a barrier for too long (dmlc.barrier_limit)"
        return Ending(Cause.SILENT, text)
    if kind == "tracker":
        text = "XGBoost's tracker has given its workers up, and its program did not end"
        return Ending(Cause.SILENT, text)
    if kind == "stuck":
        text = f"it has work and has committed nothing for {limits.batch:.0f} s (train.batch_limit)"
        return Ending(Cause.SILENT, text)
    if kind == "hello":
        text = (
            f"its process has run for {limits.hello:.0f} s and not said hello, though its agent "
            "lives"
        )
        return Ending(Cause.SILENT, text)
    text = f"its agent has not started its process within {limits.process_start:.0f} s"
    return Ending(Cause.LAUNCH, text)


def death(
    rank: Rank,
    incarnations: tuple[Incarnation, ...],
    ending: Ending,
    *,
    in_place: bool,
    charged: bool,
) -> Died:
    """The decision record of a death."""
    return Died(
        role=rank.role,
        rank=rank.rank,
        container=rank.container,
        incarnations=incarnations,
        cause=ending.cause,
        text=ending.text,
        node=rank.node,
        restarting_in_place=in_place,
        charged=charged,
        deaths=rank.deaths,
        traceback=ending.traceback,
        exit_code=ending.exit_code,
    )


def final_words(rank: Rank, ending: Ending) -> tuple[Cause, str]:
    """Cause and sentence of giving up."""
    if ending.certain or not rank.budget.exhausted:
        return ending.cause, f"{rank.name}: {ending.text}"
    most = rank.budget.max_restarts
    tries = (
        "no restarts are allowed (max_restarts 0)"
        if most == 0
        else (f"it has used up its {most} restarts (max_restarts)")
    )
    return rank.budget.final_cause(ending.cause), f"{rank.name}: {ending.text}; {tries}"


def note(rank: Rank, text: str) -> Note:
    """A note about a rank."""
    return Note(f"{rank.name}: {text}", rank.role, rank.rank, rank.container)


def missing(ranks: Iterable[Rank]) -> list[str]:
    """Who is not up and why."""
    return [f"{r.name} ({waits_for(r)})" for r in ranks if not r.up and not r.ended]


def some_of(texts: Sequence[str], most: int = 5) -> str:
    """The first few of many, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def waits_for(rank: Rank) -> str:
    """What a rank that is not up waits for."""
    where = f" on {rank.node}" if rank.node else ""
    if rank.phase == "asked":
        return "its container has been asked for and not been granted"
    if rank.phase == "granted":
        return f"its container{where} has started and its agent has not registered"
    if rank.phase == "waiting":
        return f"its container is asked for again soon: {rank.note}" if rank.note else "not asked"
    if rank.phase == "starting":
        return f"its process{where} has not started"
    if rank.phase == "restarting":
        return f"its process{where} is started again: {rank.note}"
    return f"its process{where} runs but {rank.joins}"


STATES = {
    "waiting": "restarting",
    "asked": "requested",
    "granted": "starting",
    "stopped": "finished",
}


def row(rank: Rank, vitals: Vitals | None, memory_limit: int | None, now: float) -> Process:
    """A rank for the status document."""
    state = STATES.get(rank.phase, rank.phase)
    note = rank.note
    if rank.phase == "waiting" and rank.ask_at is not None:
        wait = max(0.0, rank.ask_at - now)
        note = f"asked for again in {wait:.0f} s: {rank.note}"
    elif rank.phase in ("asked", "granted", "starting") or (
        rank.phase == "running" and not rank.up
    ):
        note = waits_for(rank)
    if (
        rank.phase in WITH_AGENT
        and vitals is not None
        and vitals.registered
        and not vitals.connected
    ):
        state = "lost"
        note = f"its agent is gone; not heard of for {vitals.silent_s:.0f} s"
    container, node, logs = (
        (rank.container, rank.node, rank.log_url) if rank.container else rank.last
    )
    return Process(
        role=rank.role,
        rank=rank.rank,
        state=state,
        node=node,
        container=container,
        incarnation=rank.starts,
        cpu_percent=vitals.cpu_percent if vitals else None,
        memory=vitals.memory if vitals else None,
        memory_peak=vitals.memory_peak if vitals else None,
        memory_limit=memory_limit,
        last_heard=vitals.last_heard if vitals else None,
        deaths=rank.deaths,
        note=note,
        logs=logs,
    )
