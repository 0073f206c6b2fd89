"""What ``/proc`` says of a forked process: its own command and environment, not its maker's.

Whoever looks for the processes of a container reads there. Linux shows the memory in which the
system once handed both to the program, so a fork writes its own there. `Room` is that memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# A variable with nothing but length: makes room for what a fork's environment has more.
ROOM = "YARNPS_ROOM"
ROOM_BYTES = 16 << 10


class Room(NamedTuple):
    """Addresses of a process's command and environment."""

    command: range
    environment: range

    @classmethod
    def of_this_process(cls) -> Room:
        """That of this process, as of those that it will fork."""
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        # Of proc(5): 48 arg_start, 49 arg_end, 50 env_start, 51 env_end; the first two are cut off.
        first, end, env_first, env_end = map(int, fields[45:49])
        return cls(range(first, end), range(env_first, env_end))

    def holds(self, command: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether they fit."""
        fits = len(_block(command)) <= len(self.command)
        return fits and len(_block(_pairs(env))) <= len(self.environment)

    def take_on(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Give this process, a fork, an environment and the appearance of a command of its own."""
        if not self.holds(command, env):
            raise ValueError(f"this command and its environment do not fit: {' '.join(command)}")
        # First: from then on nothing points to the memory that is written next.
        os.environ.clear()
        os.environ.update(env)
        for place, words in ((self.command, command), (self.environment, _pairs(env))):
            ctypes.memmove(place.start, _block(words).ljust(len(place), b"\0"), len(place))


def _pairs(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def _block(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
