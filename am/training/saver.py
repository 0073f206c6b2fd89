"""Cuts and exports: what the servers write, from the order to the last acknowledgement."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from yarnps.am.actions import Action, DeleteCuts, Log, Publish, WriteManifest
from yarnps.am.config import Config
from yarnps.am.training.crew import Crew, RoleProcess
from yarnps.am.training.cuts import Cut, Cuts, Manifest
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.tables import AUDIT_TABLE

# For a server's part of the model, which may be many gigabytes.
EXPORT_LIMIT_S = 3600.0


@dataclass
class OpenExport:
    """A model that is being written."""

    kind: str
    epoch: int
    path: str
    since: float
    missing: dict[int, int]  # server rank -> incarnation
    files: list[dict[str, Any]]


LedgerAt = Callable[[Sequence[pb.StepsAt]], dict[str, Any]]


@dataclass
class SteppedCut:
    """BSP: a cut that all servers take at the same step.

    Attributes
    ----------
    last
        No step is to be closed after it: the epoch ends there.
    held
        Where each server rank has stopped: (epoch, steps closed).
    step
        Where all of them save, once that is known.
    saved
        What each has said of the parts.
    """

    last: bool = False
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    step: tuple[int, int] | None = None
    saved: dict[int, pb.StepsAt] = field(default_factory=dict)

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restored`."""
        return {
            "last": self.last,
            "held": [[rank, *at] for rank, at in self.held.items()],
            "step": self.step,
            "saved": [
                [rank, base64.b64encode(at.SerializeToString()).decode()]
                for rank, at in self.saved.items()
            ],
        }

    @staticmethod
    def restored(data: dict[str, Any]) -> SteppedCut:
        """The inverse of `snapshot`."""
        step = data["step"]
        return SteppedCut(
            data["last"],
            {rank: (epoch, closed) for rank, epoch, closed in data["held"]},
            None if step is None else (step[0], step[1]),
            {rank: pb.StepsAt.FromString(base64.b64decode(text)) for rank, text in data["saved"]},
        )


class Saver:
    """Tells the servers to write, and collects what they have written."""

    def __init__(self, config: Config, crew: Crew, cuts: Cuts) -> None:
        self._config = config
        self._crew = crew
        self.cuts = cuts
        self.stepped: SteppedCut | None = None
        self.export: OpenExport | None = None
        self.last_cut_time: float | None = None
        self.audited_rows: int | None = None

    @property
    def busy(self) -> bool:
        """Whether a cut is under way."""
        return self.cuts.open is not None

    # ------------------------------------------------------------ cuts

    def begin_cut(
        self,
        ledger: dict[str, Any],
        servers: dict[int, int],
        now: float,
        *,
        reason: str,
        extra: dict[str, Any],
        stepped: SteppedCut | None = None,
    ) -> list[Action]:
        """Order a cut; the ledger's snapshot has been taken just now.

        With `stepped`, the servers are to save at a step, and the ledger follows from what they
        say of it.
        """
        cut = self.cuts.begin(ledger, servers, now, reason=reason, extra=extra)
        self.stepped = stepped
        return list(self._crew.tell_all("server", self._order(cut)))

    def _order(self, cut: Cut) -> pb.ToRole:
        if self.stepped is not None and self.stepped.step is None:
            return pb.ToRole(hold=pb.Hold(cut=cut.number))
        save = pb.Save(cut=cut.number, path=f"{self._config.job_dir}/{cut.folder}")
        if self.stepped is not None and self.stepped.step is not None:
            save.epoch, save.step = self.stepped.step
            save.stay = self.stepped.last
        return pb.ToRole(save=save)

    def held(self, member: RoleProcess, said: pb.StepHeld) -> list[Action]:
        """A server has stopped at a step; when all have, the highest is where they save."""
        cut, stepped = self.cuts.open, self.stepped
        if cut is None or stepped is None or stepped.step is not None or said.cut != cut.number:
            return []
        if not self.cuts.waits_for(member.server_rank, member.id):
            return []
        stepped.held[member.server_rank] = (said.epoch, said.step)
        if set(stepped.held) != set(self.cuts.missing):
            return []
        stepped.step = max(stepped.held.values())
        return list(self._crew.tell_all("server", self._order(cut)))

    def repeat_orders(self, member: RoleProcess) -> list[Action]:
        """Say again what a server has not answered: the order may have been lost on its way."""
        out: list[Action] = []
        rank, cut, export = member.server_rank, self.cuts.open, self.export
        if cut is not None and self.cuts.waits_for(rank, member.id):
            out.append(member.tell(self._order(cut)))
        if export is not None and export.missing.get(rank) == member.id:
            out.append(member.tell(self._export_order(export.path)))
        return out

    def save_done(
        self, member: RoleProcess, done: pb.SaveDone, ledger_at: LedgerAt
    ) -> list[Action]:
        """A server has saved, or could not. `ledger_at`: the ledger that goes with steps."""
        error = self.cuts.error_of(member.server_rank, member.id, done)
        if error:
            return self.abandon(error)
        if self.stepped is not None and self.cuts.waits_for(member.server_rank, member.id):
            self.stepped.saved[member.server_rank] = done.steps
        manifest = self.cuts.save_done(member.server_rank, member.id, done)
        if manifest is not None and self.stepped is not None:
            saved = self.stepped.saved
            manifest = self.cuts.amend(ledger_at([saved[rank] for rank in sorted(saved)]))
        return [] if manifest is None else [WriteManifest(manifest.number, manifest.to_json())]

    def abandon(self, reason: str) -> list[Action]:
        """Give up the cut that is under way, if there is one."""
        gone = self.cuts.abandon(reason)
        if gone is None:
            return []
        text = f"checkpoint {gone.number} was given up: {reason}"
        out: list[Action] = []
        if self.stepped is not None:
            hold = pb.Hold(cut=gone.number, release=True)
            out += self._crew.tell_all("server", pb.ToRole(hold=hold))
            self.stepped = None
        return [
            *out,
            Log("save_failed", text, data={"cut": gone.number}),
            DeleteCuts((gone.number,)),
        ]

    def durable(self, number: int, done: list[pb.DoneSplits], now: float) -> list[Action]:
        """The manifest is in place."""
        begun = self.cuts.open
        durable = self.cuts.durable(number)
        manifest = self.cuts.newest
        if durable is None or manifest is None or begun is None:
            return []
        self.stepped = None
        self.last_cut_time = now
        message = pb.ToRole(cut_durable=pb.CutDurable(cut=number, done=done))
        out: list[Action] = list(self._crew.tell_all("server", message))
        size = sum(f.bytes for f in {f.name: f for f in manifest.files}.values())
        rows = sum(manifest.ledger["rows_of_epoch"])
        text = (
            f"checkpoint {number} ({begun.reason}) is in place: "
            f"{rows:,} rows, {size:,} bytes, {now - manifest.time:.1f} s"
        )
        data = {"cut": number, "bytes": size, "reason": begun.reason, "rows": rows}
        out.append(Log("save", text, data=data))
        if durable.delete:
            out.append(DeleteCuts(tuple(c.number for c in durable.delete)))
        return out

    def audit(self, rows: int, lost: int) -> list[Action]:
        """Compare the rows that the servers have counted with the ledger's, on a quiet model.

        `lost`: so many may be missing, by the job's own choice (`server.on_loss: patch`).
        """
        manifest: Manifest | None = self.cuts.newest
        if manifest is None or not self._config.block.train.audit:
            return []
        counted = round(sum(f.sum for f in manifest.files if f.table == AUDIT_TABLE))
        self.audited_rows = counted
        same = "as many as" if counted == rows else "NOT as many as"
        text = f"the servers have counted {counted:,} rows, {same} the ledger: {rows:,}"
        if lost:
            text += f" ({lost:,} may have been lost with servers: server.on_loss is patch)"
        return [Log("audit", text, data={"servers": counted, "ledger": rows})]

    def open_ledger(self) -> dict[str, Any]:
        """The ledger's snapshot in the cut that is under way."""
        opened = self.cuts.snapshot()["open"]
        return dict(opened["ledger"])

    # ------------------------------------------------------------ exports

    def export_path(self, kind: str, epoch: int) -> str:
        """Where the servers write a model before it is moved into its place."""
        name = f"{kind}-{epoch}" if kind == "best" else kind
        return f"{self._config.model}.{name}.{self._config.application}.tmp"

    def begin_export(
        self, kind: str, epoch: int, servers: dict[int, int], now: float
    ) -> list[Action]:
        """Order the servers to write the model."""
        path = self.export_path(kind, epoch)
        self.export = OpenExport(kind, epoch, path, now, dict(servers), [])
        return list(self._crew.tell_all("server", self._export_order(path)))

    def _export_order(self, path: str) -> pb.ToRole:
        return pb.ToRole(export=pb.Export(path=path, text=self._config.block.model.text))

    def export_done(self, member: RoleProcess, done: pb.ExportDone) -> tuple[list[Action], str]:
        """A server has written its part; the second value says why the export failed."""
        export = self.export
        if export is None or done.path != export.path:
            return [], ""
        if export.missing.get(member.server_rank) != member.id:
            return [], ""
        if done.error:
            self.export = None
            return [], f"{member.name} could not write its part of the model: {done.error}"
        del export.missing[member.server_rank]
        export.files += [
            {"name": f.name, "bytes": f.bytes, "rows": f.rows, "table": f.table, "sum": f.sum}
            for f in done.files
        ]
        if export.missing:
            return [], ""
        return [Publish(export.kind, export.path, self.model_manifest(export.files))], ""

    def late_export(self, now: float) -> str:
        """Why the export has taken too long, and whom it waits for ('' while it has not)."""
        export = self.export
        if export is None or not export.missing or now - export.since < EXPORT_LIMIT_S:
            return ""
        who = ", ".join(f"server {rank}" for rank in sorted(export.missing))
        return f"the model is not written after {EXPORT_LIMIT_S:.0f} s: {who} missing"

    def model_manifest(self, files: list[dict[str, Any]]) -> dict[str, Any]:
        """What the model's ``manifest.json`` says, apart from metrics."""
        block = self._config.block
        return {
            "format": "yarnps-model-1",
            "application": self._config.application,
            "name": self._config.job.name,
            "app": block.app or "",
            "params": block.params,
            "data": block.data.model_dump(mode="json"),
            "files": sorted(files, key=lambda f: (f["name"], f["table"])),
        }

    def drop_export(self) -> None:
        """Forget the export that is under way: a server died, the step begins again."""
        self.export = None

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        export = None
        if self.export is not None:
            export = asdict(self.export)
            export["missing"] = list(self.export.missing.items())
        return {
            "cuts": self.cuts.snapshot(),
            "stepped": None if self.stepped is None else self.stepped.snapshot(),
            "export": export,
            "last_cut_time": self.last_cut_time,
            "audited_rows": self.audited_rows,
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.cuts.restore(data["cuts"])
        stepped = data["stepped"]
        self.stepped = None if stepped is None else SteppedCut.restored(stepped)
        export = data["export"]
        self.export = None
        if export is not None:
            missing = {int(rank): int(i) for rank, i in export["missing"]}
            self.export = OpenExport(**{**export, "missing": missing})
        self.last_cut_time = data["last_cut_time"]
        self.audited_rows = data["audited_rows"]
