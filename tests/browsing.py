"""What the page's tests are made with: a page that is served for real, and a browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from yarnps.am.web.server import Page
from yarnps.status import Status

T = TypeVar("T")

LIMIT_S = 20.0


class Served:
    """A page in a thread of its own; its status can be changed while it is looked at."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.port = 0
        self.prefix: str | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._page: Page | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.prefix}/"

    def start(self) -> None:
        """Serve: the first time on any port, then where it was before, as a returning AM does."""
        self._page = Page(self._since, prefix=self.prefix)
        self.prefix = self._page.prefix
        port = self.run(self._page.start(self.port))
        assert self.port in (0, port), f"port {self.port} could not be had again"
        self.port = port

    def stop(self) -> None:
        """As if the AM had died."""
        if self._page is not None:
            self.run(self._page.stop())
            self._page = None

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    def _since(self, events_after: int) -> Status:
        return self.status


class Browser:
    """Chromium, with what these tests ask of it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def screen(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the screen in CSS pixels (a phone's below 500) and its colour scheme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, page: Served | str) -> None:
        """Load the page and wait until it shows a status."""
        self._console()
        self.driver.get(page if isinstance(page, str) else page.address)
        self.until("the first status", "return document.getElementById('state').dataset.state")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, what: str, script: str, *arguments: Any) -> Any:
        """Wait for the script to return something that is true, and return that."""
        wait = WebDriverWait(self.driver, LIMIT_S, poll_frequency=0.05)
        return wait.until(lambda _: self.run(script, *arguments), f"waited for {what}")

    def text(self, selector: str) -> str:
        """The text of one element, as it is seen."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def texts(self, selector: str) -> list[str]:
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map(e => e.innerText ?? e.textContent)"  # SVG has the latter only
        )
        return [str(text) for text in self.run(script, selector)]

    def shown(self, selector: str) -> bool:
        script = "return document.querySelector(arguments[0])?.getClientRects().length > 0"
        return bool(self.run(script, selector))

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector: str, text: str) -> None:
        """Put the text into a field, as typing does."""
        script = (
            "const [field, text] = [document.querySelector(arguments[0]), arguments[1]];"
            "field.value = text;"
            "field.dispatchEvent(new Event(field.tagName === 'INPUT' ? 'input' : 'change'));"
        )
        self.run(script, selector, text)

    def effort_s(self, script: str) -> float:
        """Seconds of the page's thread, layout included, that the script takes.

        Time of the processor and not of the clock: a busy machine must not fail a test.
        """
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        before = self._thread_s()
        self.run(f"{script}; document.body.getBoundingClientRect()")
        return self._thread_s() - before

    def _thread_s(self) -> float:
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

    def complaints(self) -> list[str]:
        """What the browser's console has against the page since it was opened."""
        return [e["message"] for e in self._console() if e["level"] == "SEVERE"]

    def _console(self) -> list[dict[str, Any]]:
        return list(self.driver.get_log("browser"))  # type: ignore[no-untyped-call]

    def too_wide(self) -> list[str]:
        """Elements that stick out of the screen sideways."""
        return [str(name) for name in self.run(TOO_WIDE)]


TOO_WIDE = """
const width = document.documentElement.clientWidth, out = [];
if (document.documentElement.scrollWidth > width) out.push("the page itself");
for (const e of document.body.querySelectorAll("*")) {
  const box = e.getBoundingClientRect();
  if (!box.width || e.closest("pre, .unseen, .skip, thead, svg")) continue;
  if (box.right > width + 0.5 || box.left < -0.5) {
    out.push(`${e.tagName} ${e.id} ${e.className} ${box.left} to ${box.right}`);
  }
}
return out;
"""
