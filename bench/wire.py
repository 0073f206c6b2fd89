"""What shorter forms on the wire save and cost: bytes, time, and accuracy.

``python -m bench.wire [--data .data]``

For each form of `yarnps.Wire` one worker learns the flights (FTRL, one epoch) through one server,
and scores the test rows. Lines ``name value unit``: bytes that a key costs in a push and in a
pull, keys a second, and the test set's log loss and AUC. Then the same for dense tables: bytes that
a number costs, and the digits that a network of two layers has learned (`bench.wire_digits`).
Beside those of the first form, which loses nothing, they show what a form is worth.
``specs/flights_data.py`` and ``specs/digits_data.py`` make the input.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench import wire_digits
from bench.pushpull_measuring import LIMIT_S
from bench.pushpull_processes import JOB_FILE, start_servers
from bench.wire_traffic import Traffic, counted
from yarnps.protocol.tables import Ftrl, TableSpec, Wire

FORMS = {
    "exact": Wire(),
    "key_lists": Wire(key_lists=True),
    "bfloat16": Wire(push="bfloat16", pull="bfloat16"),
    "float16": Wire(push="float16", pull="float16"),
    "int8": Wire(push="int8"),
    "topk_50": Wire(push="topk", keep=0.5),
    "topk_10": Wire(push="topk", keep=0.1),
    "kkt": Wire(push="kkt", kkt=1.0),
}
OPTIMIZER = Ftrl(alpha=0.1, beta=1.0, l1=0.5)
BATCH_ROWS = 1024


def batches(folder: Path) -> Iterator[Any]:
    """The rows of libsvm files, in batches."""
    from yarnps.data import DataSettings, list_input, read_batches
    from yarnps.spec import load

    path = folder / ".bench-wire.yaml"
    path.write_text(
        JOB_FILE.replace(
            "data: {train: none}",
            f'data: {{train: "{folder}/*", format: libsvm}}, train: {{batch_rows: {BATCH_ROWS}}}',
        )
    )
    try:
        job = load(path, site=[])
    finally:
        path.unlink()
    assert job.block is not None
    settings = DataSettings.from_block(job.block)
    for split in list_input(f"{folder.absolute()}/*", settings, workers=1).splits:
        for batch in read_batches(split, settings, epoch=0, from_batch=0, shuffle=False):
            if len(batch.rows):
                yield batch.rows


def learn(name: str, wire: Wire, data: Path) -> None:
    """One epoch and the test set, through a server of its own; prints the lines of one form."""
    from yarnps.apps._features import FeatureMap, probabilities
    from yarnps.apps._rows import gradient, logits
    from yarnps.apps.metrics import binary_sums, finish
    from yarnps.worker.client import Client
    from yarnps.worker.tables import CurrentBatch, SparseTable

    with ExitStack() as stack:
        client = Client(start_servers(stack, 1, "tcp"), LIMIT_S)
        stack.callback(client.close)
        spec = TableSpec("w", "sparse", (1,), optimizer=OPTIMIZER, wire=wire)
        client.open(spec)
        table = SparseTable(client, spec, CurrentBatch())
        features, traffic = FeatureMap("ftrl", None, False), Traffic()
        counted(client, traffic)
        seconds, keys_moved = 0.0, 0
        for rows in batches(data / "train"):
            inputs = features(rows)
            keys = np.sort(inputs.keys)
            order = np.searchsorted(keys, inputs.keys).astype(np.int32)
            entries = inputs.entries._replace(places=order[inputs.entries.places])
            begun = time.perf_counter()
            with traffic.counting("pull", len(keys)):
                weights = table.pull(keys).wait()
            seconds += time.perf_counter() - begun
            errors = probabilities(logits(entries, weights)) - (rows.labels > 0)
            found = gradient(entries, errors, len(keys))
            begun = time.perf_counter()
            with traffic.counting("push", len(keys)):
                table.push(keys, found).wait()
            seconds += time.perf_counter() - begun
            keys_moved += 2 * len(keys)
        sums: dict[str, Any] = {}
        for rows in batches(data / "test"):
            inputs = features(rows)
            scores = logits(inputs.entries, table.pull(inputs.keys).wait())
            for metric, values in binary_sums(scores, rows.labels > 0).items():
                sums[metric] = sums.get(metric, 0) + np.asarray(values)
        traffic.show(name, "key")
        print(f"{name}_rate {keys_moved / seconds / 1e6:.3g} Mkeys/s")
        for metric, value in finish(sums).items():
            print(f"{name}_{metric} {value:.4f} -", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path(".data"))
    data = parser.parse_args().data
    flights, digits = data / "flights", data / "digits.npz"
    if not (flights / "DONE").exists():
        raise SystemExit(f"no flights in {flights}: run python specs/flights_data.py {flights}")
    if not digits.exists():
        raise SystemExit(f"no digits in {digits}: run python specs/digits_data.py {digits}")
    for name, wire in FORMS.items():
        learn(name, wire, flights)
    with np.load(digits) as arrays:
        for name, wire in wire_digits.FORMS.items():
            wire_digits.learn(name, wire, arrays)


if __name__ == "__main__":
    main()
