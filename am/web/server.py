"""Serves the page, its status document and its metrics, on loopback only.

Everything is under a first path segment that cannot be guessed: skein's proxy sits on the same
host and knows it, and nobody else on the node gets in. The proxy passes GET (and PUT, which the
page has no use for), so GET is all there is.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from importlib import resources
from pathlib import PurePath

from aiohttp import web

from yarnps.am.web import prometheus
from yarnps.am.web.document import Document
from yarnps.status import Status

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
PREFIX_BYTES = 24
# A browser may keep an idle connection open; the end of the job does not wait for it.
STOP_LIMIT_S = 2.0
# An open page asks every two seconds. One that has asked so recently is looked at, and is waited
# for so long, so that it learns how the job has ended.
LOOKED_AT_S = 5.0
LAST_WORD_LIMIT_S = 3.0
VIEWERS = 1000
VIEWER_CHARS = 40

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

# Names of jobs, nodes and errors come from people and programs: the page writes them as text, and
# this policy forbids everything that could run if it ever did not.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",  # links to logs must not give the first segment away
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Page:
    """The web page of a job.

    Parameters
    ----------
    status : callable
        Gives the status with the events whose number is above its argument. Called in the loop
        that the page is served by, at most once a second for the page however many look at it.
    prefix : str, optional
        The first path segment. An ApplicationMaster that comes back passes the one it had, so that
        open pages go on.
    """

    def __init__(self, status: Callable[[int], Status], *, prefix: str | None = None) -> None:
        self.prefix = prefix or secrets.token_urlsafe(PREFIX_BYTES)
        self._status = status
        self._document = Document(status)
        self._metrics = prometheus.exposition(lambda: status(0))
        self._assets = _assets()
        self._runner: web.AppRunner | None = None
        self._viewers: dict[str, float] = {}  # who has not seen the outcome yet, asked when

    async def start(self, port_wanted: int = 0) -> int:
        """Serve on 127.0.0.1; returns the port, another one when `port_wanted` is taken."""
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=STOP_LIMIT_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port_wanted).start()
        except OSError as error:
            if not port_wanted:
                await runner.cleanup()
                raise
            logger.warning("port %d is not to be had (%s): any other", port_wanted, error)
            await web.TCPSite(runner, HOST, 0).start()
        self._runner = runner
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port and all connections, once open pages have seen the outcome, if any."""
        if self._runner is not None:
            if self._viewers and self._status(0).outcome is not None:
                await self._last_word()
            await self._runner.cleanup()
            self._runner = None

    async def _last_word(self) -> None:
        """Wait until everyone who looks at the page knows how the job has ended."""
        began = time.monotonic()
        while any(at > began - LOOKED_AT_S for at in self._viewers.values()):
            if time.monotonic() > began + LAST_WORD_LIMIT_S:
                return
            await asyncio.sleep(0.05)

    def _application(self) -> web.Application:
        app = web.Application()
        base = f"/{self.prefix}"
        get = app.router.add_get
        get(base, self._to_slash, allow_head=False)
        get(f"{base}/", self._asset, allow_head=False)
        get(f"{base}/status.json", self._status_json, allow_head=False)
        get(f"{base}/metrics", self._metrics_text, allow_head=False)
        for name in self._assets:
            get(f"{base}/{name}", self._asset, allow_head=False)
        app.on_response_prepare.append(_add_headers)
        return app

    async def _to_slash(self, request: web.Request) -> web.Response:
        # Without its last slash, the page's relative addresses would point beside it.
        return web.Response(status=307, headers={"Location": f"{self.prefix}/"})

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2] or "index.html"
        text, kind = self._assets[name]
        return web.Response(text=text, content_type=kind, charset="utf-8")

    async def _status_json(self, request: web.Request) -> web.Response:
        try:
            after = int(request.query.get("events_after", "0"))
        except ValueError:
            text = "events_after is not a number: give the highest event number that you have\n"
            return web.Response(status=400, text=text)
        text = self._document.json(after)
        viewer = request.query.get("viewer", "")[:VIEWER_CHARS]
        if self._document.ended:
            self._viewers.pop(viewer, None)
        elif viewer and (viewer in self._viewers or len(self._viewers) < VIEWERS):
            self._viewers[viewer] = time.monotonic()
        return web.Response(text=text, content_type="application/json")

    async def _metrics_text(self, request: web.Request) -> web.Response:
        headers = {"Content-Type": prometheus.CONTENT_TYPE}
        return web.Response(body=self._metrics(), headers=headers)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _assets() -> dict[str, tuple[str, str]]:
    """The page's files, by name: text and type."""
    out = {}
    for entry in resources.files(__package__).iterdir():
        kind = _TYPES.get(PurePath(entry.name).suffix)
        if kind is not None:
            out[entry.name] = (entry.read_text(encoding="utf-8"), kind)
    return out
