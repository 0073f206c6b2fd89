"""Unmodified MXNet programs: the values they compute, and their deaths."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import zmq
from local_run import LocalRun

from bench import processes
from bench.drill_dmlc import expected
from bench.mxnet_own import run_with_own_scheduler
from yarnps.pslite import wire_pb2 as ps
from yarnps.pslite.wire import Command
from yarnps.status import Event

ROOT = Path(__file__).parents[2]
VALUES = ROOT / "bench" / "mxnet_values.py"
DIGITS = ROOT / "specs" / "mxnet_digits.py"
LIMIT_S = 150.0

# Pushes for as long as the brake is on.
ASYNC = """
import os, sys, time
import mxnet as mx

brake = sys.argv[1]
kv = mx.kv.create("dist_async")
kv.set_optimizer(mx.optimizer.Test(rescale_grad=1.0))
kv.init("sum", mx.nd.zeros((4,)))
out = mx.nd.zeros((4,))
while os.path.exists(brake):
    kv.push("sum", mx.nd.ones((4,)))
    kv.pull("sum", out=out)
    out.wait_to_read()
    time.sleep(0.02)
assert out.asnumpy()[0] > 0
"""


def job(
    folder: Path,
    python: Path,
    program: str,
    arguments: str,
    *,
    servers: int,
    workers: int,
    **more: Any,
) -> LocalRun:
    """A job of an MXNet program on the local cluster."""
    services = {
        "worker": {"script": f"{python} train.py {arguments}"},
        "server": {"files": {"train.py": "train.py"}},
    }
    block = {"runtime": "dmlc", **more}
    return LocalRun(
        folder, block, program=program, servers=servers, workers=workers, services=services
    )


def values(folder: Path, mode: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{mode}-*.json"))]


@pytest.mark.parametrize(("mode", "servers", "workers"), [("sync", 2, 3), ("async", 1, 2)])
def test_values_are_those_of_mxnets_own_scheduler(
    mode: str, servers: int, workers: int, tmp_path: Path, mxnet: Path
) -> None:
    program = VALUES.read_text()
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    arguments = f"{mode} {ours}"
    made = job(tmp_path / "job", mxnet, program, arguments, servers=servers, workers=workers)
    with made as run:
        assert run.outcome(LIMIT_S).state == "SUCCEEDED"
    command = [str(mxnet), str(VALUES), mode, str(theirs)]
    run_with_own_scheduler(command, workers=workers, servers=servers, limit_s=LIMIT_S)
    assert len(values(ours, mode)) == workers
    assert values(ours, mode) == values(theirs, mode)
    right = expected(mode, workers)
    assert right.items() <= values(ours, mode)[0].items()


def scheduler_port(run: LocalRun, role: str, rank: int) -> int:
    """The port that a process has been told of."""
    environ = Path(f"/proc/{run.pid('role', role, rank)}/environ").read_bytes().decode().split("\0")
    (port,) = (v.partition("=")[2] for v in environ if v.startswith("DMLC_PS_ROOT_PORT="))
    return int(port)


def strangers_call(port: int) -> None:
    """Bytes of another protocol, garbage, and a node of another job that looks like ours."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    node = ps.Node(role=1, hostname="127.0.0.1", port=9, id=2**31 - 1)
    meta = ps.Meta(control=ps.Control(cmd=Command.ADD_NODE, node=[node]), timestamp=0)
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.connect(f"tcp://127.0.0.1:{port}")
        dealer.send(b"\xff garbage")
        dealer.send(meta.SerializeToString())


def wait_joined(run: LocalRun, rank: int, after: int) -> Event:
    return run.event("joined", role="worker", rank=rank, after=after, limit=LIMIT_S)


def test_an_asynchronous_worker_is_killed_twice_and_the_am_once(
    tmp_path: Path, mxnet: Path
) -> None:
    brake = tmp_path / "brake"
    brake.touch()
    made = job(
        tmp_path / "job",
        mxnet,
        ASYNC,
        str(brake),
        servers=1,
        workers=2,
        sync={"mode": "asp"},
        dmlc={"restart": "worker"},
    )
    with made as run:
        run.event("barrier", "start", limit=LIMIT_S)
        strangers_call(scheduler_port(run, "worker", 0))
        run.event("refused", "no message of ps-lite: nothing that ZeroMQ can read", rank=0)
        run.event("refused", "worker 0: what came to its port is no message of ps-lite: b'\\xff")
        run.event("refused", "127.0.0.1:9 has registered, and 127.0.0.1:")
        for _ in range(2):
            since, before = time.time(), run.kill("role", "worker", 1)
            back = wait_joined(run, 1, before)
            assert "again" in back.text
            print(f"\nworker 1 killed: back after {back.time - since:.2f} s", end="")
        before = run.kill("am")
        run.event("am_restart", after=before)
        brake.unlink()
        assert run.outcome(LIMIT_S).state == "SUCCEEDED"
        assert len(run.events("death")) == 2
        assert not [e for e in run.events("note") if "all start again" in e.text]


def test_a_server_is_killed_and_all_go_on_from_their_checkpoint(
    tmp_path: Path, mxnet: Path, digits: Path
) -> None:
    log = tmp_path / "job"
    arguments = f"--kv dist_sync --data {digits} --epochs 40"
    made = job(log, mxnet, DIGITS.read_text(), arguments, servers=2, workers=2)
    with made as run:
        run.event("barrier", "start", limit=LIMIT_S)
        worker = run.job_folder / "containers" / "worker_0"
        run.wait(lambda: (worker / "digits.epoch").exists(), "a checkpoint", LIMIT_S)
        found = processes.find(run.application, "role", "server", 1)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        run.event("note", "all start again (restart 1): server 1 died", limit=LIMIT_S)
        saved = int((worker / "digits.epoch").read_text())
        assert run.outcome(LIMIT_S).state == "SUCCEEDED"
        first, second = ((worker / f"worker-0-{n}.log").read_text() for n in (0, 1))
        assert first.startswith("epoch 1 ")
        begun = int(second.split()[1])
        assert saved <= begun - 1 <= saved + 1, "it did not go on from where it was"
        assert "epoch 40 accuracy" in second
