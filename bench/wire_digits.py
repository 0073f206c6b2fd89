"""What shorter forms save and cost on dense tables: the network of ``specs/digits.py``.

One worker trains it through one server on scikit-learn's digits: bytes, and right answers.
"""

from __future__ import annotations

import importlib.util
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.pushpull_measuring import LIMIT_S
from bench.pushpull_processes import start_servers
from bench.wire_traffic import Traffic, counted
from yarnps.protocol.tables import Init, Normal, Sgd, TableSpec, Wire, Zeros

FORMS = {
    "exact": Wire(),
    "bfloat16": Wire(push="bfloat16", pull="bfloat16"),
    "float16": Wire(push="float16", pull="float16"),
    "int8": Wire(push="int8"),
    "topk_10": Wire(push="topk", keep=0.1),
    "topk_1": Wire(push="topk", keep=0.01),
}
UNITS = 512
EPOCHS = 8
BATCH_ROWS = 24
OPTIMIZER = Sgd(0.5)
TABLES: dict[str, tuple[tuple[int, ...], Init]] = {
    "hidden": ((64, UNITS), Normal(0.15)),
    "hidden_bias": ((UNITS,), Zeros()),
    "scores": ((UNITS, 10), Normal(0.25)),
    "scores_bias": ((10,), Zeros()),
}


def network() -> ModuleType:
    """The program of `specs/digits.py`, which is in no package."""
    path = Path(__file__).parents[1] / "specs" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its NamedTuple looks its own module up
    spec.loader.exec_module(module)
    return module


def learn(name: str, wire: Wire, digits: Any) -> None:
    """All epochs and the test set, through a server of its own; prints the lines of one form."""
    from yarnps.worker.client import Client
    from yarnps.worker.tables import CurrentBatch, DenseTable

    model, rng, traffic = network(), np.random.default_rng(1), Traffic()
    with ExitStack() as stack:
        client = Client(start_servers(stack, 1, "tcp"), LIMIT_S)
        stack.callback(client.close)
        tables = []
        for table, (shape, init) in TABLES.items():
            spec = TableSpec(table, "dense", shape, optimizer=OPTIMIZER, init=init, wire=wire)
            client.open(spec)
            tables.append(DenseTable(client, spec, CurrentBatch()))
        counted(client, traffic)
        numbers = sum(table.spec.elements for table in tables)

        def pulled() -> Any:
            with traffic.counting("pull", numbers):
                return model.Weights(*[pull.wait() for pull in [t.pull() for t in tables]])

        rows = len(digits["train"])
        for _ in range(EPOCHS):
            order = rng.permutation(rows)
            for first in range(0, rows, BATCH_ROWS):
                chosen = order[first : first + BATCH_ROWS]
                labels = digits["train_labels"][chosen].astype(int)
                gradients = model.backward(pulled(), digits["train"][chosen], labels)
                with traffic.counting("push", numbers):
                    pairs = zip(tables, gradients, strict=True)
                    for push in [table.push(gradient) for table, gradient in pairs]:
                        push.wait()
        found = model.forward(pulled(), digits["test"])[1]
    labels = digits["test_labels"].astype(int)
    losses = -np.log(found[np.arange(len(labels)), labels])
    traffic.show(f"digits_{name}", "number")
    print(f"digits_{name}_loss {losses.mean():.4f} -")
    print(f"digits_{name}_accuracy {np.mean(found.argmax(axis=1) == labels):.4f} -", flush=True)
