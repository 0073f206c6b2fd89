"""Where the ApplicationMaster is found: its control service, and its page.

Both come back where they were: agents find the service again, and an open page goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yarnps._errors import YarnpsError
from yarnps.am.clusters.base import AM_KEY, Cluster
from yarnps.am.config import Config
from yarnps.am.shell.errands import attempt
from yarnps.am.shell.service import Service
from yarnps.jobdir import AM_JSON, JobDir
from yarnps.status import Status

if TYPE_CHECKING:
    from yarnps.am.web.server import Page

logger = logging.getLogger(__name__)

# Ports and the page's prefix, for a process that comes back.
STATE_FILE = "am-state.json"
# A cluster that does not show the page is asked again so often.
PAGE_TRIES = 10
PAGE_AGAIN_S = 30.0


class Addresses:
    """Opens service and page, and tells where they are. `am` is the service's ``host:port``."""

    def __init__(self, config: Config, cluster: Cluster, job_dir: JobDir, folder: Path) -> None:
        self.am = ""
        self._config = config
        self._cluster = cluster
        self._job_dir = job_dir
        self._state = folder / STATE_FILE
        self._page: Page | None = None
        self._page_port = 0

    async def listen(self, service: Service) -> None:
        """Open the control service."""
        port = await service.start(self._had("port") or 0)
        host = os.environ.get("YARNPS_AM_HOST") or os.environ.get("NM_HOST") or "127.0.0.1"
        self.am = f"{host}:{port}"
        self._remember(port=port)
        await self._cluster.publish(AM_KEY, self.am)
        await self._tell_where("")

    async def open_page(self, status: Callable[[int], Status]) -> str:
        """Open the page, and have the cluster show it.

        Returns
        -------
        str
            Its address for people; empty where the cluster does not show it however often it is
            asked. A job goes on without: the page is only looked at.
        """
        for _ in range(PAGE_TRIES):
            try:
                return await self._show_page(status)
            except (YarnpsError, OSError) as error:
                logger.warning("the page cannot be opened, it is tried again: %s", error)
                await asyncio.sleep(PAGE_AGAIN_S)
        return ""

    async def _show_page(self, status: Callable[[int], Status]) -> str:
        from yarnps.am.web.server import Page

        if self._page is None:
            page = Page(status, prefix=self._had("prefix"))
            self._page_port = await page.start(self._had("page_port") or 0)
            self._page = page
            self._remember(page_port=self._page_port, prefix=page.prefix)
        url = await self._cluster.add_page(self._page_port, self._page.prefix)
        await self._tell_where(url)
        return url

    async def close_page(self) -> None:
        """Nobody is answered any more."""
        if self._page is not None:
            await self._page.stop()

    async def _tell_where(self, page: str) -> None:
        """Write `am.json` for clients."""
        where = {
            "address": self.am,
            "page": page,
            "attempt": self._config.attempt,
            "pid": os.getpid(),
        }
        await attempt(self._job_dir.write_json, AM_JSON, where)

    def _had(self, name: str) -> Any:
        """What an earlier process of this container has remembered."""
        return json.loads(self._state.read_text()).get(name) if self._state.exists() else None

    def _remember(self, **values: Any) -> None:
        known = json.loads(self._state.read_text()) if self._state.exists() else {}
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps({**known, **values}))
        fresh.replace(self._state)  # half a file would stop every process that comes back
