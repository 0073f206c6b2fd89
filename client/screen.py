"""The live view of a job on a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from yarnps.client.output import count, duration, size

if TYPE_CHECKING:
    from yarnps.client.job import Sight
    from yarnps.status import Process, Status

# The worst first; the rest is counted.
PROCESSES_SHOWN = 6


class Screen:
    """Lines scroll above; the state of the job stays below them."""

    def __init__(self, application: str, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._application = application
        self._live: Live | None = None

    def show(self, lines: list[str], sight: Sight) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        for line in lines:
            self._live.console.print(Text(line))
        self._live.update(view(self._application, sight), refresh=True)

    def pause(self) -> None:
        """Take the live part away; the next `show` brings it back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        self.pause()


def view(application: str, sight: Sight) -> RenderableType:
    """The live part."""
    status = sight.status
    if status is None:
        return Text(f"{application}  {sight.trouble or sight.note}", style="dim")
    parts: list[RenderableType] = [Text(status.sentence, style="bold")]
    if status.progress.splits_total:
        parts.append(ProgressBar(total=1.0, completed=status.progress.fraction, width=60))
    parts.append(Text(_numbers(status), style="dim"))
    if status.processes:
        parts.append(_processes(status.processes))
    return Group(*parts)


def _numbers(status: Status) -> str:
    progress = status.progress
    parts = [
        f"{count(progress.rows)} rows",
        f"{count(progress.rows_per_s)} rows/s",
        f"{duration(progress.seconds_left)} left",
        *(f"{name} {value:.4g}" for name, value in sorted(status.metrics.items())),
    ]
    states = Counter(f"{p.role}s {p.state}" for p in status.processes)
    parts += [f"{number} {text}" for text, number in sorted(states.items())]
    return " · ".join(parts)


def _processes(processes: tuple[Process, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("role", "rank", "state", "node", "memory", "rows/s", "note"):
        table.add_column(name)
    for p in processes[:PROCESSES_SHOWN]:
        rate = "" if p.rows_per_s is None else count(p.rows_per_s)
        memory = "" if p.memory is None else size(p.memory)
        table.add_row(p.role, str(p.rank), p.state, p.node, memory, rate, p.note)
    rest = len(processes) - PROCESSES_SHOWN
    if rest > 0:
        table.add_row(f"and {rest} more")
    return table
