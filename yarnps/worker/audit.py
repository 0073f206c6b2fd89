"""The table that counts the rows of committed batches, for tests and for those who doubt."""

from __future__ import annotations

import numpy as np

from yarnps.protocol import wire
from yarnps.protocol.wire import Flag, Op
from yarnps.worker.batch import Batch
from yarnps.worker.calls import Call
from yarnps.worker.client import Client
from yarnps.worker.tables import SparseTable


def count_rows(client: Client, batch: Batch, table: SparseTable) -> None:
    """Push (split, rows): the servers' count shows whether each batch was applied once."""
    header = client.header(
        Op.PUSH,
        table=wire.table_id(table.name),
        flags=int(Flag.LEASED),
        dtype=int(wire.DType.FLOAT64),
        dim=1,
    )
    stamped = batch.stamp(header, audit=True)
    call = Call(stamped, f"push to table {table.name}", table.spec, lease=batch.lease)
    batch.pushes.append(call)
    keys = np.array([batch.split], np.int64)
    rows = np.array([[batch.rows]], np.float64)
    client.submit(call, client.router.sparse(keys, rows, 8, announce=True))
