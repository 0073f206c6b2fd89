"""What servers and workers read of the job before anything heavy is imported.

The job file arrives checked and complete, so its JSON is read as it is, without the job model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# Rows of a batch where the job file does not say.
BATCH_ROWS = 2048
# Programs whose batches grow with the training instead, where the job file does not say; how many
# rows they have at first, and at most.
GROWING_APPS = ("ftrl",)
LEAST_ROWS, MOST_ROWS = 256, 8192


@dataclass(frozen=True)
class EngineSettings:
    """The part of the job file that the parameter server goes by.

    Attributes
    ----------
    staleness
        Batches that a worker may be ahead of the slowest; None: no gate (asp).
    parts, spare
        Of a BSP step; None: the job is not BSP.
    pace
        Least seconds for a batch.
    pull_ahead
        A batch's pulls may be made while the one before it is in work.
    request_limit
        Seconds after which a request that is not answered fails.
    table_memory
        Share of a server's memory that tables may take.
    has_test
        There is a test input, so an evaluation is needed.
    """

    staleness: int | None = 4
    parts: int | None = None
    spare: int = 0
    seed: int = 1
    epochs: int = 1
    pace: float = 0.0
    pull_ahead: bool = True
    audit: bool = False
    request_limit: float = 600.0
    table_memory: float = 0.7
    has_test: bool = False
    app: str | None = None
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_job_json(cls, text: str) -> EngineSettings:
        """Read the text that `yarnps.spec.Job.to_json` wrote."""
        job = json.loads(text)
        block = job.get("block") or {}
        train, sync = block.get("train") or {}, block.get("sync") or {}
        server, data = block.get("server") or {}, block.get("data") or {}
        mode = sync.get("mode", "ssp")
        return cls(
            staleness=int(sync.get("staleness", 4)) if mode == "ssp" else None,
            parts=_parts(job, sync) if mode == "bsp" else None,
            spare=int(sync.get("spare") or 0),
            seed=int(train.get("seed", cls.seed)),
            epochs=int(train.get("epochs", cls.epochs)),
            pace=float(train.get("pace", cls.pace)),
            pull_ahead=bool(train.get("pull_ahead", cls.pull_ahead)),
            audit=bool(train.get("audit", cls.audit)),
            request_limit=float(server.get("request_limit", cls.request_limit)),
            table_memory=float(server.get("table_memory", cls.table_memory)),
            has_test=bool(data.get("test")),
            app=block.get("app"),
            params=dict(block.get("params") or {}),
        )


def _parts(job: dict[str, Any], sync: dict[str, Any]) -> int:
    """Parts of a BSP step: as many as the job was submitted with workers, if it does not say."""
    services = (job.get("skein") or {}).get("services") or {}
    workers = (services.get("worker") or {}).get("instances") or 1
    return int(sync.get("parts") or workers)
