"""Signals by their names."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Such as ``SIGKILL`` for 9; ``unknown signal 99`` where the system has none of that number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"unknown signal {number}"
