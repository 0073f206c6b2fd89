"""`--launcher local`: all processes on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from yarnps.client.launch.places import LOCAL_SHELL, PipedPlace, script
from yarnps.client.launch.plan import LOOPBACK, Task


class LocalPlace(PipedPlace):
    """Processes of this machine, in this folder, with this environment."""

    def argv(self, task: Task) -> Sequence[str]:
        return LOCAL_SHELL

    def lines(self, task: Task) -> list[str]:
        return script(task, node_host=f"DMLC_NODE_HOST={LOOPBACK}")
