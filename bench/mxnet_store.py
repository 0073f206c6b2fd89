"""MXNet's kvstore (ps-lite in C++) as a peer of bench.pushpull.

It runs on an older Python, in an environment that is made at the first run. Its scheduler, server
and worker are processes of their own; the worker does a repetition when it is told to.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.pushpull_measuring import LIMIT_S, OUTSTANDING, SECONDS, SIZES, Peer

PYTHONS = ("python3.8", "python3.9", "python3.10", "python3.11")
PACKAGES = ("numpy<1.24", "mxnet==1.9.1")

# Sent and acknowledged in groups: a group ends when all of it is. A pushed array becomes the
# store's own, so that every push needs another one; they are made outside of the time measured.
PROGRAM = """
import sys, time
import mxnet as mx
store = mx.kv.create("dist_sync")
shapes, seconds, outstanding = eval(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
keys = {}
def keys_of(size, depth):
    while len(keys.setdefault(size, [])) < depth:
        key = str(1000 * size + len(keys[size]))
        store.init(key, mx.nd.zeros((size,)))
        keys[size].append(key)
    return keys[size][:depth]
def rate(what, size, depth):
    names = keys_of(size, depth)
    outs = [mx.nd.zeros((size,)) for _ in names]
    mx.nd.waitall()
    spent, done = 0.0, 0
    while spent < seconds:
        fresh = [mx.nd.ones((size,)) for _ in names] if what == "push" else outs
        mx.nd.waitall()
        begun = time.perf_counter()
        for name, array in zip(names, fresh):
            store.push(name, array) if what == "push" else store.pull(name, out=array)
        mx.nd.waitall()
        spent += time.perf_counter() - begun
        done += len(names)
    return done / spent
print("ready", flush=True)
for line in sys.stdin:
    what, size, depth = line.split()
    print(rate(what, int(size), int(depth)), flush=True)
"""


def environment(folder: Path) -> Path | None:
    """The interpreter of an environment with MXNet; None where no Python is old enough."""
    python = folder / "bin" / "python"
    if (folder / "READY").exists():
        return python
    found = next((path for name in PYTHONS if (path := _found(name))), None)
    if found is None:
        return None
    subprocess.run([found, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    (folder / "READY").touch()
    return python


def _found(name: str) -> str | None:
    """An interpreter on the path, or one of pyenv's."""
    version = name.removeprefix("python")
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
    for candidate in (shutil.which(name), *map(str, pyenv)):
        if candidate and not subprocess.run([candidate, "-c", ""], stderr=-3).returncode:
            return candidate
    return None


@contextmanager
def mxnet(data: Path) -> Iterator[list[tuple[str, Peer]]]:
    """The same lines by MXNet, where it has them."""
    python = environment(data.absolute() / "mxnet")
    if python is None:
        print(f"no MXNet: none of {', '.join(PYTHONS)} is here", file=sys.stderr)
        yield []
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {
        **os.environ,
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": "1",
        "DMLC_NUM_WORKER": "1",
        "OMP_NUM_THREADS": "1",
    }
    processes = []
    words = [str(dict(SIZES)), str(SECONDS), str(OUTSTANDING)]
    for role, program in (
        ("scheduler", "import mxnet"),
        ("server", "import mxnet"),
        ("worker", PROGRAM),
    ):
        processes.append(
            subprocess.Popen(
                [python, "-W", "ignore", "-c", program, *words],
                env={**env, "DMLC_ROLE": role},
                stdin=subprocess.PIPE if role == "worker" else subprocess.DEVNULL,
                stdout=subprocess.PIPE if role == "worker" else subprocess.DEVNULL,
                text=True,
            )
        )
    worker = processes[-1]
    try:
        assert worker.stdout is not None
        if worker.stdout.readline().strip() != "ready":
            raise RuntimeError("MXNet's worker ended before it was ready: see its output above")
        yield _measures(worker, [process.pid for process in processes])
    finally:
        if worker.stdin is not None:
            worker.stdin.close()
        for process in processes:
            try:
                process.wait(LIMIT_S / 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _measures(worker: subprocess.Popen[str], pids: list[int]) -> list[tuple[str, Peer]]:
    def measure(line: str, what: str, floats: int, depth: int, amount: float) -> tuple[str, Peer]:
        def once() -> float:
            assert worker.stdin is not None and worker.stdout is not None
            print(what, floats, depth, file=worker.stdin, flush=True)
            return float(worker.stdout.readline()) * amount

        return line, Peer(f"mxnet_{line}", once, pids)

    found = [
        measure(f"{what}_{label}", what, size // 4, OUTSTANDING, size / 1e6)
        for label, size in SIZES.items()
        for what in ("push", "pull")
    ]
    found += [
        measure(f"tiny_{what}_d{depth}", what, 1, depth, 1)
        for depth in (1, 64)
        for what in ("push", "pull")
    ]
    return found
