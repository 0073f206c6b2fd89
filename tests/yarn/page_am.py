"""An ApplicationMaster that only serves its page; run by test_page_behind_proxy.py.

Its first process ends without a word once it has been seen; the second one has the same page, and
ends the application when the test has seen that, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import made_statuses

from yarnps.am.clusters.yarn import YarnCluster
from yarnps.am.web.server import Page

LIMIT_S = 240.0


async def seen(path: Path) -> None:
    """Wait until the test has put the file there."""
    deadline = time.monotonic() + LIMIT_S
    while not path.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)


async def main(folder: Path) -> None:
    kept = folder / "kept.json"
    had = json.loads(kept.read_text()) if kept.exists() else {}
    status = made_statuses.training()
    status = dataclasses.replace(status, sentence="Back again." if had else "First.")
    cluster = YarnCluster()
    await cluster.open()
    page = Page(lambda _: status, prefix=had.get("prefix"))
    port = await page.start(had.get("port", 0))
    address = await cluster.add_page(port, page.prefix)
    ready = {"prefix": page.prefix, "port": port, "address": address}
    (folder / "new.json").write_text(json.dumps(ready))
    (folder / "new.json").rename(kept)
    if not had:
        await seen(folder / "seen-once")
        os._exit(9)
    await seen(folder / "seen-again")
    await page.stop()
    await cluster.finish("SUCCEEDED", "seen")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
