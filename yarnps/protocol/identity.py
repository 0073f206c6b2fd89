"""The 64-bit identity of an incarnation: the same on every side, without asking."""

from __future__ import annotations

import hashlib

from yarnps.protocol import control_pb2 as pb


def incarnation(application: str, container: str, process: int, start: int) -> pb.Incarnation:
    """One start of one process, with its identity on the data plane.

    Parameters
    ----------
    application, container
        Ids; `container` is the cluster's name of it (``worker_3``).
    process
        Index of the process in its container.
    start
        Count of the starts of that process, from 0.
    """
    digest = hashlib.sha256(f"{application}/{container}/{process}/{start}".encode()).digest()
    return pb.Incarnation(
        container=container,
        process=process,
        start=start,
        id=int.from_bytes(digest[:8], "little"),
    )
