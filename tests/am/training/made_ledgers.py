"""Ledgers made up for their tests."""

from __future__ import annotations

from typing import Any

from made_splits import said, splits

from yarnps.am.training.ledger import Ledger
from yarnps.am.training.ledger_records import Grant


def begun(count: int = 4, *, test: int = 0, phase: str = "train", **settings: Any) -> Ledger:
    ledger = Ledger(splits(count, nodes=2), splits(test), **settings)
    ledger.begin(1, phase)
    return ledger


def one(ledger: Ledger, worker: int = 1, node: str = "n0", now: float = 0.0) -> Grant:
    (grant,) = ledger.lease(worker, node, 1, now)
    return grant


def finish_phase(ledger: Ledger, rows: int = 10, now: float = 0.0) -> None:
    while not ledger.phase_done:
        grant = one(ledger, now=now)
        ledger.progress(1, said(grant, 1, rows, done=True, size=100), now)
