"""``python -m bench``: every benchmark, one after the other, each beside its peers."""

from __future__ import annotations

import subprocess
import sys

# A process for each: none measures what another has left in memory.
BENCHMARKS = (
    ("push and pull, beside pyzmq, the kernels alone and memcpy", ["bench.pushpull", "--peers"]),
    ("FTRL from text, beside Vowpal Wabbit", ["bench.ftrl"]),
    ("FTRL on one worker and server, and on four, on the same cores", ["bench.scaling"]),
    ("factorization machines, beside myFM", ["bench.fm"]),
    ("memory and longest request of growing tables, and their kernels", ["bench.tables"]),
    ("MXNet's start and barriers, beside its own scheduler", ["bench.dmlc"]),
    ("word2vec beside gensim", ["bench.word2vec", "speed"]),
    ("shorter forms on the wire", ["bench.wire"]),
    ("start on this machine", ["bench.startup", "--cluster", "local"]),
    (
        "start on a warm YARN, beside bare skein",
        ["bench.startup", "--cluster", "sandbox", "--runs", "3"],
    ),
)


def main() -> int:
    """Run them all; 0 when each has run."""
    worst = 0
    for name, command in BENCHMARKS:
        print(f"\n# {name}: python -m {' '.join(command)}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, "-m", *command]).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
