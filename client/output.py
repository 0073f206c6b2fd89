"""Printing: text for people, JSON for programs, sizes and times in words."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="What to print: text for people or JSON for programs.",
)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2, default=str))


def say(text: str) -> None:
    """A line for the person who watches: on stderr, so that stdout stays for results."""
    print(text, file=sys.stderr, flush=True)


Say = Callable[[str], None]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text, as wide as needed; the last column is not padded."""
    lines = [tuple(header), *(tuple("-" if v is None else str(v) for v in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def count(number: float | None) -> str:
    """`1234567` -> `1,234,567`."""
    return "?" if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    """Bytes in words: `1.5 GiB`."""
    if number is None:
        return "?"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def duration(seconds: float | None) -> str:
    """Seconds in words: `42 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds is None:
        return "?"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def clock(moment: float | None) -> str:
    """A time of day, with the date when it is not today."""
    if not moment:
        return "-"
    local = time.localtime(moment)
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", local)
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", local)
