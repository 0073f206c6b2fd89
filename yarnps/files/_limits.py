"""A limit for calls that have none of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from yarnps._errors import ClusterError

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], *, what: str, remedy: str) -> T:
    """Run `call` in a thread and give up after `seconds`.

    The thread is a daemon: a call that never returns must not keep the process from ending, which
    is why an executor (it joins its threads at exit) cannot be used here.

    Raises
    ------
    ClusterError
        When the limit has passed; says `what` and `remedy`.
    """
    answers: queue.SimpleQueue[tuple[bool, T | BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            answers.put((False, error))

    threading.Thread(target=run, name="yarnps-limited-call", daemon=True).start()
    try:
        good, answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise ClusterError(f"no answer within {seconds:g} s: {what}", remedy) from None
    if good:
        return answer  # type: ignore[return-value]
    assert isinstance(answer, BaseException)
    raise answer
