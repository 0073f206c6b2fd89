"""What the evaluation adds up over the splits of a test phase, the same in any order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from yarnps.protocol import control_pb2 as pb

Vector = npt.NDArray[np.float64]


class Sums:
    """Named vectors, added up over splits.

    Floating-point sums depend on their order, and splits are done in any order. So vectors are
    kept for each split and added in the order of splits at the end, except vectors of whole
    numbers (counts, histograms): those are exact in any order, and adding them at once keeps the
    memory small.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Vector] = {}
        self._by_split: dict[int, dict[str, Vector]] = {}

    def add(self, split: int, sums: Iterable[pb.Sum]) -> None:
        """The sums of a split that is done; once for each split."""
        for item in sums:
            values = np.array(item.values, dtype=np.float64)
            if np.array_equal(values, np.floor(values)):  # not so for NaN
                self._counts[item.name] = _plus(self._counts.get(item.name), values)
            else:
                self._by_split.setdefault(split, {})[item.name] = values

    def total(self) -> dict[str, Vector]:
        """The sums over all splits so far, by name."""
        result = {name: self._counts[name].copy() for name in sorted(self._counts)}
        for split in sorted(self._by_split):
            for name, values in self._by_split[split].items():
                result[name] = _plus(result.get(name), values)
        return {name: result[name] for name in sorted(result)}

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "counts": _to_lists(self._counts),
            "splits": [
                [split, _to_lists(self._by_split[split])] for split in sorted(self._by_split)
            ],
        }

    def restore(self, data: Any) -> None:
        """Put back what `snapshot` gave."""
        self._counts = _to_arrays(data["counts"])
        self._by_split = {split: _to_arrays(named) for split, named in data["splits"]}


def _plus(total: Vector | None, values: Vector) -> Vector:
    """`total` + `values`; the longer one gives the length (a program may find out late)."""
    if total is None:
        return values
    if len(total) == len(values):
        return total + values
    result = np.zeros(max(len(total), len(values)))
    result[: len(total)] += total
    result[: len(values)] += values
    return result


def _to_lists(named: Mapping[str, Vector]) -> dict[str, list[float]]:
    return {name: named[name].tolist() for name in sorted(named)}


def _to_arrays(named: Mapping[str, list[float]]) -> dict[str, Vector]:
    return {name: np.array(values, dtype=np.float64) for name, values in named.items()}
