"""Services of the job file beside servers and workers: skein runs them, we judge their failures.

skein itself would end the application at once, and YARN would start the next attempt. So they are
submitted as services that may fail, and what a failure means is part of the outcome rule here.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any

from yarnps.am.actions import Log
from yarnps.am.clusters.base import ContainerInfo
from yarnps.am.resources import decode
from yarnps.am.resources.outcome import Failure
from yarnps.causes import Cause

_WELL = ("", "Completed successfully.")
# Ends that are nobody's fault in the service: skein asks for another container by itself.
_NO_FAILURES = (Cause.OUR_KILL, Cause.KILLED_BY_USER)


class OtherServices:
    """Counts the failed containers of each service.

    Parameters
    ----------
    services
        Name of the service to its keys in the job file, of all but the job's own roles.
    failures
        Where a failure that may end the job is put.
    """

    def __init__(
        self, services: Mapping[str, Mapping[str, Any]], failures: MutableSequence[Failure]
    ) -> None:
        self._services = services
        self._failures = failures
        self._failed: dict[str, list[str]] = {}

    def seen(self, info: ContainerInfo, tail: str = "") -> list[Log]:
        """What the cluster says about a container; of other containers and again: nothing."""
        service = self._services.get(info.role)
        if service is None or info.state != "ended" or info.exit_message in _WELL:
            return []
        failed = self._failed.setdefault(info.role, [])
        ending = decode.container_ended(info.exit_message, tail=tail)
        if info.id in failed or ending.cause in _NO_FAILURES:
            return []
        failed.append(info.id)
        text = f"service {info.role} failed on {info.node or 'an unknown node'}: {ending.text}"
        restarts = int(service.get("max_restarts") or 0)
        left = restarts - len(failed)
        if restarts == -1 or left >= 0:
            text += "; it is started again"
        elif service.get("allow_failures"):
            text += "; it may fail (allow_failures)"
        else:
            text += f"; it has used up its {restarts} restarts (max_restarts)"
            self._failures.append(Failure(ending.cause, text, role=info.role))
        return [Log("death", text, role=info.role, container=info.id, node=info.node)]

    def snapshot(self) -> dict[str, list[str]]:
        """The durable state."""
        return self._failed

    def restore(self, data: dict[str, list[str]]) -> None:
        """Put back what `snapshot` gave."""
        self._failed = data
