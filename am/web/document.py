"""The status document as the page's JSON, made once for all who ask within a moment."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from typing import Any

from yarnps.status import Status, to_dict

# Building and encoding a status of 500 containers takes some 30 ms of the ApplicationMaster's
# loop: any number of viewers share one document for this long.
FRESH_S = 1.0


class Document:
    """Makes the JSON of the newest status.

    Parameters
    ----------
    status : callable
        Gives the status with the events whose number is above its argument.
    """

    def __init__(self, status: Callable[[int], Status]) -> None:
        self._status = status
        self._made_at = -math.inf
        self._body = "{"
        self._events: list[tuple[int, str]] = []
        self.ended = False  # whether what was given last tells the outcome

    def json(self, events_after: int = 0) -> str:
        """One JSON object: the status, with the events above `events_after` only."""
        if time.monotonic() - self._made_at >= FRESH_S:
            self._make()
        events = ",".join(text for seq, text in self._events if seq > events_after)
        return f'{self._body}"events":[{events}]}}'

    def _make(self) -> None:
        status = self._status(0)
        rest = to_dict(dataclasses.replace(status, events=()))
        del rest["events"]
        self._body = encode(rest)[:-1] + ","
        self._events = [(event.seq, encode(to_dict(event))) for event in status.events]
        self.ended = status.outcome is not None
        self._made_at = time.monotonic()


def encode(data: dict[str, Any]) -> str:
    """JSON that every parser takes: a value that is not finite (a loss, say) becomes null."""
    try:
        return json.dumps(data, separators=(",", ":"), default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
