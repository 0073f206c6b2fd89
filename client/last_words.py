"""What our scripts said in an ApplicationMaster's container in which Python did not come up."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from yarnps._errors import YarnpsError
from yarnps.client import logs, rm

if TYPE_CHECKING:
    from yarnps.client.yarn_job import YarnView

# skein's name for the output of the script in the AM's container.
DRIVER_LOG = "application.driver.log"
OURS = "yarnps: "


def of_master(view: YarnView) -> str:
    """The lines of ours in its log; empty as long as the log cannot be had.

    The node has it for some seconds after the end; then it is among the aggregated logs.
    """
    text = _from_node(view) or _aggregated(view.application)
    return "\n".join(line for line in text.splitlines() if line.startswith(OURS))


def _from_node(view: YarnView) -> str:
    try:
        container, node = view.manager.am_container(view.application)
        url = f"http://{node}/ws/v1/node/containerlogs/{container}/{quote(DRIVER_LOG)}"
        return logs.content(rm.get_text(url))
    except (OSError, KeyError, ValueError, YarnpsError):
        return ""


def _aggregated(application: str) -> str:
    try:
        files = [f for f in logs.aggregated(application) if f.name == DRIVER_LOG]
        return files[-1].read() if files else ""
    except YarnpsError:
        return ""
