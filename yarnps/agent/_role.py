"""One incarnation of a role process: start, channel, output, end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, ChannelBroken, Decoder, frame

if TYPE_CHECKING:
    from yarnps.agent._understudy import Understudy

TAIL_BYTES = 8192
TAIL_LINES = 40
# A role that does not read what it is sent is broken.
UNREAD_LIMIT = 256 << 20
_READ = 1 << 20


class RoleProcess:
    """A started process with its end of the socket pair.

    Its standard output and error go to one file, ``<role>-<process>-<start>.log``, so that they
    keep their order. A process that waits for a part already is taken where it suits.
    """

    def __init__(
        self,
        incarnation: pb.Incarnation,
        command: Sequence[str],
        env: Mapping[str, str],
        log_file: Path,
        folder: Path,
        understudy: Understudy | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.log_file = log_file
        self.begun = False  # has had its Begin: what comes before is for an earlier incarnation
        self.hello: pb.FromRole | None = None
        self.hopeless = False  # has said that trying again is useless
        self.ordered = False
        self.kill_at: float | None = None
        self._decoder: Decoder[pb.FromRole] = Decoder(pb.FromRole)
        self._unsent = bytearray()
        ours, theirs = socket.socketpair()
        try:
            with theirs, log_file.open("ab") as output:
                self.process: subprocess.Popen[bytes] | Understudy
                ends = (output.fileno(), theirs.fileno())
                if understudy is not None and understudy.take(command, env, folder, *ends):
                    self.process = understudy
                else:
                    self.process = _new_process(command, env, folder, *ends)
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self.channel: socket.socket | None = ours

    @property
    def pid(self) -> int:
        return self.process.pid

    # ------------------------------------------------------------------ channel

    def send(self, message: pb.ToRole) -> None:
        """Send without waiting; what the socket does not take now is sent by `flush`."""
        self._unsent += frame(message)
        self.flush()
        if len(self._unsent) > UNREAD_LIMIT:
            raise ChannelBroken("the role does not read its messages")

    def flush(self) -> None:
        while self._unsent and self.channel is not None:
            try:
                sent = self.channel.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:  # its end is closed: it is about to end
                self._unsent.clear()
                return
            del self._unsent[:sent]

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> list[pb.FromRole]:
        """What has arrived. After the end of the stream `channel` is None."""
        messages: list[pb.FromRole] = []
        while self.channel is not None:
            try:
                data = self.channel.recv(_READ)
            except BlockingIOError:
                break
            except OSError:  # reset: it ended with unread messages
                data = b""
            if not data:
                self.close()
                break
            messages += self._decoder.feed(data)
        return messages

    def close(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    # ------------------------------------------------------------------ ending

    def end(self, grace_s: float) -> None:
        """SIGTERM now; `kill_if_due` kills after the grace."""
        if self.kill_at is None:
            self._signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def kill_if_due(self, now: float) -> None:
        if self.kill_at is not None and now >= self.kill_at:
            self.kill()

    def exit_code(self) -> int | None:
        """Exit status (negative: a signal) once it has ended; its group is ended with it.

        The group is killed before the process is waited for: until then its id cannot be
        another's.
        """
        if self.process.returncode is None:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self.pid, options) is None:
                return None
            self.kill()
            self.process.wait()
        return self.process.returncode

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def output_tail(self) -> str:
        return tail(self.log_file)


def _new_process(
    command: Sequence[str], env: Mapping[str, str], folder: Path, output: int, channel: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**env, CHANNEL_FD: str(channel)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[channel],
        start_new_session=True,
    )


def tail(path: Path) -> str:
    """The last lines of a file."""
    try:
        with path.open("rb") as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - TAIL_BYTES))
            data = f.read(TAIL_BYTES)
    except OSError as e:
        return f"(output cannot be read: {e})"
    lines = data.decode(errors="replace").splitlines()
    if size > TAIL_BYTES:
        lines = lines[1:]  # cut somewhere in the middle
    return "\n".join(lines[-TAIL_LINES:])
