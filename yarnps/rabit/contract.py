"""The environment that XGBoost's workers are started with: what DMLC's launchers promise them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TRACKER_URI: Final = "DMLC_TRACKER_URI"
TRACKER_PORT: Final = "DMLC_TRACKER_PORT"
TASK_ID: Final = "DMLC_TASK_ID"
WORKERS: Final = "DMLC_NUM_WORKER"

# What only the one who starts the workers may say.
OURS: Final = (
    TRACKER_URI,
    TRACKER_PORT,
    TASK_ID,
    WORKERS,
    "DMLC_ROLE",
    "DMLC_NUM_SERVER",
    "DMLC_WORKER_ID",
    "DMLC_NUM_ATTEMPT",
)


def environment(
    rank: int,
    workers: int,
    host: str,
    port: int,
    *,
    attempt: int = 0,
    cluster: str = "local",
    given: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All variables of one worker.

    Parameters
    ----------
    host, port
        Where this worker finds the tracker.
    attempt
        How many times the workers have failed before.
    given
        The user's own variables; those that are not the user's to set are left out.
    """
    theirs = {k: v for k, v in (given or {}).items() if k not in OURS}
    # The tracker gives out ranks in the order of these as texts: with leading zeros, that is the
    # order of the numbers.
    task = str(rank).zfill(len(str(workers - 1)))
    return {
        "DMLC_JOB_CLUSTER": cluster,
        **theirs,
        TRACKER_URI: host,
        TRACKER_PORT: str(port),
        TASK_ID: task,
        WORKERS: str(workers),
        "DMLC_ROLE": "worker",
        "DMLC_NUM_SERVER": "0",
        "DMLC_WORKER_ID": task,
        "DMLC_NUM_ATTEMPT": str(attempt),
    }
