"""Functions that run where a table's shards are: asking all servers, and merging what they say."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yarnps._errors import InputError
from yarnps.protocol.arrays import pack, unpack
from yarnps.protocol.tables import TableSpec
from yarnps.protocol.wire import Message, table_id
from yarnps.worker.futures import Future
from yarnps.worker.routing import Part, Router

# Shards of one request: a server answers other requests in between.
SHARDS_AT_ONCE = 8

_numbers = itertools.count(1)

Results = list[list[NDArray[Any]]]


class Collector:
    """The answers of all shards, in the order of the shards, whoever has sent them."""

    def __init__(self) -> None:
        self._found: dict[int, list[NDArray[Any]]] = {}

    def add(self, message: Message) -> None:
        """One server's answer to one request."""
        described = json.loads(bytes(message.keys))["shards"]
        arrays = iter(unpack([d for _, ds in described for d in ds], message.values))
        for shard, ds in described:
            self._found[shard] = [next(arrays) for _ in ds]

    @property
    def results(self) -> Results:
        """Of each shard the arrays that the function gave."""
        return [self._found[shard] for shard in sorted(self._found)]

    def column(self, index: int = 0) -> NDArray[Any]:
        """One of the arrays of all shards, one below another."""
        return np.concatenate([arrays[index] for arrays in self.results])

    def total(self) -> NDArray[Any]:
        """The sum of the shards' first arrays."""
        total: NDArray[Any] = np.sum([arrays[0] for arrays in self.results], axis=0)
        return total


def requests(
    router: Router,
    function: str,
    settings: dict[str, Any],
    arguments: Sequence[NDArray[Any]] = (),
    limit: float | None = None,
) -> Iterator[Part]:
    """The requests of a call: all shards, a few at a time."""
    packed = pack(arguments)
    text = {
        "function": function,
        "settings": settings,
        "arrays": packed.described,
        "limit": limit,
        "number": next(_numbers),
    }
    keys = np.frombuffer(json.dumps(text).encode(), np.uint8)
    values = np.frombuffer(packed.data, np.uint8) if packed.data else None
    for part in all_shards(router):
        yield part._replace(keys=keys, values=values)


def all_shards(router: Router) -> Iterator[Part]:
    """Requests that together name all shards, each a few of one server."""
    for server in router.servers:
        sections = router.all_sections(server)
        for first in range(0, len(sections), SHARDS_AT_ONCE):
            yield Part(server, sections[first : first + SHARDS_AT_ONCE], None, None, None)


class Functions(ABC):
    """What can be asked of a table's servers besides rows."""

    spec: TableSpec

    @abstractmethod
    def _ask(
        self,
        function: str,
        found: Collector,
        merged: Callable[[], Any] | None,
        arrays: Sequence[NDArray[Any]] = (),
        limit: float | None = None,
        **settings: Any,
    ) -> Future:
        """Run a function on all shards, and merge what `found` has collected."""

    def norm(self) -> Future:
        """The Euclidean norm of all weights, a float."""
        found = Collector()
        return self._ask("norm", found, lambda: float(np.sqrt(found.total()[0])))

    def nnz(self) -> Future:
        """How many weights are not 0, an int."""
        found = Collector()
        return self._ask("nnz", found, lambda: int(found.total()[0]))

    def mean(self) -> Future:
        """The mean of all weights, a float; NaN where there are none."""
        found = Collector()

        def mean() -> float:
            total, count = found.total()
            return float(total / count) if count else float("nan")

        return self._ask("mean", found, mean)

    def dot(self, other: Functions) -> Future:
        """The sum of products with the weights of a table of the same shape, a float.

        A key that only one of the tables has a row for counts as 0.
        """
        found = Collector()
        return self._ask(
            "dot", found, lambda: float(found.total()[0]), table=table_id(other.spec.name)
        )

    def histogram(self, bins: int, range: tuple[float, float]) -> Future:
        """How many weights are in each of `bins` intervals of one width: (counts, edges).

        As `numpy.histogram`: what is outside of `range` is not counted.
        """
        low, high = float(range[0]), float(range[1])
        if bins < 1 or not low < high:
            raise InputError(f"a histogram of {bins} bins in {range}", "give bins, and low < high")
        found, edges = Collector(), np.linspace(low, high, bins + 1)
        return self._ask(
            "histogram", found, lambda: (found.total(), edges), bins=bins, low=low, high=high
        )

    def topk(self, k: int, *, by: Literal["value", "size"] = "size") -> Future:
        """The k rows with the largest weights: (keys, rows), the largest first.

        Parameters
        ----------
        by
            "size": by absolute value, of rows with several numbers by Euclidean norm. "value": by
            value, for rows of one number. Of a dense table: keys are numbers of elements.
        """
        if by not in ("value", "size") or (by == "value" and self.spec.dim > 1) or k < 0:
            raise InputError(
                f"the top {k} rows of table {self.spec.name} by {by!r}",
                'give k of at least 0, and by="size", or by="value" for rows of one number',
            )
        found = Collector()

        def best() -> tuple[NDArray[Any], NDArray[Any]]:
            keys, rows, ranks = found.column(0), found.column(1), found.column(2)
            order = np.lexsort((keys, -ranks))[:k]
            rows = rows[order]
            return keys[order], rows.reshape(-1) if self.spec.dim == 1 else rows

        return self._ask("topk", found, best, k=int(k), by=by)

    def scale(self, factor: float) -> Future:
        """Multiply all weights; the rest of the optimizer's state stays as it is."""
        if not np.isfinite(factor):
            raise InputError(f"scale of table {self.spec.name} by {factor}", "give a finite factor")
        return self._ask("scale", Collector(), None, factor=float(factor))

    def prune(self, below: float) -> Future:
        """Forget small weights; how many, an int.

        Of a sparse table: rows whose numbers are all smaller than `below` in absolute value go,
        with their optimizer state. Of a dense one: such elements become 0.
        """
        if not below > 0:
            raise InputError(
                f"prune of table {self.spec.name} below {below}", "give a number above 0"
            )
        found = Collector()
        return self._ask(
            "prune", found, lambda: int(sum(a[0][0] for a in found.results)), below=float(below)
        )

    def call(
        self,
        function: str,
        *arguments: ArrayLike,
        merge: Literal["list", "sum", "concatenate"] = "list",
        limit: float = 10.0,
    ) -> Future:
        """Run a function of the job's own where the shards are.

        Parameters
        ----------
        function : str
            "module:function". It is called for each shard as ``function(keys, rows, *arguments)``
            with the shard's keys (dense: numbers of elements), shape (n,), and a copy of its
            weights, shape (n, dim), of a dense table (n,); it returns an array of numbers. The
            module's file must be among `services.server.files`.
        arguments : array-like
        merge : {"list", "sum", "concatenate"}
            What is made of the shards' arrays, which come in the order of the shards.
        limit : float
            Seconds that the function may take for a request of 8 shards. Then it is ended.

        Raises
        ------
        ServerRefused
            From `Future.wait`: it failed, or did not end in time; the message says which.

        Examples
        --------
        >>> w.call("stats:longest", merge="sum").wait()    # doctest: +SKIP
        """
        if ":" not in function:
            raise InputError(f"{function!r} names no function of yours", "give module:function")
        try:
            arrays = [np.asarray(argument) for argument in arguments]
            pack(arrays)
        except ValueError as error:
            raise InputError(f"arguments of {function}: {error}", "give numbers") from error
        found = Collector()
        merges: dict[str, Callable[[], Any]] = {
            "list": lambda: [arrays[0] for arrays in found.results],
            "sum": found.total,
            "concatenate": found.column,
        }
        return self._ask(function, found, merges[merge], arrays, limit)
