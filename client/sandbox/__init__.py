"""A real Hadoop on this machine: name node, data nodes, resource manager, node managers.

Everything runs as the user who starts it, on loopback addresses and free ports, in one folder.
"""

from yarnps.client.sandbox._core import (
    DaemonStatus,
    Sandbox,
    SandboxStatus,
    find_running,
    status,
)
from yarnps.client.sandbox._errors import (
    AlreadyRunning,
    SandboxError,
    SandboxInputError,
    ToolMissing,
)
from yarnps.client.sandbox._ready import YarnNode
from yarnps.client.sandbox._start import start, stop
from yarnps.client.sandbox._state import resolve_home

__all__ = [
    "AlreadyRunning",
    "DaemonStatus",
    "Sandbox",
    "SandboxError",
    "SandboxInputError",
    "SandboxStatus",
    "ToolMissing",
    "YarnNode",
    "find_running",
    "resolve_home",
    "start",
    "status",
    "stop",
]
