"""What the initial values of a table depend on."""

from __future__ import annotations

import numpy as np

from yarnps.protocol import wire
from yarnps.protocol.shards import mix
from yarnps.protocol.tables import Normal, TableSpec, Uniform
from yarnps.server import kernels


def seed_of(spec: TableSpec) -> np.uint64:
    """The seed of a table's initial values: the job's, mixed with the table's name."""
    key = np.uint64((spec.seed << 32 ^ wire.table_id(spec.name)) & (2**64 - 1))
    with np.errstate(over="ignore"):
        mixed: np.uint64 = mix.py_func(key)
    return mixed


def initial_of(spec: TableSpec) -> tuple[int, float, float]:
    """Kind of distribution and its two parameters, as the kernel `initial` takes them."""
    if isinstance(spec.init, Uniform):
        return kernels.UNIFORM, spec.init.low, spec.init.high
    if isinstance(spec.init, Normal):
        return kernels.NORMAL, spec.init.std, 0.0
    return kernels.ZEROS, 0.0, 0.0
