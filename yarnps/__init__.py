"""Parameter-server training on Hadoop YARN.

A worker's program begins with `connect`:

>>> import yarnps
>>> job = yarnps.connect()                                 # doctest: +SKIP
>>> w = job.sparse("w", optimizer=yarnps.Ftrl(alpha=0.1))  # doctest: +SKIP
>>> for batch in job.data():                               # doctest: +SKIP
...     with batch:
...         weights = w.pull(batch.keys).wait()
...         w.push(batch.keys, gradient(weights, batch))

Names are loaded when they are used: the agent imports this package and must stay small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarnps._errors import (
        DataError,
        InputError,
        LeaseRevoked,
        ServerRefused,
        YarnpsError,
    )
    from yarnps.protocol.optimizers import (
        Adagrad,
        Adam,
        AdamW,
        Add,
        Clip,
        CosineDecay,
        ExponentialDecay,
        Ftrl,
        RmsProp,
        Sgd,
        StepDecay,
        WarmUp,
    )
    from yarnps.protocol.tables import Normal, Uniform, Wire, Zeros
    from yarnps.rabit.sharing import Shard, shard
    from yarnps.worker.batch import Batch
    from yarnps.worker.connecting import connect
    from yarnps.worker.job import Job
    from yarnps.worker.tables import DenseTable, Future, SparseTable

__version__ = "0.1.0"

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Add",
    "Batch",
    "Clip",
    "CosineDecay",
    "DataError",
    "DenseTable",
    "ExponentialDecay",
    "Ftrl",
    "Future",
    "InputError",
    "Job",
    "LeaseRevoked",
    "Normal",
    "RmsProp",
    "ServerRefused",
    "Sgd",
    "Shard",
    "SparseTable",
    "StepDecay",
    "Uniform",
    "WarmUp",
    "Wire",
    "YarnpsError",
    "Zeros",
    "connect",
    "shard",
]

_HOMES = {
    "yarnps._errors": ("DataError", "InputError", "LeaseRevoked", "ServerRefused", "YarnpsError"),
    "yarnps.protocol.optimizers": (
        "Adagrad",
        "Adam",
        "AdamW",
        "Add",
        "Clip",
        "CosineDecay",
        "ExponentialDecay",
        "Ftrl",
        "RmsProp",
        "Sgd",
        "StepDecay",
        "WarmUp",
    ),
    "yarnps.protocol.tables": ("Normal", "Uniform", "Wire", "Zeros"),
    "yarnps.rabit.sharing": ("Shard", "shard"),
    "yarnps.worker.batch": ("Batch",),
    "yarnps.worker.connecting": ("connect",),
    "yarnps.worker.job": ("Job",),
    "yarnps.worker.tables": ("DenseTable", "Future", "SparseTable"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'yarnps' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
