"""What can go wrong with the sandbox.

ClusterError (exit 3)
└── SandboxError          it did not start, or a daemon died
    └── ToolMissing       no usable Java, or no Maven and no cached jars
InputError (exit 2)
└── SandboxInputError     the caller asked for something that cannot be
    └── AlreadyRunning    a second start, or two at the same time
"""

from __future__ import annotations

from yarnps._errors import ClusterError, InputError


class SandboxError(ClusterError):
    """A sandbox did not start, or one of its daemons failed."""


class ToolMissing(SandboxError):
    """A program that the sandbox needs is not installed."""


class SandboxInputError(InputError):
    """The arguments are wrong; nothing was started."""


class AlreadyRunning(SandboxInputError):
    """There is a sandbox in this home already."""
