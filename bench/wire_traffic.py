"""The bytes that a client's calls cost on the wire, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from yarnps.protocol import wire
from yarnps.protocol.wire import Message


@dataclass
class Traffic:
    """What a client sends and receives, and for how many keys or numbers."""

    moved: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"push": 0, "pull": 0})
    bytes: dict[str, int] = field(default_factory=lambda: {"push": 0, "pull": 0})

    @contextmanager
    def counting(self, what: str, count: int) -> Iterator[None]:
        """Inside the block calls are made, and waited for, with so many keys or numbers."""
        before = self.moved
        yield
        self.counts[what] += count
        self.bytes[what] += self.moved - before

    def show(self, name: str, unit: str) -> None:
        """Print how many bytes each key or number has cost."""
        for what, count in self.counts.items():
            print(f"{name}_{what} {self.bytes[what] / count:.2f} bytes/{unit}")


def counted(client: Any, traffic: Traffic) -> None:
    """Count what goes through a client's connections from now on."""
    for connection in client._connections.values():
        write, serve = connection.write, connection.serve

        def writing(buffers: list[Any], write: Any = write) -> None:
            traffic.moved += sum(memoryview(buffer).nbytes for buffer in buffers)
            write(buffers)

        def serving(events: int, serve: Any = serve) -> list[Message]:
            messages: list[Message] = serve(events)
            traffic.moved += sum(_nbytes(message) for message in messages)
            return messages

        connection.write, connection.serve = writing, serving


def _nbytes(message: Message) -> int:
    length = wire.sections_length(message.header)
    return wire.HEADER_BYTES + length + wire.padding(length)
