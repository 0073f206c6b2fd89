"""Waiting for what nothing announces: other processes, a cluster, files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from yarnps.status import Event

T = TypeVar("T")


def until(
    what: Callable[[], T],
    name: str,
    limit: float,
    *,
    report: Callable[[], str] = lambda: "",
    poll_s: float = 0.1,
) -> T:
    """Wait until `what` gives something true, and return that."""
    deadline = time.monotonic() + limit
    while not (value := what()):
        # Looked at once more: on a crowded machine the limit may pass between a look and the next.
        if time.monotonic() > deadline and not (value := what()):
            raise AssertionError(f"not within {limit:.0f} s: {name}\n{report()}")
        if value:
            break
        time.sleep(poll_s)
    return value


def first_event(
    events: Iterable[Event], kind: str, *words: str, after: int = 0, **fields: Any
) -> Event | None:
    """The first event of this kind whose text has the words and that has the fields."""
    for event in events:
        if event.seq <= after or event.kind != kind:
            continue
        here = all(word in event.text for word in words)
        if here and all(getattr(event, name) == value for name, value in fields.items()):
            return event
    return None
