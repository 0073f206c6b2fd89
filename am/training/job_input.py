"""The input as it was listed: what a ledger is made of."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yarnps.am.config import Config
from yarnps.am.training.dataset import SplitLike
from yarnps.am.training.ledger import Ledger
from yarnps.am.training.parts import PartLedger
from yarnps.data import Split
from yarnps.protocol import control_pb2 as pb


@dataclass(frozen=True)
class JobInput:
    """The splits of a job, and the rack of each node where there is more than one."""

    train: Sequence[SplitLike] = ()
    test: Sequence[SplitLike] = ()
    racks: Mapping[str, str] = field(default_factory=dict)

    def new_ledger(self, config: Config) -> Ledger:
        """A ledger in which nothing has begun."""
        block = config.block
        settings: dict[str, Any] = {
            "epochs": block.train.epochs,
            "seed": block.train.seed,
            "shuffle": block.data.shuffle.splits,
            "prepare": block.prepares,
            "attempt": config.attempt,
            "racks": self.racks,
        }
        parts = block.sync.parts_of(config.worker.instances)
        if parts is None:
            return Ledger(self.train, self.test, **settings)
        return PartLedger(self.train, self.test, parts=parts, **settings)

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restored`."""
        return {
            "train": [_encode(split) for split in self.train],
            "test": [_encode(split) for split in self.test],
            "racks": dict(self.racks),
        }

    @staticmethod
    def restored(data: Mapping[str, Any]) -> JobInput:
        """The inverse of `snapshot`."""
        train, test = ([_decode(text) for text in data[name]] for name in ("train", "test"))
        return JobInput(train, test, data["racks"])


def _encode(split: SplitLike) -> str:
    return base64.b64encode(split.to_pb().SerializeToString()).decode()


def _decode(text: str) -> SplitLike:
    return Split.from_pb(pb.SplitInfo.FromString(base64.b64decode(text)))
