"""The course of a job: which step of the plan is under way, and how it begins and ends.

Owns the ledger, the saves and the results; `yarnps.am.training.roles` owns the processes and tells
this class what they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from yarnps.am.actions import Action, Log, Publish
from yarnps.am.config import Config
from yarnps.am.resources.outcome import Failure
from yarnps.am.training import plan as steps
from yarnps.am.training.crew import Crew, RoleProcess
from yarnps.am.training.cuts import Cuts, Manifest
from yarnps.am.training.job_input import JobInput
from yarnps.am.training.ledger import Ledger
from yarnps.am.training.ledger_records import Revoked, done_splits
from yarnps.am.training.loss import Loss, Losses
from yarnps.am.training.parts import PartLedger
from yarnps.am.training.plan import History, Plan, PlanSettings
from yarnps.am.training.results import Results
from yarnps.am.training.routes import Routes
from yarnps.am.training.saver import Saver, SteppedCut
from yarnps.apps.metrics import finish
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb

# What cannot be saved or written after so many tries is gone past (a cut) or fails the job (the
# model).
TRIES = 3

_BEGINS = {"prepare": "a pass to prepare it", "train": "training", "test": "evaluation"}
_STEPS = {"prepare": steps.Prepare, "train": steps.Train, "test": steps.Test}
_AT_WORK = (steps.Prepare, steps.Train, steps.Test)


class Course:
    """See the module's text. `failures` grows; the job's outcome rule reads it."""

    def __init__(self, config: Config, crew: Crew, routes: Routes, now: float) -> None:
        self.config = config
        self.history = History()
        self.results = Results()
        self.ledger: Ledger | None = None
        self.saver: Saver | None = None
        self.failures: list[Failure] = []
        self.step: steps.Step | None = None
        self.over = False
        self.model_written = False
        self.losses = Losses()
        self._crew = crew
        self._routes = routes
        self._input = JobInput()
        self._tries: dict[str, int] = {}
        self._closes_at: dict[str, Any] | None = None
        self._started = now
        self.elapsed_before = 0.0
        block, stop = config.block, config.block.stop
        self.plan = Plan(
            PlanSettings(
                epochs=block.train.epochs,
                has_test=block.data.test is not None,
                metric=stop.metric,
                lower_is_better=stop.lower_is_better,
                patience=stop.patience,
                max_time=stop.max_time,
                prepare=block.prepares,
            )
        )

    @property
    def serving(self) -> bool:
        """Whether leases may be given out now."""
        return isinstance(self.step, _AT_WORK) and self._routes.complete

    # ------------------------------------------------------------ the beginning, and going back

    def listed(self, found: JobInput, resume: dict[str, Any] | None, now: float) -> list[Action]:
        """The input is known; `resume`: the cuts of earlier attempts (`chores.earlier_cuts`)."""
        saver = self._furnish(found, now)
        if resume is None:
            return []
        manifests = [Manifest.from_json(data) for data in resume["manifests"]]
        saver.cuts.adopt(manifests, resume["numbers"])
        manifest = saver.cuts.newest
        if manifest is None:
            return [Log("resume", "no checkpoint of an earlier attempt: from the beginning")]
        self.history.restore(manifest.extra["history"])
        self._go_back_to(manifest)
        self.elapsed_before = float(manifest.extra.get("elapsed", 0.0))
        self.losses.rows = int(manifest.extra.get("lost_rows", 0))
        rows = self.ledger.rows if self.ledger else 0
        text = f"resuming from checkpoint {manifest.number}: {rows:,} rows are done"
        return [Log("resume", text, data={"cut": manifest.number, "rows": rows})]

    def _furnish(self, found: JobInput, now: float) -> Saver:
        """A ledger of the input, and the saves that go with it."""
        self._input = found
        self.ledger = found.new_ledger(self.config)
        every, keep = self.config.block.checkpoint.every, self.config.block.checkpoint.keep
        cuts = Cuts(every, keep, self.ledger.snapshot(), start=now)
        self.saver = Saver(self.config, self._crew, cuts)
        return self.saver

    def server_lost(self, member: RoleProcess) -> list[Action]:
        """A server's shards are lost: they come from the newest cut. See `Loss`."""
        if self.saver is None or self.ledger is None:
            return []
        out = self.saver.abandon(f"{member.name} died")
        self.saver.drop_export()
        if self.over or self.ledger.phase == "prepare":  # nothing is on the servers yet
            return out
        cuts, on_loss = self.saver.cuts, self.config.block.on_loss
        done, saved = self.ledger.rows, sum(cuts.newest_ledger["rows_of_epoch"])
        # A cut of BSP may hold steps whose rows no worker had reported yet.
        loss = Loss(member, cuts.newest.number if cuts.newest else None, max(0, done - saved))
        if on_loss == "patch":
            loss = loss._replace(rows=self.losses.add(member.server_rank, done, saved))
            self._begin_step_again()
            return [*out, loss.patched(*self._routes.shards_of(member.server_rank))]
        # The results of whole epochs stay: the servers that live on have gone beyond their models.
        revoked = self._go_back_to(cuts.newest)
        if on_loss == "rollback":
            out.append(loss.rolled_back(self._routes.new_generation().generation))
        else:
            out.append(loss.replayed())
        return out + self._crew.tell_revoked(revoked)

    def _begin_step_again(self) -> None:
        """What the servers were asked for is asked for again; leases stay as they are."""
        if not isinstance(self.step, _AT_WORK):
            self.step = None

    def _go_back_to(self, manifest: Manifest | None) -> list[Revoked]:
        """The ledger as it was at a cut, or at the beginning; what came after it is forgotten."""
        assert self.ledger is not None and self.saver is not None
        self.step = None
        revoked = self.ledger.restore_cut(self.saver.cuts.newest_ledger)
        at_end = manifest is not None and manifest.reason == steps.EPOCH_END
        self.history.back_to(self.ledger.epoch, at_end or self.ledger.phase == "test")
        return revoked

    def returned(self) -> list[Action]:
        """The AM's process is back: what was under way and may have been lost begins again."""
        out: list[Action] = []
        if self.saver is not None:
            out += self.saver.abandon("the ApplicationMaster was restarted")
            self.saver.drop_export()
        self._begin_step_again()
        return out

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
            prepared=self.history.prepared,
        )

    def elapsed(self, now: float) -> float:
        """Seconds of the job over all attempts."""
        return self.elapsed_before + now - self._started

    def advance(self, now: float) -> list[Action]:
        """Begin the step that the plan names, unless it is under way."""
        out: list[Action] = []
        if self.over or not self._routes.complete:
            return out
        while self.ledger is not None and self.saver is not None:
            if self.ledger.phase == "prepare" and self.ledger.phase_done:
                self.history.prepared = True
            if self.ledger.phase == "test" and self.ledger.phase_done:
                out += self._tested(self.ledger, now)
            step = self.plan.next(self.facts(now))
            if step == self.step:
                break
            saves = isinstance(step, steps.Cut) or (
                isinstance(step, steps.Close) and isinstance(self.ledger, PartLedger)
            )
            if saves and self.saver.busy:
                break  # the cut under way comes first; its end asks again
            self.step = step
            out += self._begin(step, self.ledger, self.saver, now)
        return out

    def _begin(self, step: steps.Step, ledger: Ledger, saver: Saver, now: float) -> list[Action]:
        if isinstance(step, steps.Prepare):
            return self._begin_phase(step.epoch, "prepare", ledger)
        if isinstance(step, steps.Train):
            return self._begin_phase(step.epoch, "train", ledger)
        if isinstance(step, steps.Test):
            return self._begin_phase(step.epoch, "test", ledger)
        if isinstance(step, steps.Close):
            text = f"epoch {step.epoch} ends early: {step.reason}"
            if isinstance(ledger, PartLedger):
                # The servers have to stop at one step before its parts are taken from the workers.
                return [Log("stop", text), *self.cut(steps.EPOCH_END, now)]
            return [Log("stop", text), *self._crew.tell_revoked(ledger.close())]
        if isinstance(step, steps.Cut):
            return self.cut(step.reason, now)
        if isinstance(step, steps.Export):
            servers = self._routes.incarnations()
            return saver.begin_export(step.kind, step.epoch, servers, now)
        if isinstance(step, steps.Publish):
            return [Publish("final", saver.export_path(steps.BEST, step.epoch), {})]
        self.over = True
        note = f"; {step.note}" if step.note else ""
        return [Log("end_of_data", f"training is over: {step.reason}{note}")]

    def _begin_phase(self, epoch: int, phase: str, ledger: Ledger) -> list[Action]:
        if (ledger.epoch, ledger.phase) == (epoch, phase):
            return []
        out = self._crew.tell_revoked(ledger.begin(epoch, phase))
        message = pb.ToRole(phase=pb.Phase(epoch=epoch, phase=phase))
        out += self._crew.tell_all("worker", message)
        what = f"epoch {epoch} of {ledger.epochs}: {_BEGINS[phase]}"
        text = f"{what} begins, {ledger.splits_total} splits"
        data = {"epoch": epoch, "phase": phase, "splits": ledger.splits_total}
        return [*out, Log("epoch", text, data=data)]

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

    # ------------------------------------------------------------ saves

    def cut(self, reason: str, now: float) -> list[Action]:
        """Order a cut of the ledger as it is now."""
        if self.ledger is None or self.saver is None:
            return []
        extra: dict[str, Any] = {"history": self.history.snapshot(), "lost_rows": self.losses.rows}
        extra["elapsed"] = self.elapsed(now)
        servers, ledger = self._routes.incarnations(), self.ledger.snapshot()
        stepped = None
        if isinstance(self.ledger, PartLedger) and not self.ledger.phase_done:
            stepped = SteppedCut(last=isinstance(self.step, steps.Close))
        return self.saver.begin_cut(
            ledger, servers, now, reason=reason, extra=extra, stepped=stepped
        )

    def held(self, member: RoleProcess, message: pb.StepHeld) -> list[Action]:
        """BSP: a server has stopped at a step, for a cut."""
        return [] if self.saver is None else self.saver.held(member, message)

    def _ledger_at(self, saved: Sequence[pb.StepsAt]) -> dict[str, Any]:
        """BSP: the ledger that goes with the step at which the servers have saved."""
        assert isinstance(self.ledger, PartLedger)
        ledger = self.ledger.at_steps(saved)
        if isinstance(self.step, steps.Close):
            ledger["closed"] = True
            self._closes_at = ledger
        return ledger

    def _close_at_step(self) -> list[Action]:
        """BSP: the epoch ends early, with the step at which the servers have saved."""
        ledger, self._closes_at = self._closes_at, None
        if ledger is None or self.ledger is None:
            return []
        return list(self._crew.tell_revoked(self.ledger.restore_cut(ledger)))

    def cut_if_due(self, now: float) -> list[Action]:
        """Timed cuts, and the limits of what is under way."""
        if self.saver is None:
            return []
        late = self.saver.late_export(now)
        if late:
            return self._export_failed(late)
        late = self.saver.cuts.expired(now)
        if late:
            return self.saver.abandon(late) + self._retry_cut()
        if isinstance(self.step, steps.Train) and self.serving and self.saver.cuts.due(now):
            return self.cut("time", now)
        return []

    def saved(self, member: RoleProcess, message: pb.FromRole) -> list[Action]:
        """A server has written a part of a cut or of the model, or could not."""
        if self.saver is None:
            return []
        if message.HasField("save_done"):
            out = self.saver.save_done(member, message.save_done, self._ledger_at)
            out += self._close_at_step()
            given_up = bool(message.save_done.error and out)  # not the error of an earlier cut
            return out + self._retry_cut() if given_up else out
        out, error = self.saver.export_done(member, message.export_done)
        return out + self._export_failed(error) if error else out

    def manifest_written(self, cut: int, error: str, now: float) -> list[Action]:
        """A cut's manifest is in place, or not."""
        begun = self.saver.cuts.open if self.saver is not None else None
        if self.saver is None or begun is None or begun.number != cut:
            return []  # it was given up meanwhile
        if error:
            return self.saver.abandon(error) + self._retry_cut()
        ledger = self.saver.open_ledger()
        done = [d.to_pb() for d in done_splits(ledger, self._input.train)]
        out = self.saver.durable(cut, done, now)
        if out:
            self._tries.pop("cut", None)
        if out and begun.reason == steps.EPOCH_END:
            self.history.cut_epoch = ledger["epoch"]
            out += self.saver.audit(sum(ledger["rows_of_epoch"]), self.losses.rows)
        return out

    def _retry_cut(self) -> list[Action]:
        """A cut came to nothing. One at an epoch's end is tried again, and then gone past."""
        if not isinstance(self.step, steps.Cut | steps.Close):
            return []
        tries = self._tries["cut"] = self._tries.get("cut", 0) + 1
        out: list[Action] = []
        if tries >= TRIES:
            del self._tries["cut"]
            self.history.cut_epoch = self.step.epoch
            if isinstance(self.step, steps.Close) and self.ledger is not None:
                out += self._crew.tell_revoked(self.ledger.close())
            text = f"epoch {self.step.epoch} goes unsaved after {TRIES} tries"
            out.append(Log("save_failed", text))
        self.step = None
        return out

    def published(self, kind: str, path: str, error: str) -> list[Action]:
        """A model is in its place, or could not be put there."""
        if self.saver is None or self.ledger is None:
            return []
        if error:
            return self._export_failed(error)
        self._tries.pop("export", None)
        export, self.saver.export = self.saver.export, None
        if kind == steps.BEST:
            self.history.best_saved = export.epoch if export else self.ledger.epoch
            return [Log("model", f"the best model so far is kept: {path}")]
        self.model_written = True
        return [Log("model", f"the model is in its place: {path}", data={"path": path})]

    def _export_failed(self, error: str) -> list[Action]:
        if self.saver is not None:
            self.saver.drop_export()
        self._tries["export"] = self._tries.get("export", 0) + 1
        out: list[Action] = [Log("model_failed", error)]
        if self._tries["export"] >= TRIES:
            self.failures.append(Failure(Cause.MODEL, error))
        else:
            self.step = None
        return out

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`. Whatever step is under way is found again by the plan."""
        return {
            "input": self._input.snapshot(),
            "ledger": self.ledger.snapshot() if self.ledger else None,
            "saver": self.saver.snapshot() if self.saver else None,
            "history": self.history.snapshot(),
            "results": self.results.snapshot(),
            "over": self.over,
            "model_written": self.model_written,
            "tries": dict(self._tries),
            "started": self._started,
            "elapsed_before": self.elapsed_before,
            "losses": self.losses.snapshot(),
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._started = data["started"]
        self.elapsed_before = data["elapsed_before"]
        self.losses.restore(data["losses"])
        if data["ledger"] is not None:
            saver = self._furnish(JobInput.restored(data["input"]), self._started)
            saver.restore(data["saver"])
            assert self.ledger is not None
            self.ledger.restore(data["ledger"])
            phase, epoch = self.ledger.phase, self.ledger.epoch
            if phase and not self.ledger.phase_done:
                self.step = _STEPS[phase](epoch)
        self.history.restore(data["history"])
        self.results.restore(data["results"])
        self.over, self.model_written = data["over"], data["model_written"]
        self._tries = dict(data["tries"])
