"""Calls of a job's own functions that wait for their turn, and their answers.

Copies of shards are made when a call's turn has come, so that no more than one request's are held
at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from yarnps.protocol.wire import Code, Header, WireError
from yarnps.server.function_process import Work
from yarnps.server.functions import Asked, rows_of
from yarnps.server.runner import Runner
from yarnps.server.store import Results, Store

# Requests that may wait: beyond, the caller is told so. A worker sends one for each few shards.
_WAITING = 4096


@dataclass(frozen=True, eq=False)
class Waiting:
    """A request whose answer comes later."""

    peer: bytes
    header: Header
    shards: list[int]
    call: Asked


class Answer(NamedTuple):
    """What a request is answered with: results, or an error."""

    waiting: Waiting
    results: Results
    error: WireError | None = None


class OwnFunctions:
    """Runs the job's own functions for a server, one request at a time.

    Parameters
    ----------
    store
        The tables as they are at the time: a rollback replaces all of them.
    """

    def __init__(self, store: Callable[[], Store], runner: Callable[[], Runner] = Runner) -> None:
        self._store = store
        self._make = runner
        self._runner: Runner | None = None
        self._waiting: deque[Waiting] = deque()
        self._running: Waiting | None = None
        self._number = 0

    @property
    def busy(self) -> bool:
        """Whether `step` has something to do."""
        return self._running is not None or bool(self._waiting)

    def ask(self, waiting: Waiting) -> None:
        """Put a request in the queue; one that is asked for again keeps its turn.

        Raises
        ------
        WireError
            Too many are waiting.
        """
        if any(_same(waiting, other) for other in (*self._waiting, self._running) if other):
            return
        if len(self._waiting) >= _WAITING:
            raise WireError(Code.FUNCTION, f"{_WAITING} calls are waiting for their turn already")
        self._store().table(waiting.header)
        self._waiting.append(waiting)

    def step(self) -> list[Answer]:
        """Begin with the next request if none is under way; the answers that there are now."""
        answers = self._finished()
        if self._running is None and self._waiting:
            self._begin(self._waiting.popleft())
        return answers

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def _begin(self, waiting: Waiting) -> None:
        if self._runner is None:
            self._runner = self._make()
        table = self._store().table(waiting.header)
        rows = [rows_of(table, shard) for shard in waiting.shards]
        copies = [(found.keys, found.weights) for found in rows]
        self._number += 1
        self._running = waiting
        work = Work(waiting.call.function, list(waiting.call.arrays), copies)
        self._runner.start(self._number, work, waiting.call.limit)

    def _finished(self) -> list[Answer]:
        done = None if self._runner is None else self._runner.take()
        if done is None or self._running is None:
            return []
        waiting, self._running = self._running, None
        if not done.outcome.error:
            pairs = zip(waiting.shards, done.outcome.arrays, strict=True)
            return [Answer(waiting, [(shard, [array]) for shard, array in pairs])]
        # The call has failed with this: its other requests need not take their time, too.
        error = WireError(Code.FUNCTION, f"function {waiting.call.function}: {done.outcome.error}")
        others = [other for other in self._waiting if _of_one_call(waiting, other)]
        self._waiting = deque(other for other in self._waiting if other not in others)
        return [Answer(failed, [], error) for failed in (waiting, *others)]


def _of_one_call(one: Waiting, other: Waiting) -> bool:
    return (one.peer, one.call.number) == (other.peer, other.call.number)


def _same(one: Waiting, other: Waiting) -> bool:
    return (one.peer, one.header.request) == (other.peer, other.header.request)
