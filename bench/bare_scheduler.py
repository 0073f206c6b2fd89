"""The least that a scheduler of ps-lite's can do, with pyzmq: ``python -m bench.bare_scheduler``.

It gives ids in the order in which nodes come, and counts at barriers. It has no journal, no limits
and no restarts, and does not look at who speaks. So what `bench.dmlc` shows of it is what Python
and pyzmq cost, before anything that a job needs. It takes the place of MXNet's own scheduler, and
has its environment.
"""

from __future__ import annotations

import os

import zmq

from yarnps.pslite import wire
from yarnps.pslite.wire import EVERYONE, SCHEDULER_NAME, WORKER_GROUP, Address, Listed, Seat

BARRIERS_OF_ALL = 2  # of the start and of the end
LINGER_MS = 1000


def main() -> None:
    """Entry point."""
    count = {role: int(os.environ[f"DMLC_NUM_{role.upper()}"]) for role in ("worker", "server")}
    here = Address(os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"]))
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind(f"tcp://{here}")
    nodes = _meet(router, count)
    dealers = {seat.name: _connect(context, address) for seat, address in nodes.items()}
    listed = wire.node_list([Listed(*node) for node in nodes.items()], here, timestamp=1)
    for dealer in dealers.values():
        dealer.send(listed)
    _count(router, dealers, {EVERYONE: len(nodes), WORKER_GROUP: count["worker"]})
    for dealer in dealers.values():
        dealer.close(LINGER_MS)
    router.close(0)
    context.term()


def _meet(router: zmq.Socket[bytes], count: dict[str, int]) -> dict[Seat, Address]:
    nodes: dict[Seat, Address] = {}
    while len(nodes) < sum(count.values()):
        _, message = router.recv_multipart()
        meta = wire.parse(message)
        assert meta is not None
        said = meta.control.node[0]
        role = wire.role_of(said)
        rank = sum(seat.role == role for seat in nodes)
        nodes[Seat(role, rank)] = Address(said.hostname, said.port)
    return nodes


def _connect(context: zmq.Context[zmq.Socket[bytes]], address: Address) -> zmq.Socket[bytes]:
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.IDENTITY, SCHEDULER_NAME)
    dealer.connect(f"tcp://{address}")
    return dealer


def _count(
    router: zmq.Socket[bytes], dealers: dict[bytes, zmq.Socket[bytes]], sizes: dict[int, int]
) -> None:
    """Answer at barriers, until the last of everyone is over."""
    waiting: dict[int, list[bytes]] = {group: [] for group in sizes}
    answers = {group: wire.barrier_over(group, timestamp=2) for group in sizes}
    left = BARRIERS_OF_ALL
    while left:
        sender = router.recv()
        meta = wire.parse(router.recv())
        assert meta is not None
        group = meta.control.barrier_group
        present = waiting[group]
        present.append(sender)
        if len(present) == sizes[group]:
            for name in present:
                dealers[name].send(answers[group])
            present.clear()
            left -= group == EVERYONE


if __name__ == "__main__":
    main()
