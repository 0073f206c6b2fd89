"""Functions that run where the shards are: built-in ones here, a job's own in `runner`.

Each is run for one shard at a time and gives arrays; the worker that asked merges them in the
order of the shards, so that the result does not depend on who serves which shard. A call comes in
several requests of a few shards each: other requests are answered in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from yarnps.protocol import wire
from yarnps.protocol.arrays import pack, unpack
from yarnps.protocol.wire import Code, Message, WireError
from yarnps.server.dense import DenseTable
from yarnps.server.sparse import SparseTable

Table: TypeAlias = SparseTable | DenseTable
Array: TypeAlias = NDArray[Any]

# What a request may ask for with `limit`, in seconds, and what it gets without.
_LIMIT_S = 10.0


class Asked(NamedTuple):
    """What a request of `Op.CALL` says. All requests of one call have its number."""

    function: str
    settings: dict[str, Any]
    arrays: list[Array]
    limit: float
    number: int

    @property
    def is_own(self) -> bool:
        """Whether it is a function of the job's own, "module:function"."""
        return ":" in self.function

    @property
    def changes(self) -> bool:
        """Whether it changes the table."""
        return self.function in CHANGING


class Rows(NamedTuple):
    """A shard as functions see it: keys (dense: numbers of elements) and weights."""

    keys: NDArray[np.int64]
    weights: Array


def asked(message: Message) -> Asked:
    """Read a request.

    Raises
    ------
    WireError
        It cannot be read, or there is no such function.
    """
    try:
        text = json.loads(bytes(message.keys))
        found = Asked(
            function=str(text["function"]),
            settings=dict(text.get("settings") or {}),
            arrays=unpack(text.get("arrays") or [], message.values),
            limit=float(text.get("limit") or _LIMIT_S),
            number=int(text.get("number") or 0),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise WireError(Code.BAD_MESSAGE, f"a call cannot be read: {error!r}") from error
    if not found.is_own and found.function not in READING | CHANGING:
        known = ", ".join(sorted(READING | CHANGING))
        raise WireError(
            Code.UNSUPPORTED,
            f"there is no function {found.function!r}: give one of {known}, or module:function",
        )
    return found


def answer(results: list[tuple[int, list[Array]]]) -> tuple[bytes, bytes]:
    """Text and bytes of a reply: shards with their arrays."""
    packed = pack([array for _, arrays in results for array in arrays])
    described = iter(packed.described)
    shards = [[shard, [next(described) for _ in arrays]] for shard, arrays in results]
    if len(packed.data) > wire.MESSAGE_LIMIT:
        raise WireError(Code.TOO_LARGE, f"the function gave {len(packed.data):,} bytes")
    return json.dumps({"shards": shards}).encode(), packed.data


def rows_of(table: Table, shard: int) -> Rows:
    """A copy of what a shard holds: weights (n, dim), of a dense table (n,)."""
    if isinstance(table, DenseTable):
        first, end = table.range_of(shard)
        return Rows(np.arange(first, end), table.weights_of(table.copy_shard(shard)))
    copy = table.copy_shard(shard)
    return Rows(copy.keys, table.weights_of(copy.states))


# ---------------------------------------------------------------------- built-in


def _exact(array: Array) -> NDArray[np.float64]:
    return np.asarray(array, np.float64)


def _norm(table: Table, shard: int, _: dict[str, Any]) -> list[Array]:
    return [np.square(_exact(rows_of(table, shard).weights)).sum(keepdims=True).reshape(1)]


def _nnz(table: Table, shard: int, _: dict[str, Any]) -> list[Array]:
    return [np.array([np.count_nonzero(rows_of(table, shard).weights)], np.int64)]


def _mean(table: Table, shard: int, _: dict[str, Any]) -> list[Array]:
    weights = rows_of(table, shard).weights
    return [np.array([_exact(weights).sum(), weights.size])]


def _histogram(table: Table, shard: int, settings: dict[str, Any]) -> list[Array]:
    edges = np.linspace(float(settings["low"]), float(settings["high"]), int(settings["bins"]) + 1)
    counts, _ = np.histogram(rows_of(table, shard).weights, edges)
    return [counts.astype(np.int64)]


def _topk(table: Table, shard: int, settings: dict[str, Any]) -> list[Array]:
    rows = rows_of(table, shard)
    count = min(int(settings["k"]), len(rows.keys))
    ranks = _exact(rows.weights).reshape(len(rows.keys), table.spec.dim)
    if settings["by"] == "size":
        ranks = np.sqrt(np.square(ranks).sum(axis=1, keepdims=True))
    # Ties by key, so that it is the same whatever the order of the rows.
    best = np.lexsort((rows.keys, -ranks[:, 0]))[:count]
    return [rows.keys[best], rows.weights[best], ranks[best, 0]]


def _scale(table: Table, shard: int, settings: dict[str, Any]) -> list[Array]:
    factor = float(settings["factor"])
    table.change_weights(shard, lambda weights: weights * weights.dtype.type(factor))
    return []


def _prune(table: Table, shard: int, settings: dict[str, Any]) -> list[Array]:
    below = float(settings["below"])
    weights = rows_of(table, shard).weights
    small: NDArray[np.bool_] = np.abs(weights) < below
    if isinstance(table, SparseTable):
        lost = table.keep(shard, np.asarray((~small).any(axis=1)))
    else:
        lost = int((small & (weights != 0)).sum())
        table.change_weights(shard, lambda weights: np.where(small, 0, weights))
    return [np.array([lost], np.int64)]


_BuiltIn: TypeAlias = Callable[[Table, int, dict[str, Any]], list[Array]]
_READING: dict[str, _BuiltIn] = {
    "norm": _norm,
    "nnz": _nnz,
    "mean": _mean,
    "histogram": _histogram,
    "topk": _topk,
}
_CHANGING: dict[str, _BuiltIn] = {"scale": _scale, "prune": _prune}
READING = frozenset(_READING) | {"dot"}
CHANGING = frozenset(_CHANGING)


def run(call: Asked, table: Table, shard: int) -> list[Array]:
    """A built-in function of one table, for one shard.

    Raises
    ------
    WireError
        Its settings are not what it needs.
    """
    try:
        return {**_READING, **_CHANGING}[call.function](table, shard, call.settings)
    except (ValueError, KeyError, TypeError) as error:
        raise WireError(
            Code.BAD_MESSAGE, f"{call.function} with {call.settings}: {error!r}"
        ) from error


def dot(one: Table, other: Table, shard: int) -> list[Array]:
    """The sum of products of two tables' weights, where both have a row.

    Raises
    ------
    WireError
        The tables have different shapes.
    """
    if (one.spec.kind, one.spec.shape) != (other.spec.kind, other.spec.shape):
        raise WireError(
            Code.DIM,
            f"dot of table {one.spec.name}, {one.spec.kind} {one.spec.shape}, with table "
            f"{other.spec.name}, {other.spec.kind} {other.spec.shape}: give two of one shape",
        )
    mine, theirs = rows_of(one, shard), rows_of(other, shard)
    _, left, right = np.intersect1d(mine.keys, theirs.keys, assume_unique=True, return_indices=True)
    products = _exact(mine.weights[left]) * _exact(theirs.weights[right])
    return [products.sum(keepdims=True).reshape(1)]
