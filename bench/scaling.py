"""The same job on one worker and one server, and on four of each, on the same two cores.

``python -m bench.scaling [--rows N] [--repeats R] [--batch-rows B] [--folder DIR]``

FTRL from text, on the rows of `bench.ftrl`. More processes on the same cores cannot be faster;
what they lose is what the system costs when it is spread. Both run in turn, held to the first two
cores. Rows per second are those of the whole job from the first lease of the second epoch to the
end of the last: no process starts then, and no row of the tables is new.
Prints lines ``name value unit``: medians, their spread (highest over lowest), and the ratio last.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench import jobs
from bench.jobs import show
from bench.zipf_rows import make

CORES = 2
EPOCHS = 3
SIZES = (1, 4)
JOB = """
name: scaling
services:
  server: {{instances: {size}, resources: {{memory: 1 GiB, vcores: 1}}}}
  worker: {{instances: {size}, resources: {{memory: 1 GiB, vcores: 1}}}}
yarnps:
  app: ftrl
  data: {{train: {train}, format: libsvm, split_size: 8 MiB}}
  train: {{epochs: {epochs}{batch_rows}}}
  model: {{path: {model}, overwrite: true}}
"""


def measure(train: Path, folder: Path, size: int, batch_rows: int | None) -> jobs.Training:
    """One job; `batch_rows` None: its file says nothing of batches."""
    spec = folder / f"scaling-{size}.yaml"
    said = "" if batch_rows is None else f", batch_rows: {batch_rows}"
    values = {"size": size, "epochs": EPOCHS, "batch_rows": said}
    spec.write_text(JOB.format(**values, train=train, model=folder / "model"))
    return jobs.run(spec).training(from_epoch=1)


def main() -> int:
    """Run both in turn, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--batch-rows", type=int, help="else as a job file without it has them")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keeps the rows")
    options = parser.parse_args()
    # Children inherit it: all processes of the jobs.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    found: dict[int, list[jobs.Training]] = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory(prefix="yarnps-scaling-") as temporary:
        folder = options.folder or Path(temporary)
        train = make(folder / f"zipf-{options.rows}", options.rows).train
        measure(train, folder, 1, options.batch_rows)  # compiles the kernels
        for _ in range(options.repeats):
            for size in SIZES:
                found[size].append(measure(train, folder, size, options.batch_rows))
    rows = options.rows * (EPOCHS - 1)
    for size, runs in found.items():
        name = f"scaling_{size}_on_{size}"
        show(f"{name}_rows", [rows / run.seconds for run in runs], "rows/s")
        show(f"{name}_rows_per_cpu", [rows / run.cpu for run in runs], "rows/CPU-s")
        for kind in sorted({kind for run in runs for kind in run.parts}):
            show(f"{name}_cpu_{kind}", [run.parts.get(kind, 0.0) for run in runs], "CPU-s")
    one, four = (found[size] for size in SIZES)
    pairs = list(zip(one, four, strict=True))
    show("scaling_4_over_1_per_cpu", [a.cpu / b.cpu for a, b in pairs], "ratio")
    show("scaling_4_over_1", [a.seconds / b.seconds for a, b in pairs], "ratio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
