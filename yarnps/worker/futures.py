"""The futures that calls on tables return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from yarnps.worker.calls import Call


class Waiter(Protocol):
    """Waits for calls: a client."""

    def wait(self, call: Call, timeout: float | None = None) -> None: ...


class Future:
    """An operation under way on the servers."""

    __slots__ = ("_call", "_client", "_merged", "_result", "_shape")

    def __init__(
        self,
        client: Waiter,
        call: Call,
        result: NDArray[Any] | None = None,
        shape: tuple[int, ...] | None = None,
        merged: Callable[[], Any] | None = None,
    ) -> None:
        self._client = client
        self._call = call
        self._result = result
        self._shape = shape
        self._merged = merged

    def done(self) -> bool:
        """Whether every server has answered, or the operation has failed."""
        return self._call.done

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is done.

        Parameters
        ----------
        timeout
            Seconds; None: until `server.request_limit` of the job file.

        Returns
        -------
        ndarray or None
            What was pulled, or what a function gave; None for a push.

        Raises
        ------
        TimeoutError
            Not done in time; it goes on, and may be waited for again.
        ServerRefused
            A server refused the operation; the message says why.
        LeaseRevoked
            The batch's lease is void. Let it pass: `data()` knows what to do.
        """
        self._client.wait(self._call, timeout)
        if self._merged is not None:
            return self._merged()
        if self._result is None or self._shape is None:
            return self._result
        return self._result.reshape(self._shape)
