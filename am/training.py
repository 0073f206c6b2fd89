"""The training side of a job: input, epochs, saves and the model, over the processes that live.

Composes the ledger, the plan, cuts, routes and clocks. Like them it does no I/O: what the roles
say goes in, with the time; what is to be done comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from yarnps.am import plan as steps
from yarnps.am.actions import Action, Log, Publish
from yarnps.am.clocks import Clocks
from yarnps.am.config import Config
from yarnps.am.crew import Crew, RoleProcess
from yarnps.am.cuts import Cuts, Manifest
from yarnps.am.dataset import SplitLike
from yarnps.am.greeting import begin_message
from yarnps.am.ledger import Ledger
from yarnps.am.ledger_records import Revoked, done_splits
from yarnps.am.outcome import Failure
from yarnps.am.plan import History, Plan, PlanSettings
from yarnps.am.results import Results
from yarnps.am.routes import Routes
from yarnps.am.saver import Saver
from yarnps.apps.metrics import finish
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

# An epoch's end that cannot be saved after so many tries is gone past.
SAVE_TRIES = 3
EXPORT_TRIES = 3


class Training:
    """See the module's text. `failures` grows; the job's outcome rule reads it."""

    def __init__(self, config: Config, now: float) -> None:
        block = config.block
        self.config = config
        self.crew = Crew()
        self.routes = Routes(
            block.server.shards, config.server_processes, generation=config.attempt
        )
        self.clocks = Clocks()
        self.history = History()
        self.results = Results()
        self.ledger: Ledger | None = None
        self.saver: Saver | None = None
        self.failures: list[Failure] = []
        self.step: steps.Step | None = None
        self.over = False
        self.model_written = False
        self.end: steps.End | None = None
        self._train: Sequence[SplitLike] = ()
        self._wants: dict[int, int] = {}
        self._tries: dict[str, int] = {}
        self._started = now
        self._elapsed_before = 0.0
        self._resumes = 0
        stop = block.stop
        self.plan = Plan(
            PlanSettings(
                epochs=block.train.epochs,
                has_test=block.data.test is not None,
                metric=stop.metric,
                mode=stop.mode,
                patience=stop.patience,
                max_time=stop.max_time,
            )
        )

    # ------------------------------------------------------------ input and resume

    def listed(
        self,
        train: Sequence[SplitLike],
        test: Sequence[SplitLike],
        resume: dict[str, Any] | None,
        now: float,
    ) -> list[Action]:
        """The input is known; `resume` is the manifest of the newest cut of an earlier attempt."""
        block = self.config.block
        self._train = train
        self.ledger = Ledger(
            train,
            test,
            epochs=block.train.epochs,
            seed=block.train.seed,
            shuffle=block.data.shuffle.splits,
            attempt=self.config.attempt,
        )
        every, keep = block.checkpoint.every, block.checkpoint.keep
        cuts = Cuts(every, keep, self.ledger.snapshot(), start=now)
        self.saver = Saver(self.config, self.crew, cuts)
        out: list[Action] = []
        if resume is not None:
            manifest = Manifest.from_json(resume)
            cuts.adopt([manifest])
            self._go_back_to(manifest)
            self._elapsed_before = float(manifest.extra.get("elapsed", 0.0))
            text = f"resuming from checkpoint {manifest.number}: {self.ledger.rows:,} rows done"
            out.append(Log("resume", text, data={"cut": manifest.number}))
        # Servers that have said hello before the input was known wait for what to load.
        for member in self.crew.of("server"):
            if not member.began:
                out += self._begin(member)
        return out + self._advance(now)

    # ------------------------------------------------------------ who lives

    def up(self, member: RoleProcess, now: float) -> list[Action]:
        """A process has started."""
        self.crew.add(member)
        return []

    def died(self, incarnations: Sequence[int], now: float) -> list[Action]:
        """Processes are gone."""
        out: list[Action] = []
        for incarnation in incarnations:
            member = self.crew.remove(incarnation)
            if member is None:
                continue
            if member.role == "worker":
                out += self._worker_gone(member, now)
            else:
                out += self._server_gone(member, now)
        return out

    def _worker_gone(self, member: RoleProcess, now: float) -> list[Action]:
        self._wants.pop(member.id, None)
        self.clocks.gone(member.id)
        out: list[Action] = list(self._members())
        if self.ledger is not None:
            out += self._revoke(self.ledger.lost(member.id), to_workers=False)
        return out + self._serve(now)

    def _server_gone(self, member: RoleProcess, now: float) -> list[Action]:
        routed = self.routes.incarnations().get(member.server_rank) == member.id
        if not routed:
            return []
        routes = pb.ToRole(routes=self.routes.down(member.server_rank, member.id))
        out: list[Action] = [
            *self.crew.tell_all("worker", routes),
            *self.crew.tell_all("server", routes),
        ]
        self.clocks.interrupted(now)
        if self.saver is None or self.ledger is None:
            return out
        out += self.saver.abandon(f"{member.name} died")
        self.saver.drop_export()
        if self.over:
            return out
        before = self.ledger.rows
        revoked = self._go_back_to(self.saver.cuts.newest)
        lost = before - self.ledger.rows
        where = (
            f"checkpoint {self.saver.cuts.newest_number}"
            if self.saver.cuts.newest
            else "the beginning"
        )
        text = f"{member.name} is lost: back to {where}, {lost:,} rows are replayed"
        out.append(Log("replay", text, role="server", rank=member.rank, data={"rows": lost}))
        return out + self._revoke(revoked)

    def _go_back_to(self, manifest: Manifest | None) -> list[Revoked]:
        """The ledger and the history as they were at a cut, or at the beginning."""
        assert self.ledger is not None and self.saver is not None
        self.step = None
        revoked = self.ledger.restore_cut(self.saver.cuts.newest_ledger)
        if manifest is None:
            self.history = History()
            return revoked
        self.history.restore(manifest.extra["history"])
        complete = manifest.reason == steps.EPOCH_END or self.ledger.phase == "test"
        self.history.back_to(self.ledger.epoch, complete)
        return revoked

    # ------------------------------------------------------------ what the roles say

    def said(self, member: RoleProcess, message: pb.FromRole, now: float) -> list[Action]:
        """A message of a live process."""
        kind = message.WhichOneof("kind")
        if kind == "hello":
            return self._hello(member, message.hello, now)
        if kind == "server_ready":
            return self._server_ready(member, message.server_ready, now)
        if kind == "want":
            return self._want(member, message.want, now)
        if kind == "progress":
            return self._progress(member, message.progress, now)
        if kind == "split_failed":
            return self._split_failed(member, message.split_failed, now)
        if kind == "report":
            return self.results.report(message.report, now)
        if kind == "stats":
            if member.role == "worker":
                stats = message.stats
                self.clocks.stats(member.id, stats.clock, stats.idle_s, now)
            return []
        if kind == "first_push":
            text = f"{member.name}: first push acknowledged"
            return [self._log("first_push", text, member)]
        if kind == "event":
            return [self._log(message.event.name, message.event.text, member)]
        return self._saved(member, message, now)

    def _saved(self, member: RoleProcess, message: pb.FromRole, now: float) -> list[Action]:
        if self.saver is None:
            return []
        if message.WhichOneof("kind") == "save_done":
            out = self.saver.save_done(member, message.save_done)
            return out + self._retry_cut(now) if message.save_done.error else out
        if message.WhichOneof("kind") == "export_done":
            out, error = self.saver.export_done(member, message.export_done)
            return out + self._export_failed(error, now) if error else out
        return []

    def _log(self, kind: str, text: str, member: RoleProcess) -> Log:
        return Log(
            kind,
            text,
            role=member.role,
            rank=member.rank,
            container=member.container,
            incarnation=member.start,
            node=member.node,
        )

    def _hello(self, member: RoleProcess, hello: pb.RoleHello, now: float) -> list[Action]:
        out: list[Action] = []
        if hello.resync and member.role == "worker":
            out += self._resync(member, hello, now)
        if member.role == "worker" and not member.ended:
            self.clocks.joined(member.id, now)
            out += self._members()
        if member.role == "worker" or self.ledger is not None:
            out += self._begin(member)
        if self.over and member.role == "worker":
            out += self._end_of_data(member)
        return out

    def _begin(self, member: RoleProcess) -> list[Action]:
        member.began = True
        newest = self.saver.cuts.newest if self.saver is not None else None
        begin = begin_message(
            self.config, member, self.routes.routes(), self._members_message(), newest
        )
        return [member.tell(pb.ToRole(begin=begin))]

    def _resync(self, member: RoleProcess, hello: pb.RoleHello, now: float) -> list[Action]:
        """After a restart of the AM: the worker says what it holds, the rest is free again."""
        if self.ledger is None:
            return []
        out: list[Action] = []
        for held in hello.held:
            out += self._progress(member, held, now)
        keep = [held.token for held in hello.held]
        return out + self._revoke(self.ledger.revoke(member.id, keep=keep), to_workers=False)

    def _server_ready(self, member: RoleProcess, ready: pb.ServerReady, now: float) -> list[Action]:
        known = self.routes.incarnations().get(member.server_rank) == member.id
        table = self.routes.ready(member.server_rank, ready.address, member.id)
        routes = pb.ToRole(routes=table)
        out: list[Action] = [
            *self.crew.tell_all("worker", routes),
            *self.crew.tell_all("server", routes),
            member.tell(pb.ToRole(members=self._members_message())),
        ]
        if not known:
            where = f", with checkpoint {ready.loaded_cut}" if ready.loaded_cut >= 0 else ""
            out.append(self._log("ready", f"{member.name} serves its shards{where}", member))
        if self.routes.complete:
            self.clocks.interrupted(now)
            out += self._advance(now) + self._serve(now)
        return out

    # ------------------------------------------------------------ leases

    def _want(self, member: RoleProcess, want: pb.WantLeases, now: float) -> list[Action]:
        member.asked = True
        if self.over:
            return self._end_of_data(member)
        self._wants[member.id] = want.count
        if want.idle:
            self.clocks.idle(member.id, now)
        return self._serve(now)

    def _serve(self, now: float) -> list[Action]:
        """Give out leases to those who wait for some."""
        running = isinstance(self.step, steps.Train | steps.Test)
        if self.ledger is None or not running or not self.routes.complete:
            return []
        out: list[Action] = []
        for worker, count in list(self._wants.items()):
            member = self.crew.get(worker)
            if member is None or count <= 0:
                del self._wants[worker]
                continue
            grants = self.ledger.lease(worker, member.node, count, now)
            if grants:
                left = count - len(grants)
                self._wants.pop(worker)
                if left > 0:
                    self._wants[worker] = left
                message = pb.Grant(leases=[grant.to_pb() for grant in grants])
                out.append(member.tell(pb.ToRole(grant=message)))
        return out

    def _progress(self, member: RoleProcess, p: pb.Progress, now: float) -> list[Action]:
        if self.ledger is None:
            return []
        before = self.ledger.rows
        result = self.ledger.progress(member.id, p, now)
        if not result.accepted:
            void = pb.Revoke(epoch=p.epoch, phase=p.phase, split=p.split, token=p.token)
            return [member.tell(pb.ToRole(revoke=void))]
        member.rows += max(0, self.ledger.rows - before)
        out = self._check_bad_records()
        if self.ledger.phase_done:
            out += self._advance(now)
        return out

    def _split_failed(self, member: RoleProcess, f: pb.SplitFailed, now: float) -> list[Action]:
        if self.ledger is None:
            return []
        failed = self.ledger.failed(member.id, f, member.node, now)
        if not failed.accepted:
            return []
        again = "it is tried again" if failed.again else "it is given up"
        text = f"{member.name} could not read split {f.split} ({f.phase}): {f.error}; {again}"
        out: list[Action] = [self._log("split_failed", text, member)]
        if failed.dead_letter and self.config.block.data.on_failed_split == "fail":
            self.failures.append(Failure(Cause.DATA, f"split {f.split}: {f.error}"))
        return out + (self._advance(now) if self.ledger.phase_done else self._serve(now))

    def _check_bad_records(self) -> list[Action]:
        assert self.ledger is not None
        limit = self.config.block.data.max_bad_records
        if not self.ledger.bad_records or not self.ledger.over_limit(limit):
            return []
        first = "; ".join(
            f"{b.path}, line {b.line}: {b.error}: {b.text!r}" for b in self.ledger.bad_samples
        )
        text = (
            f"{self.ledger.bad_records} records cannot be read, data.max_bad_records allows "
            f"{limit}. The first: {first}"
        )
        self.failures.append(Failure(Cause.DATA, text))
        return []

    def _revoke(self, revoked: Sequence[Revoked], *, to_workers: bool = True) -> list[Action]:
        out: list[Action] = []
        for item in revoked:
            message = pb.ToRole(revoke=item.to_pb())
            out += self.crew.tell_all("server", message)
            if to_workers:
                out += self.crew.tell_all("worker", message)
        return out

    # ------------------------------------------------------------ the clock's members

    def _members_message(self) -> pb.Members:
        message = self.clocks.members()
        # What a restarted AM has forgotten (who was slow) must not look older than what it said.
        message.version += self._resumes << 20
        return message

    def _members(self) -> list[Action]:
        return list(self.crew.tell_all("server", pb.ToRole(members=self._members_message())))

    # ------------------------------------------------------------ the plan

    def facts(self, now: float) -> steps.Facts:
        """What the plan decides upon."""
        ledger = self.ledger
        return steps.Facts(
            epoch=ledger.epoch if ledger else 0,
            phase=ledger.phase if ledger else "",
            phase_done=ledger.phase_done if ledger else False,
            elapsed=self.elapsed(now),
            cut_epoch=self.history.cut_epoch,
            results=tuple(self.history.results),
            best_saved=self.history.best_saved,
            model_written=self.model_written,
        )

    def elapsed(self, now: float) -> float:
        """Seconds of the job over all attempts."""
        return self._elapsed_before + now - self._started

    def _advance(self, now: float) -> list[Action]:
        """Begin the step that the plan names, unless it is under way."""
        out: list[Action] = []
        if self.over or not self.routes.complete:
            return out
        while self.ledger is not None and self.saver is not None:
            if self.ledger.phase == "test" and self.ledger.phase_done:
                out += self._tested(self.ledger, now)
            step = self.plan.next(self.facts(now))
            if step == self.step:
                break
            if isinstance(step, steps.Cut) and self.saver.busy:
                break  # the cut under way comes first; its end asks again
            self.step = step
            out += self._begin_step(step, self.ledger, self.saver, now)
        return out

    def _begin_step(
        self, step: steps.Step, ledger: Ledger, saver: Saver, now: float
    ) -> list[Action]:
        servers = self.routes.incarnations()
        if isinstance(step, steps.Train | steps.Test):
            phase = "train" if isinstance(step, steps.Train) else "test"
            out = self._begin_phase(step.epoch, phase, ledger)
            return out + self._serve(now)
        if isinstance(step, steps.Close):
            text = f"epoch {step.epoch} ends early: {step.reason}"
            return [Log("stop", text), *self._revoke(ledger.close())]
        if isinstance(step, steps.Cut):
            return self._cut(step.reason, ledger, saver, now)
        if isinstance(step, steps.Export):
            return saver.begin_export(step.kind, step.epoch, servers, now)
        if isinstance(step, steps.Publish):
            source = saver.export_path("best", step.epoch)
            return [Publish("publish", source, {})]
        return self._begin_end(step)

    def _begin_phase(self, epoch: int, phase: str, ledger: Ledger) -> list[Action]:
        if (ledger.epoch, ledger.phase) == (epoch, phase):
            return []
        out = self._revoke(ledger.begin(epoch, phase))
        message = pb.ToRole(phase=pb.Phase(epoch=epoch, phase=phase))
        out += self.crew.tell_all("worker", message)
        what = "training" if phase == "train" else "evaluation"
        text = f"epoch {epoch} of {ledger.epochs}: {what} begins, {ledger.splits_total} splits"
        data = {"epoch": epoch, "phase": phase, "splits": ledger.splits_total}
        return [*out, Log("epoch", text, data=data)]

    def _cut(self, reason: str, ledger: Ledger, saver: Saver, now: float) -> list[Action]:
        extra = {"history": self.history.snapshot(), "elapsed": self.elapsed(now)}
        servers = self.routes.incarnations()
        return saver.begin_cut(ledger.snapshot(), servers, now, reason=reason, extra=extra)

    def _tested(self, ledger: Ledger, now: float) -> list[Action]:
        """The test phase is through: its sums become metrics."""
        if any(result.epoch == ledger.epoch for result in self.history.results):
            return []
        sums = {name: np.asarray(v, dtype=np.float64) for name, v in ledger.sums.items()}
        metrics = {f"test_{name}": value for name, value in finish(sums).items()}
        self.history.add(ledger.epoch, metrics)
        out = self.results.measured(ledger.epoch, metrics, now)
        stop = self.plan.settings.metric
        if stop is not None and stop not in metrics:
            known = ", ".join(sorted(metrics)) or "none"
            text = f"stop.metric {stop} is not among the metrics of the test input: {known}"
            self.failures.append(Failure(Cause.INPUT, text))
        return out

    def _begin_end(self, step: steps.End) -> list[Action]:
        self.over, self.end = True, step
        note = f"; {step.note}" if step.note else ""
        out: list[Action] = [Log("end_of_data", f"training is over: {step.reason}{note}")]
        for member in self.crew.of("worker"):
            if member.began:
                out += self._end_of_data(member)
        self._wants.clear()
        return out

    def _end_of_data(self, member: RoleProcess) -> list[Action]:
        member.ended = True
        self.clocks.gone(member.id)
        return [member.tell(pb.ToRole(end_of_data=pb.EndOfData()))]

    # ------------------------------------------------------------ answers of the shell, and time

    def manifest_written(self, cut: int, error: str, now: float) -> list[Action]:
        """A cut's manifest is in place, or not."""
        if self.saver is None or self.ledger is None or self.saver.cuts.open is None:
            return []
        if error:
            return self.saver.abandon(error) + self._retry_cut(now)
        reason = self.saver.cuts.open.reason
        done = [d.to_pb() for d in done_splits(self._open_ledger(), self._train)]
        out = self.saver.durable(cut, done, now)
        if out and reason == steps.EPOCH_END:
            self.history.cut_epoch = self.ledger.epoch
            out += self.saver.audit(self.ledger.rows)
        self._tries.pop("cut", None)
        return out + self._advance(now)

    def _open_ledger(self) -> dict[str, Any]:
        assert self.saver is not None
        opened = self.saver.cuts.snapshot()["open"]
        return dict(opened["ledger"]) if opened else {"epoch": 0, "phase": "", "state": ""}

    def _retry_cut(self, now: float) -> list[Action]:
        """A cut came to nothing. One at an epoch's end is tried again, and then gone past."""
        if not isinstance(self.step, steps.Cut):
            return self._advance(now)
        tries = self._tries["cut"] = self._tries.get("cut", 0) + 1
        out: list[Action] = []
        if tries >= SAVE_TRIES:
            del self._tries["cut"]
            self.history.cut_epoch = self.step.epoch
            text = f"epoch {self.step.epoch} goes unsaved after {SAVE_TRIES} tries"
            out.append(Log("save_failed", text))
        self.step = None
        return out + self._advance(now)

    def published(self, kind: str, path: str, error: str, now: float) -> list[Action]:
        """A model is in its place, or could not be put there."""
        if self.saver is None or self.ledger is None:
            return []
        if error:
            return self._export_failed(error, now)
        export, self.saver.export = self.saver.export, None
        if kind == "best":
            self.history.best_saved = export.epoch if export else self.ledger.epoch
            out: list[Action] = [Log("model", f"the best model so far is kept: {path}")]
        else:
            self.model_written = True
            out = [Log("model", f"the model is in its place: {path}", data={"path": path})]
        return out + self._advance(now)

    def _export_failed(self, error: str, now: float) -> list[Action]:
        if self.saver is not None:
            self.saver.drop_export()
        self._tries["export"] = self._tries.get("export", 0) + 1
        out: list[Action] = [Log("model_failed", error)]
        if self._tries["export"] >= EXPORT_TRIES:
            self.failures.append(Failure(Cause.MODEL, error))
            return out
        self.step = None
        return out + self._advance(now)

    def ticked(self, now: float) -> list[Action]:
        """Time has passed: leases, slow workers, cuts that are due or take too long."""
        out: list[Action] = []
        if self.ledger is None or self.saver is None or self.over:
            return out
        changes = self.clocks.tick(now) if self.routes.complete else []
        for change in changes:
            member = self.crew.get(change.worker)
            if member is not None:
                verb = "leaves" if change.outside else "comes back to"
                text = f"{member.name} {verb} the clock: {change.reason}"
                out.append(self._log("clock", text, member))
                if change.outside:
                    leave = pb.LeavesClock(reason=change.reason)
                    out.append(member.tell(pb.ToRole(leaves_clock=leave)))
        if changes:
            out += self._members()
        late = self.saver.cuts.expired(now)
        if late:
            out += self.saver.abandon(late) + self._retry_cut(now)
        training = isinstance(self.step, steps.Train)
        if training and self.routes.complete and self.saver.cuts.due(now):
            out += self._cut("time", self.ledger, self.saver, now)
        return out + self._advance(now) + self._serve(now)

    def returned(self, now: float) -> list[Action]:
        """The AM's process is back: what was under way and may have been lost begins again."""
        self._resumes += 1
        out: list[Action] = []
        if self.saver is not None:
            out += self.saver.abandon("the ApplicationMaster was restarted")
            self.saver.drop_export()
        if not isinstance(self.step, steps.Train | steps.Test):
            self.step = None
        return out
