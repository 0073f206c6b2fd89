"""The training of `specs/digits.py` in one process, with the union of each step's parts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import yarnps
from yarnps.am.training.parts import PartLedger
from yarnps.data import DataSettings, list_input, read_batches
from yarnps.protocol.tables import TableSpec
from yarnps.server.dense import DenseTable, Stretch
from yarnps.spec import load

SPECS = Path(__file__).parents[1] / "specs"
TABLES = ("hidden", "hidden_bias", "scores", "scores_bias")

Model = dict[str, NDArray[np.float64]]


def joined(parts: Iterable[dict[str, NDArray[np.float64]]]) -> Model:
    """A model of the parts that servers have written, in their order: each a range of elements."""
    kept = list(parts)
    return {name: np.concatenate([part[f"{name}/values"] for part in kept]) for name in TABLES}


def assert_trained_alike(model: Model, alone: Model) -> None:
    """One process adds up a step's rows in another order: the last bits may differ."""
    for name in TABLES:
        np.testing.assert_allclose(model[name], alone[name], rtol=1e-12, atol=1e-14)


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_program", SPECS / "digits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its NamedTuple looks its own module up
    spec.loader.exec_module(module)
    return module


class Union:
    """Rows of several batches as one batch."""

    def __init__(self, batches: list[Any]) -> None:
        self.rows = sum(len(b) for b in batches)
        self.labels = np.concatenate([b.labels for b in batches])
        self.keys = np.concatenate([b.keys for b in batches])
        self.values = np.concatenate([b.values for b in batches])
        starts = np.cumsum([0, *(len(b.keys) for b in batches)])
        ends = [b.indptr[1:] + start for b, start in zip(batches, starts, strict=False)]
        self.indptr = np.concatenate([[0], *ends])


def initial(name: str, shape: tuple[int, ...], init: yarnps.Normal | yarnps.Zeros) -> Any:
    """A table's values before the training."""
    spec = TableSpec(name, "dense", shape, "float64", init=init, seed=1)
    table = DenseTable(spec, np.arange(256))
    return table.pull([Stretch(0, spec.elements, 0)]).reshape(shape)


def trained_alone(file: Path) -> Model:
    """What the job of this file has to learn."""
    network = program()
    job = load(file, site=[])
    assert job.block is not None
    block, parts = job.block, job.block.sync.parts
    assert parts is not None
    settings = DataSettings.from_block(block)
    splits = list_input(list(block.data.train), settings, workers=parts).splits
    ledger = PartLedger(splits, epochs=block.train.epochs, parts=parts)
    units, rate = int(block.params["units"]), float(block.params["learning_rate"])
    weights = [
        initial("hidden", (64, units), yarnps.Normal(0.15)),
        initial("hidden_bias", (units,), yarnps.Zeros()),
        initial("scores", (units, 10), yarnps.Normal(0.25)),
        initial("scores_bias", (10,), yarnps.Zeros()),
    ]
    for epoch in range(1, block.train.epochs + 1):
        ledger.begin(epoch, "train")
        streams = [
            [
                batch.rows
                for split in stream
                for batch in read_batches(splits[split], settings, epoch=epoch, from_batch=0)
            ]
            for stream in ledger.streams
        ]
        for step in range(max(map(len, streams))):
            union = Union([stream[step] for stream in streams if step < len(stream)])
            gradients = network.backward(
                network.Weights(*weights), network.images(union), union.labels.astype(int)
            )
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= rate * gradient
    return {name: weight.reshape(-1) for name, weight in zip(TABLES, weights, strict=True)}
