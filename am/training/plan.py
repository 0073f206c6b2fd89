"""What the job does next, as a pure function of what has happened.

    (prepare →) train an epoch → cut → test → keep the model if it is the best → … → model → end

`Plan.next` names the step that should be under way now; asked again without news, it names the
same step. So a restarted ApplicationMaster, or a new attempt that resumes from a cut, asks it
with what it knows and goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPOCH_END = "epoch end"
BEST = "best"
FINAL = "final"


@dataclass(frozen=True)
class EpochResult:
    """The metrics of the model as it was at an epoch's end."""

    epoch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class PlanSettings:
    """What the job file says about the course of the job. `max_time` is in seconds."""

    epochs: int
    has_test: bool = False
    metric: str | None = None
    lower_is_better: bool = True  # of the metric
    patience: int = 2
    max_time: float | None = None
    prepare: bool = False  # a pass over the training input before the first epoch


@dataclass(frozen=True)
class Facts:
    """What has happened. Epochs count from 1; 0 means none."""

    epoch: int = 0  # the ledger's
    phase: str = ""
    phase_done: bool = False  # also when the phase was closed
    elapsed: float = 0.0  # seconds of the job, over all attempts
    cut_epoch: int = 0  # the newest epoch whose end is in a durable cut (or whose cut was given up)
    results: tuple[EpochResult, ...] = ()  # one for each epoch that is through with its test
    best_saved: int = 0  # the epoch whose model is in the folder of the best one
    model_written: bool = False  # the final model is in its place
    prepared: bool = False  # the pass before the first epoch is through, in this or an old attempt


@dataclass(frozen=True)
class Prepare:
    """Go through the training input once, before its first epoch."""

    epoch: int = 1


@dataclass(frozen=True)
class Train:
    """Go through the training input."""

    epoch: int


@dataclass(frozen=True)
class Close:
    """Give out no more of this training phase: the time is over (`Ledger.close`)."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class Cut:
    """Save, now that the servers hold all of the epoch and nothing more."""

    epoch: int
    reason: str = EPOCH_END


@dataclass(frozen=True)
class Test:
    """Evaluate the model on the test input; through when its metrics are in the results."""

    epoch: int
    __test__ = False  # not a test class of pytest's


@dataclass(frozen=True)
class Export:
    """Write the model as it is: to the folder of the best one, or to its final place."""

    kind: str  # BEST or FINAL
    epoch: int


@dataclass(frozen=True)
class Publish:
    """Move the best model, of an earlier or this epoch, to its final place."""

    epoch: int


@dataclass(frozen=True)
class End:
    """The job is through."""

    reason: str  # for people: why it trained no longer
    model_epoch: int  # whose model was written
    note: str = ""  # what a person should know about the choice of the model


Step = Prepare | Train | Close | Cut | Test | Export | Publish | End


class Plan:
    """The course of a job.

    When `max_time` is over, training ends at the next batch boundary: what is leased is taken
    back, the model as it is goes through the cut and the test like an epoch's, and then the best
    model (with `metric`) or this one (without) is written.
    """

    def __init__(self, settings: PlanSettings) -> None:
        self.settings = settings

    def next(self, facts: Facts) -> Step:
        """The step that should be under way."""
        late = self._time_over(facts)
        if self.settings.prepare and not facts.prepared:
            return Prepare()
        if facts.epoch == 0 or facts.phase == "prepare":
            return Train(1)
        if facts.phase == "train" and not facts.phase_done:
            if late:
                return Close(facts.epoch, self._time_text())
            return Train(facts.epoch)
        if facts.cut_epoch < facts.epoch:
            return Cut(facts.epoch)
        tested = any(result.epoch == facts.epoch for result in facts.results)
        if self.settings.has_test and not tested:
            return Test(facts.epoch)
        best = self.best(facts.results)
        if best == facts.epoch and facts.best_saved != best:
            return Export(BEST, best)
        reason = self._stop_reason(facts, best)
        if not reason:
            return Train(facts.epoch + 1)
        return self._finish(facts, best, reason)

    def _finish(self, facts: Facts, best: int, reason: str) -> Step:
        metric = self.settings.metric
        # A best model that could not be kept (its export failed, or its folder is of an older
        # course of the job) must not end the job without a model.
        chosen = best if best and facts.best_saved == best else 0
        if not facts.model_written:
            return Publish(chosen) if chosen else Export(FINAL, facts.epoch)
        note = ""
        if metric and not best:
            note = f"{metric} was never measured: the last model was written"
        elif metric and not chosen:
            note = f"the best model (epoch {best}) was not kept: the last one was written"
        return End(reason, chosen or facts.epoch, note)

    def _stop_reason(self, facts: Facts, best: int) -> str:
        if facts.epoch >= self.settings.epochs:
            return f"all {self.settings.epochs} epochs are done"
        if self._time_over(facts):
            return self._time_text()
        if best and facts.epoch - best >= self.settings.patience:
            return (
                f"{self.settings.metric} has not improved since epoch {best} "
                f"(patience {self.settings.patience})"
            )
        return ""

    def _time_over(self, facts: Facts) -> bool:
        limit = self.settings.max_time
        return limit is not None and facts.elapsed >= limit

    def _time_text(self) -> str:
        return f"the time limit of {self.settings.max_time:.0f} s is over"

    def best(self, results: tuple[EpochResult, ...]) -> int:
        """The first epoch with the best value of `metric`; 0: none has one."""
        metric = self.settings.metric
        if metric is None:
            return 0
        sign = 1.0 if self.settings.lower_is_better else -1.0
        values = [(sign * r.metrics[metric], r.epoch) for r in results if metric in r.metrics]
        values = [(value, epoch) for value, epoch in values if not math.isnan(value)]
        return min(values)[1] if values else 0


@dataclass
class History:
    """The part of the facts that the ledger does not know; it travels in the cuts."""

    results: list[EpochResult] = field(default_factory=list)
    best_saved: int = 0
    cut_epoch: int = 0
    prepared: bool = False  # stays so when the job goes back: it changed nothing on the servers

    def add(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """The metrics of an epoch's model; given again, they replace the old ones."""
        self.results = [r for r in self.results if r.epoch < epoch]
        self.results.append(EpochResult(epoch, dict(metrics)))

    def best_metrics(self) -> dict[str, float]:
        """Of the model that is kept as the best; empty where there is none."""
        kept = (r.metrics for r in self.results if r.epoch == self.best_saved)
        return dict(next(kept, {}))

    def back_to(self, epoch: int, train_done: bool) -> None:
        """The ledger went back to a cut in this epoch: forget what came after it.

        `train_done` says whether the cut holds all of the epoch's training.
        """
        last = epoch if train_done else max(0, epoch - 1)
        self.results = [r for r in self.results if r.epoch <= last]
        self.best_saved = self.best_saved if self.best_saved <= last else 0
        self.cut_epoch = last

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "results": [[r.epoch, dict(r.metrics)] for r in self.results],
            "best_saved": self.best_saved,
            "cut_epoch": self.cut_epoch,
            "prepared": self.prepared,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.results = [EpochResult(epoch, metrics) for epoch, metrics in data["results"]]
        self.best_saved = data["best_saved"]
        self.cut_epoch = data["cut_epoch"]
        self.prepared = data["prepared"]
