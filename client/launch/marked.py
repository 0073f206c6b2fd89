"""How processes that another tool starts tell their ends: a last line with a mark.

`mpirun` and the Grid Engine show one status for all of their processes at best, and late.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import replace

from yarnps.client.launch.places import Ended, Hear, Line, script
from yarnps.client.launch.plan import Task
from yarnps.pslite.wire import Seat


class Marks:
    """The mark of one launch, written by its scripts and found in their output."""

    def __init__(self) -> None:
        self._mark = f"yarnps-{secrets.token_hex(8)}"
        self._ended: set[Seat] = set()

    def lines(self, task: Task, node_host: str, number: int | None = None) -> list[str]:
        """The lines of shell for a task, whose last line of output says how it ended.

        Parameters
        ----------
        number
            Written before each line, for a tool that shows the lines of all as one stream.
        """
        # In a shell of its own: an `exit` in the command must not take the mark with it.
        inner = replace(task, command=f"sh -c {shlex.quote(task.command)}")
        *setup, command = script(inner, node_host=node_host)
        marked = f"{{ {command}; printf '%s %s\\n' {self._mark} $?; }} 2>&1"
        if number is not None:
            # A line with one write, so that lines of two processes do not mix.
            marked += f" | sed -u 's/^/{self._mark}:{number}:/'"
        return [*setup, marked]

    def numbered(self, text: str) -> tuple[int, str] | None:
        """A line's number and the line as it was; None where it has none."""
        match = re.fullmatch(rf"{self._mark}:(\d+):(.*)", text, re.DOTALL)
        return None if match is None else (int(match[1]), match[2])

    def pass_on(self, seat: Seat, text: str, hear: Hear) -> None:
        """Hear a line: of the program, or its end."""
        match = re.fullmatch(rf"(.*){self._mark} (\d+)", text, re.DOTALL)
        if match is None:
            hear(Line(seat, False, text))
            return
        if match[1]:  # a last line that the program did not end
            hear(Line(seat, False, match[1]))
        self.ended(seat, int(match[2]), hear)

    def ended(self, seat: Seat, code: int, hear: Hear) -> None:
        """Hear of an end, once."""
        if seat not in self._ended:
            self._ended.add(seat)
            hear(Ended(seat, code))

    def left(self, tasks: Sequence[Task]) -> list[Seat]:
        """Whose end has not been heard of."""
        return [task.seat for task in tasks if task.seat not in self._ended]
