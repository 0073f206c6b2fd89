"""The batches of a lease, read as the job file says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from yarnps.worker.leases import Held

Ahead = Callable[[Any], Any]
Read = Callable[[Held], Iterator[Any]]


def reader(job_json: str, ahead: Ahead | None) -> Read:
    """What reads leases: from the first batch that is not committed on.

    Parameters
    ----------
    ahead
        Called with the rows of each batch, in the thread that reads.
    """
    # Here and not in the thread that reads; and a program without input does without.
    from yarnps.data import DataSettings, Split, read_batches, warm_up

    settings = DataSettings.from_job_json(job_json)
    warm_up(settings)

    def read(lease: Held) -> Iterator[Any]:
        train = lease.phase == "train"
        batches = read_batches(
            Split.from_pb(lease.split),
            settings,
            epoch=lease.epoch,
            from_batch=lease.batches,
            shuffle=train,
            span=(lease.begins, lease.ends) if train else None,
        )
        if ahead is None or lease.phase == "prepare":
            return batches
        return map(functools.partial(_looked_at, ahead), batches)

    return read


def _looked_at(ahead: Ahead, raw: Any) -> Any:
    """A batch with what `ahead` makes of it; what that raises is the program's, not the input's."""
    try:
        raw.ahead = ahead(raw.rows)
    except Exception as error:  # noqa: BLE001 (raised where the program asks for the result)
        raw.ahead_error = error
    return raw
