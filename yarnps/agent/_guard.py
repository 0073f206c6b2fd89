"""Ends role processes whose agent was killed.

Role processes lead their own sessions, so a node that kills the container's process group misses
them. Ours end when their channel closes; a program that knows nothing of the channel, or hangs,
does not. So one small shell per agent holds a list of them, and kills them when its input ends.
"""

from __future__ import annotations

import subprocess

# Long enough for a role that sees the end of its channel and ends by itself.
GRACE_S = 1

_SCRIPT = f"""
alive=
while read -r change pid; do
  case $change in
    +) alive="$alive $pid" ;;
    -) left=; for p in $alive; do [ "$p" = "$pid" ] || left="$left $p"; done; alive=$left ;;
  esac
done
[ -n "$alive" ] || exit 0
sleep {GRACE_S}
for p in $alive; do kill -s KILL -- "-$p"; done
"""


class Guard:
    """The shell. It is in a session of its own: what kills the agent must not kill it."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            env={"PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Have this process group killed, should the agent be gone."""
        self._write(f"+ {pid}\n")

    def forget(self, pid: int) -> None:
        """The process has ended: its number may become another's."""
        self._write(f"- {pid}\n")

    def _write(self, line: str) -> None:
        assert self._shell.stdin is not None
        try:
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()
        except BrokenPipeError:
            return  # somebody killed it: the roles still have their channels
