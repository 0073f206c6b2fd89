"""Status documents of jobs that never ran, for the page's tests."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from typing import Any

from yarnps.status import Event, Outcome, Point, Process, Progress, Status, TableInfo

MIB = 2**20
APPLICATION = "application_1764500000000_0007"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
  File "train.py", line 33, in main
    w.push(batch.keys, gradient(v, batch) / batch.size)
ZeroDivisionError: division by zero"""


def start_of(now: float | None, ago: float) -> tuple[float, float]:
    """The time now, and the start of a job that began `ago` seconds before."""
    at = time.time() if now is None else now
    return at, at - ago


def status(**fields: Any) -> Status:
    """A status with what every test wants to have."""
    now = fields.pop("now", None) or time.time()
    base: dict[str, Any] = {
        "application": APPLICATION,
        "name": "flights",
        "user": "ana",
        "state": "STARTING",
        "sentence": "Starting: the input is being listed.",
        "started": now - 12,
        "now": now,
        "job_dir": f"hdfs://127.0.0.1:9000/user/ana/.yarnps/{APPLICATION}",
        "model": "hdfs://127.0.0.1:9000/models/flights/2025-11-30",
        "cluster": "yarn",
        "queue": "default",
        "app": "ftrl",
    }
    return Status(**{**base, **fields})


def process(role: str, rank: int, state: str = "running", **fields: Any) -> Process:
    """A container with plausible figures."""
    rng = random.Random(f"{role}{rank}")
    now = fields.pop("now", None) or time.time()
    base: dict[str, Any] = {
        "node": f"127.0.0.{11 + rank % 2}",
        "container": f"{role}_{rank}",
        "incarnation": 1,
        "logs": f"http://127.0.0.{11 + rank % 2}:8042/node/containerlogs/{role}_{rank}/ana",
        "memory_limit": 1024 * MIB,
    }
    if state == "running":
        memory = rng.randint(180, 420) * MIB
        base |= {
            "cpu_percent": rng.uniform(40, 99),
            "memory": memory,
            "memory_peak": memory + rng.randint(5, 90) * MIB,
            "last_heard": now - rng.uniform(0, 2),
        }
        if role == "worker":
            base |= {
                "rows_per_s": rng.uniform(11000, 16000),
                "rows": 120000 + rng.randint(0, 9000),
                "clock": 60 + rng.randint(0, 4),
                "idle_s": rng.uniform(0, 3),
            }
        else:
            base["tables"] = (TableInfo("w", 524288, 12 * MIB),)
    return Process(role, rank, state, **{**base, **fields})


class Story:
    """Events in order, numbered."""

    def __init__(self, first: int = 1) -> None:
        self.events: list[Event] = []
        self._first = first

    def tell(self, at: float, kind: str, text: str, **fields: Any) -> None:
        """One more thing that happened."""
        self.events.append(Event(self._first + len(self.events), at, kind, text, **fields))


def starting(now: float | None = None) -> Status:
    """Waits for containers that the queue does not give."""
    now, began = start_of(now, 41)
    story = Story()
    story.tell(began, "start", f"attempt 1 of {APPLICATION} has started")
    story.tell(began + 2, "input", "input: 12 splits of 4 files to train on, 3 to test on")
    story.tell(began + 9, "grant", "server 0: container granted on 127.0.0.11", role="server")
    wait = "waiting for worker 1, worker 2 (has been asked for 29 s ago), until 13:10:41 UTC"
    reason = "queue default: 3 GiB of 4 GiB used, 2 containers of 1 GiB asked for"
    return status(
        now=now,
        started=began,
        sentence=f"Starting: {wait} (start_timeout); {reason}.",
        waits=(f"{wait} (start_timeout)", reason),
        progress=Progress(epochs=2),
        processes=(
            process("worker", 1, "requested", node="", incarnation=0, note="asked for 29 s ago"),
            process("worker", 2, "requested", node="", incarnation=0, note="asked for 29 s ago"),
            process("worker", 0, "starting", note="waits for the environment to be unpacked"),
            process("server", 0, now=now),
        ),
        events=tuple(story.events),
    )


def _training_story(now: float, began: float) -> Story:
    story = Story()
    tell = story.tell
    tell(began, "start", f"attempt 1 of {APPLICATION} has started")
    tell(began + 2, "input", "input: 12 splits of 4 files to train on, 3 to test on")
    for rank in range(2):
        tell(began + 8, "grant", f"server {rank}: container granted on 127.0.0.{11 + rank}")
    for rank in range(3):
        tell(began + 9.5, "grant", f"worker {rank}: container granted on 127.0.0.{11 + rank % 2}")
        tell(began + 12 + rank, "up", f"worker {rank} has started on 127.0.0.{11 + rank % 2}")
    tell(began + 15, "epoch", "epoch 1 of 3: training begins, 12 splits", data=_epoch(1, "train"))
    tell(began + 16, "first_push", "worker 1: first push acknowledged", role="worker", rank=1)
    tell(began + 60, "save", "cut 1 saved (24 MiB, interval)", data={"cut": 1})
    tell(
        began + 84,
        "death",
        "worker 2 died on 127.0.0.11: over its memory limit: 1.1 GiB used of 1 GiB allowed",
        role="worker",
        rank=2,
        node="127.0.0.11",
        data={"cause": "memory", "charged": True},
    )
    tell(began + 89, "grant", "worker 2: container granted on 127.0.0.12")
    tell(began + 93, "up", "worker 2 has started on 127.0.0.12")
    tell(began + 120, "save", "cut 2 saved (24 MiB, interval)", data={"cut": 2})
    tell(began + 124, "epoch", "epoch 1 of 3: evaluation begins, 3 splits", data=_epoch(1, "test"))
    tell(began + 131, "metric", "after epoch 1: test_auc 0.7612, test_logloss 0.4621")
    tell(began + 132, "epoch", "epoch 2 of 3: training begins, 12 splits", data=_epoch(2, "train"))
    tell(began + 150, "am_restart", "the ApplicationMaster's process is back")
    tell(began + 180, "save", "cut 3 saved (24 MiB, interval)", data={"cut": 3})
    return story


def _epoch(epoch: int, phase: str) -> dict[str, Any]:
    return {"epoch": epoch, "phase": phase, "splits": 12}


def _rate(began: float, until: float) -> tuple[Point, ...]:
    rng = random.Random(5)
    out, at = [], began + 14.0
    while at < until:
        value = min(1.0, (at - began - 14) / 8) * 41000 + rng.gauss(0, 900)
        if 84 < at - began < 95:
            value *= 0.66
        if 124 < at - began < 132:
            value = 9000 + rng.gauss(0, 300)
        if not 146 < at - began < 151:
            out.append(Point(at, max(0.0, value)))
        at += 1.0
    return tuple(out)


def training(now: float | None = None) -> Status:
    """Three workers and two servers in their second epoch; one worker has died before."""
    now, began = start_of(now, 200)
    rows, total = 447300, 785631
    curves = {
        "test_auc": (Point(began + 131, 0.7612, 1),),
        "test_logloss": (Point(began + 131, 0.4621, 1),),
        "loss": tuple(
            Point(began + 16 + i, 0.45 + 0.24 * math.exp(-i / 30) + 0.01 * math.sin(i), 1)
            for i in range(180)
        ),
    }
    return status(
        now=now,
        started=began,
        state="TRAINING",
        sentence="Training: epoch 2 of 3, 447,300 rows of 785,631 (57 %), 40,812 rows/s, "
        "8 s left (until about 13:10:41 UTC).",
        progress=Progress(
            epoch=2,
            epochs=3,
            splits_done=8,
            splits_total=12,
            splits_leased=4,
            rows=rows,
            rows_total=total,
            fraction=rows / total,
            rows_per_s=40812.0,
            seconds_left=8.3,
        ),
        metrics={"test_auc": 0.7612, "test_logloss": 0.4621, "loss": curves["loss"][-1].value},
        best={"test_auc": 0.7612, "test_logloss": 0.4621},
        curves=curves,
        rate=_rate(began, now),
        processes=(
            process("worker", 2, now=now, incarnation=2, deaths=1, memory_peak=1010 * MIB),
            process("worker", 0, now=now),
            process("worker", 1, now=now),
            process("server", 0, now=now),
            process("server", 1, now=now),
        ),
        events=tuple(_training_story(now, began).events),
        restarts=1,
        last_cut=3,
        last_cut_time=began + 180,
        am_restarts=1,
    )


def later(before: Status, seconds: float = 5.0) -> Status:
    """The same job some time on: as after the return of the ApplicationMaster, which has lost the
    curve of the rate and goes on with the numbers of the events.
    """
    now = before.now + seconds
    story = Story(first=before.events[-1].seq + 1)
    story.tell(now - 1, "am_restart", "the ApplicationMaster's process is back again")
    return dataclasses.replace(
        before,
        now=now,
        sentence="Training: epoch 2 of 3, 600,000 rows of 785,631 (76 %), 40,812 rows/s.",
        progress=dataclasses.replace(before.progress, rows=600000, fraction=0.76),
        events=(*before.events, *story.events),
        rate=(Point(now - 1, 39000.0), Point(now, 40000.0)),
        am_restarts=before.am_restarts + 1,
    )


def large(count: int = 500, now: float | None = None) -> Status:
    """As `training`, with `count` containers, some of them in trouble, and many events."""
    base = training(now)
    rng = random.Random(1)
    servers = count // 10
    rows = [process("server", rank, now=base.now) for rank in range(servers)]
    rows += [process("worker", rank, now=base.now) for rank in range(count - servers)]
    rows = [
        dataclasses.replace(row, node=f"rack{rng.randint(1, 9)}-node{rng.randint(10, 99)}.example")
        for row in rows
    ]
    gone = "exited with 137 (killed by the kernel for its memory); asked for again in 4 s"
    rows[-1] = dataclasses.replace(rows[-1], state="failed", deaths=4, incarnation=4, note=gone)
    rows[-2] = dataclasses.replace(rows[-2], state="restarting", deaths=1, incarnation=2, note=gone)
    rows[-3] = dataclasses.replace(rows[-3], state="lost", last_heard=base.now - 48)
    order = {"failed": 0, "lost": 1, "restarting": 2}
    rows.sort(key=lambda p: (order.get(p.state, 3), p.role, p.rank))
    story = Story()
    for row in rows:
        text = f"{row.role} {row.rank}: container granted on {row.node}"
        story.tell(base.started + 8 + rng.random() * 9, "grant", text, role=row.role, rank=row.rank)
    story.events.sort(key=lambda e: e.time)
    told = [dataclasses.replace(e, seq=i) for i, e in enumerate([*story.events, *base.events], 1)]
    kept = tuple(told[-500:])
    return dataclasses.replace(base, processes=tuple(rows), events=kept, restarts=5)


def failed(now: float | None = None) -> Status:
    """A user's script has raised, on every try."""
    base = training(now)
    cause = "worker 1: ZeroDivisionError: division by zero (train.py, line 33), 4 times"
    return dataclasses.replace(
        base,
        state="FAILED",
        ended=base.now - 3,
        sentence=f"Failed after 3 min 17 s: {cause}.",
        outcome=Outcome("FAILED", cause, "script", retry_helps=False, traceback=TRACEBACK),
        processes=(
            process("worker", 1, "failed", incarnation=4, deaths=4, note=cause),
            *(dataclasses.replace(p, state="finished") for p in base.processes if p.rank != 1),
        ),
    )


def succeeded(now: float | None = None) -> Status:
    """Three epochs are done and the model is written."""
    base = training(now)
    began = base.started
    auc, loss = (0.7612, 0.7688, 0.7704), (0.4621, 0.4548, 0.4532)
    curves = {
        "test_auc": tuple(Point(began + 131 + 20 * i, v, i + 1) for i, v in enumerate(auc)),
        "test_logloss": tuple(Point(began + 131 + 20 * i, v, i + 1) for i, v in enumerate(loss)),
    }
    best = {"test_auc": auc[-1], "test_logloss": loss[-1]}
    story = Story(first=base.events[-1].seq + 1)
    story.tell(base.now - 6, "end_of_data", "training is over: all epochs are done")
    story.tell(base.now - 2, "model", f"the model is in its place: {base.model}")
    story.tell(base.now - 1, "end", "the job has ended: SUCCEEDED")
    progress = Progress(
        epoch=3,
        epochs=3,
        splits_done=12,
        splits_total=12,
        rows=785631,
        rows_total=785631,
        fraction=1.0,
    )
    return dataclasses.replace(
        base,
        state="SUCCEEDED",
        ended=base.now - 1,
        sentence="Succeeded after 3 min 19 s: test_auc 0.7704, test_logloss 0.4532; the model is "
        f"in {base.model}.",
        outcome=Outcome("SUCCEEDED"),
        progress=progress,
        metrics=best,
        best=best,
        curves=curves,
        processes=tuple(dataclasses.replace(p, state="finished") for p in base.processes),
        events=base.events + tuple(story.events),
        rows_pushed=785631,
    )


def hostile(now: float | None = None) -> Status:
    """Everything that a person or a program can name is named to do harm."""
    evil = "<script>window.harmed=1</script><img src=x onerror=window.harmed=1>"
    base = training(now)
    point = (Point(base.now, 1.0, 1),)
    events = tuple(dataclasses.replace(e, text=e.text + evil) for e in base.events)
    return dataclasses.replace(
        base,
        name=evil,
        user=evil,
        queue=evil,
        sentence=f"Training {evil}.",
        waits=(evil,),
        model=evil,
        metrics={evil: 1.0},
        curves={evil: point, "__proto__": point},
        best={evil: 1.0},
        events=(*events, Event(events[-1].seq + 1, base.now, evil, evil)),
        outcome=Outcome("FAILED", evil, evil, traceback=evil),
        processes=(
            process("worker", 0, node=evil, note=evil, container=evil, logs=f"javascript:{evil}"),
            process(evil, 1, evil, logs="javascript:window.harmed=1"),
            process("server", 0, tables=(TableInfo(evil, 1, 1),)),
        ),
    )
