"""ZeroMQ's connections, byte by byte."""

from __future__ import annotations

import pytest

from yarnps.pslite.zmtp import (
    COMMAND,
    DEALER,
    LARGEST_FRAME,
    LONG,
    MORE,
    ROUTER,
    NotZmtp,
    Zmtp,
    frame,
)

READY = frame(b"\5READY", COMMAND)


def dealer(name: bytes = b"ps9") -> bytes:
    """All that a node sends before its first message."""
    sent: list[bytes] = []
    Zmtp(DEALER, name).fed(Zmtp.greeting, sent.append)
    return Zmtp.greeting + b"".join(sent)


class End:
    """A scheduler's end, with what it has answered."""

    def __init__(self) -> None:
        self.answered: list[bytes] = []
        self.zmtp = Zmtp(ROUTER)

    def fed(self, data: bytes) -> list[bytes]:
        return self.zmtp.fed(data, self.answered.append)

    @classmethod
    def ready(cls) -> End:
        end = cls()
        assert end.fed(dealer()) == [] and end.zmtp.ready
        end.answered.clear()
        return end


MESSAGES = (b"one", b"", b"x" * 255, b"x" * 256, b"x" * 70_000)
STREAM = b"".join(frame(message) for message in MESSAGES)


@pytest.mark.parametrize("step", [1, 7, 64, 1000, 10**6])
def test_messages_come_as_they_were_sent_however_they_are_cut(step: int) -> None:
    end, stream = End(), dealer() + STREAM
    got = []
    for begin in range(0, len(stream), step):
        got += end.fed(stream[begin : begin + step])
    assert got == list(MESSAGES)
    assert (end.zmtp.ready, end.zmtp.peer) == (True, b"ps9")
    (ready,) = end.answered
    assert ready[:8] == b"\4\x29\5READY"
    assert b"Socket-Type\0\0\0\6ROUTER" in ready


def test_of_a_message_with_several_frames_the_first_counts() -> None:
    end = End.ready()
    data = frame(b"head", MORE) + frame(b"x" * 300, MORE) + frame(b"end")
    assert end.fed(data + frame(b"next")) == [b"head", b"next"]
    assert end.fed(frame(b"head", MORE)) == []
    assert end.fed(frame(b"end")) == [b"head"]


def test_a_ping_is_answered() -> None:
    end = End.ready()
    assert end.fed(frame(b"\4PING\0\x10abc", COMMAND)) == []
    assert end.answered == [frame(b"\4PONGabc", COMMAND)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GET / HTTP/1.0", "does not begin as a connection of ZeroMQ's"),
        (b"\xff" + bytes(8) + b"\x01", "does not begin as a connection of ZeroMQ's"),
        (b"\xff" + bytes(8) + b"\x7f\x01", "a version before 3"),
        (Zmtp.greeting.replace(b"NULL", b"PLAI"), "mechanism b'PLAI'"),
        (Zmtp.greeting + frame(b"early"), "before the command READY"),
        (Zmtp.greeting + frame(b"\5READY\x08Identity\0\0\0\x09ab", COMMAND), "READY is cut off"),
        (dealer() + b"\x08\0", "flags that nobody knows: 0x8"),
        (dealer() + bytes((LONG,)) + (LARGEST_FRAME + 1).to_bytes(8, "big"), "1048577 bytes"),
        (Zmtp.greeting + frame(b"\5ERROR\2no", COMMAND), "refused the connection: b'no'"),
    ],
)
def test_what_is_not_of_the_protocol_is_named(data: bytes, words: str) -> None:
    with pytest.raises(NotZmtp, match=words):
        End().fed(data)
