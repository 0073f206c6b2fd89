"""The worker's end of the agent's channel: a thread that listens and says each second how it is."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import RoleChannel, exit_without_agent

log = logging.getLogger(__name__)

STATS_S = 1.0


class Link:
    """Listens to the agent until it closes the channel; this process ends with it.

    Parameters
    ----------
    on_message
        Called in the thread for every message after `Begin`.
    stats
        What to say each second.
    """

    def __init__(
        self,
        channel: RoleChannel,
        on_message: Callable[[pb.ToRole], None],
        stats: Callable[[], pb.Stats],
    ) -> None:
        self._channel = channel
        self._on_message = on_message
        self._stats = stats
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self, early: list[pb.ToRole]) -> None:
        """Begin with the messages that came right behind `Begin`."""
        for message in early:
            self._on_message(message)
        self._thread.start()

    def send(self, message: pb.FromRole) -> None:
        """Tell the ApplicationMaster; from any thread."""
        try:
            self._channel.send(message)
        except OSError:
            exit_without_agent()

    def _run(self) -> None:
        next_stats = time.monotonic() + STATS_S
        while True:
            left = max(0.0, next_stats - time.monotonic())
            ready, _, _ = select.select([self._channel], [], [], left)
            if ready:
                messages = self._channel.receive()
                if messages is None:
                    exit_without_agent()
                    return
                for message in messages:
                    self._on_message(message)
            if time.monotonic() >= next_stats:
                next_stats = time.monotonic() + STATS_S
                self.send(pb.FromRole(stats=self._stats()))
