"""`yarnps launch` with the real thing: MXNet, unmodified, and in a Python of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 200.0

PROGRAM = """\
import os
import mxnet as mx

kv = mx.kv.create("dist_sync")
assert kv.rank == int(os.environ["DMLC_TASK_ID"])
kv.init(3, mx.nd.zeros(4))
kv.push(3, mx.nd.ones(4) * (kv.rank + 1))
sums = mx.nd.zeros(4)
kv.pull(3, out=sums)
print(kv.rank, "of", kv.num_workers, "sees", sums.asnumpy().tolist(), flush=True)
kv._barrier()
mx.nd.waitall()
"""


@pytest.mark.timeout(LIMIT_S + 100)
def test_mxnet(mxnet: Path, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "yarnps.client.main", "launch", "--launcher", "local"]
    words += ["-n", "3", "-s", "2", str(mxnet), "sums.py"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sums = [6.0] * 4
    assert sorted(done.stdout.splitlines()) == [
        f"[worker {rank}] {rank} of 3 sees {sums}" for rank in range(3)
    ]
