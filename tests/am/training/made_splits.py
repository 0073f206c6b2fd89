"""Splits made up for the tests of the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from yarnps.am.training.ledger_records import Grant
from yarnps.protocol import control_pb2 as pb


@dataclass(frozen=True)
class MadeSplit:
    id: int
    path: str = "hdfs:///data/part-0"
    start: int = 0
    length: int = 100
    file_size: int = 100
    modified_ms: int = -1
    hosts: tuple[str, ...] = ()

    def to_pb(self) -> pb.SplitInfo:
        return pb.SplitInfo(id=self.id, path=self.path, start=self.start, length=self.length)


def splits(count: int, *, length: int = 100, nodes: int = 0) -> list[MadeSplit]:
    """Splits of one file; with `nodes`, each is on one of the nodes n0, n1, …"""
    return [
        MadeSplit(
            i,
            start=i * length,
            length=length,
            file_size=count * length,
            hosts=(f"n{i % nodes}",) if nodes else (),
        )
        for i in range(count)
    ]


def said(
    grant: Grant,
    batches: int,
    rows: int,
    *,
    done: bool = False,
    size: int = 0,
    bad: int = 0,
    sums: dict[str, list[float]] | None = None,
) -> pb.Progress:
    """What a worker says of a lease."""
    return pb.Progress(
        epoch=grant.epoch,
        phase=grant.phase,
        split=grant.split.id,
        token=grant.token,
        batches=batches,
        rows=rows,
        bytes=size,
        done=done,
        bad_records=bad,
        bad=[pb.BadRecord(path="f", line=i + 1, error="no", text="x") for i in range(bad)],
        sums=[pb.Sum(name=name, values=values) for name, values in (sums or {}).items()],
    )


def failure(
    grant: Grant, error: str = "cannot be read", *, changed: bool = False
) -> pb.SplitFailed:
    return pb.SplitFailed(
        epoch=grant.epoch,
        phase=grant.phase,
        split=grant.split.id,
        token=grant.token,
        error=error,
        changed=changed,
    )
