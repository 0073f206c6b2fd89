"""What ps-lite's nodes say reaches the state machine, or is answered without it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from shell_world import Life, until

from yarnps.am import inputs as i
from yarnps.am.actions import ClosePort, OpenPort, SendNode
from yarnps.am.shell.node_ports import NodePorts
from yarnps.pslite import wire_pb2 as ps
from yarnps.pslite.ports import Ports
from yarnps.pslite.scheduler import Scheduler, Send
from yarnps.pslite.wire import EVERYONE, HALL, WORKER_GROUP, Address, Command, Seat

WORKERS = [Seat("worker", rank) for rank in range(3)]
HERE = "127.0.0.1"


def barrier(timestamp: int, group: int = WORKER_GROUP) -> bytes:
    control = ps.Control(cmd=Command.BARRIER, barrier_group=group)
    return ps.Meta(control=control, request=True, timestamp=timestamp).SerializeToString()


def registration(address: Address) -> bytes:
    control = ps.Control(cmd=Command.ADD_NODE)
    control.node.add(role=1, hostname=address.host, port=address.port)
    return ps.Meta(control=control, timestamp=0).SerializeToString()


class Job:
    """A scheduler that is fed, three workers that have met in its hall, and their sockets."""

    def __init__(self) -> None:
        self.fed: list[bytes] = []  # whose words were fed
        self.fed_at_pause = 0
        self.lost: list[i.PortLost] = []
        self.scheduler = Scheduler(len(WORKERS), 0)
        self.ports = NodePorts(self._feed, self._pause, self.scheduler.round, self._failed)
        self.ports.run(OpenPort(*HALL))
        self._context = zmq.Context()
        self.speak = [self._socket(zmq.DEALER, seat.name) for seat in WORKERS]
        self.listen = [self._socket(zmq.ROUTER) for _ in WORKERS]
        for made in self.speak:
            made.connect(f"tcp://{HERE}:{self.port}")

    def meet(self) -> None:
        """They register, and wait for one another as at a program's start."""
        for seat, made in zip(WORKERS, self.listen, strict=True):
            address = Address(HERE, made.bind_to_random_port(f"tcp://{HERE}"))
            self.scheduler.opened(seat, Address(HERE, 1))
            self._hear(seat, b"\0abc", registration(address))
        for seat in WORKERS:
            self._hear(HALL, seat.name, barrier(1, EVERYONE))
        for seat in WORKERS:
            self._hear(HALL, seat.name, barrier(2))
        self.fed.clear()

    def _feed(self, event: i.Input) -> None:
        if isinstance(event, i.PortLost):
            self.lost.append(event)
        elif isinstance(event, i.PortOpened):
            self.port = event.port
            self.scheduler.hall_opened(event.port)
        else:
            assert isinstance(event, i.NodeSaid)
            self._hear(Seat(event.role, event.rank), event.sender, event.message)

    def _hear(self, port: Seat, sender: bytes, message: bytes) -> None:
        self.fed.append(sender)
        for effect in self.scheduler.heard(port, sender, message, 0.0):
            if isinstance(effect, Send):
                self.ports.run(SendNode(*effect.seat, *effect.to, effect.message))

    def _failed(self, error: Exception) -> None:
        raise error

    def _pause(self) -> None:
        self.fed_at_pause = len(self.fed)

    def _socket(self, kind: int, name: bytes = b"") -> Any:
        made: Any = self._context.socket(kind)
        if name:
            made.setsockopt(zmq.IDENTITY, name)
        return made

    async def released(self) -> None:
        """Each worker is let through one barrier; lists of nodes are passed over."""
        for made in self.listen:
            meta = ps.Meta()
            while meta.control.cmd != Command.BARRIER:
                await until(lambda made=made: made.poll(0))
                meta = ps.Meta.FromString(made.recv_multipart()[1])
            assert not meta.request

    def close(self) -> None:
        self.ports.stop()
        for made in self.speak + self.listen:
            made.close(0)
        self._context.term()


@pytest.fixture
async def job() -> AsyncIterator[Job]:
    made = Job()
    made.meet()
    for _ in range(2):
        await made.released()
    yield made
    made.close()


async def test_whole_barriers_are_answered_and_not_fed(job: Job) -> None:
    for number in range(100):
        for made in job.speak:
            made.send(barrier(10 + number))
        await job.released()
    assert len(job.fed) < 300, "on a crowded machine some are not whole in one turn, but not all"
    assert len(job.fed) % 3 == 0


async def test_one_that_is_not_whole_is_fed_when_nothing_more_comes(job: Job) -> None:
    job.speak[2].send(barrier(10))
    await until(lambda: job.fed)
    assert job.fed == [WORKERS[2].name]
    await until(lambda: job.fed_at_pause == 1)  # then it is in the journal
    (waiting,) = job.scheduler.waiting()
    assert waiting.missing == (WORKERS[0], WORKERS[1])
    for made in job.speak[:2]:
        made.send(barrier(10))
    await job.released()
    assert set(job.fed) == {seat.name for seat in WORKERS}


async def test_a_port_that_is_closed_is_free(job: Job) -> None:
    job.ports.run(ClosePort(*HALL))

    def is_free() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((HERE, job.port)) != 0

    await until(is_free)


async def test_a_port_that_cannot_be_had_again_is_told(job: Job) -> None:
    with socket.create_server((HERE, 0)) as taken:
        port = taken.getsockname()[1]
        job.ports.reopen([(WORKERS[0], port), (WORKERS[1], 0)])
    (lost,) = job.lost
    assert (lost.role, lost.rank) == WORKERS[0]
    assert f"port {port} of worker 0" in lost.error


async def test_a_dmlc_job_s_process_ends_when_its_ports_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes would wait for an answer for ever; the next process takes their ports again."""

    def fail(ports: Ports, wait_s: float) -> bool:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Ports, "turn", fail)
    life = Life(tmp_path, runtime="dmlc", data=None)
    await life.begin()
    with pytest.raises(RuntimeError, match="out of order"):
        await life.end()
    await life.die()
