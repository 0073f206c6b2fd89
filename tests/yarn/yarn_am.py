"""An ApplicationMaster that tries the YARN back end and agents; run by test_yarn_cluster.py.

It dies once, on purpose, and goes on in its second life. What it saw is written to $FINDINGS.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fake_am import FakeAM, Session

from yarnps.am.clusters.base import AM_KEY, ContainerInfo
from yarnps.am.clusters.yarn import YarnCluster
from yarnps.am.supervisor import START, Limits, Supervisor, Ticker
from yarnps.protocol import control_pb2 as pb

LIMIT_S = 60.0
ROLE = ["sh", "-c", "echo the role; exec sleep 600"]

findings: dict[str, Any] = {}


def note(**what: Any) -> None:
    findings.update(what)
    Path(os.environ["FINDINGS"]).write_text(json.dumps(findings))


async def until(cluster: YarnCluster, found: Callable[[dict[str, ContainerInfo]], bool]) -> float:
    """Wait until the list of containers is as wanted; how long it took."""
    began = time.monotonic()
    while not found({c.id: c for c in await cluster.containers()}):
        if time.monotonic() > began + LIMIT_S:
            raise TimeoutError(f"{await cluster.containers()}")
        await asyncio.sleep(0.2)
    return time.monotonic() - began


def fake_am() -> FakeAM:
    pair = [Path(name).read_bytes() for name in (".skein.crt", ".skein.pem")]
    welcome = pb.Welcome(heartbeat_s=0.5, am_silence_s=60, attempt=1)
    return FakeAM(pair[0], pair[1], host=os.environ["NM_HOST"], welcome=welcome)


async def sessions_of(am: FakeAM, count: int) -> dict[str, Session]:
    found = [await asyncio.to_thread(am.session, LIMIT_S) for _ in range(count)]
    return {s.register.container: s for s in found}


async def first_life(cluster: YarnCluster, am: FakeAM) -> None:
    note(
        attempt=cluster.attempt,
        application=cluster.application,
        queue=cluster.queue,
        user=cluster.user,
        nodes=sorted(await cluster.nodes()),
    )
    await cluster.set_progress(0.25)
    await cluster.publish(AM_KEY, am.address)
    env = {"YARNPS_AM": am.address, "YARNPS_APPLICATION": cluster.application, "YARNPS_NONCE": "n"}
    ids = [await cluster.request("worker", {**env, "YARNPS_ROLE": "worker"}) for _ in range(2)]
    ids.append(await cluster.request("worker", {"YARNPS_NONCE": ""}, retry_memory=True))
    ids.append(await cluster.request("big", {}))
    ids.append(await cluster.request("big", {}))
    await until(cluster, lambda c: [c[i].state for i in ids[:3]] == ["running", "running", "ended"])
    note(
        ids=ids,
        first=[asdict(c) for c in await cluster.containers()],
        waiting=await cluster.waiting_reason(),
        output=await cluster.output(ids[2]),
    )
    for session in (await sessions_of(am, 2)).values():
        session.send(start=pb.StartRole(command=ROLE, restart=True))
        session.started()
    await cluster.add_page(1, "old")
    os.kill(os.getpid(), signal.SIGKILL)


async def second_life(cluster: YarnCluster, am: FakeAM) -> None:
    findings.update(json.loads(Path(os.environ["FINDINGS"]).read_text()))
    note(second=[asdict(c) for c in await cluster.containers()])
    await cluster.publish(AM_KEY, am.address)  # another port: the agents must look it up
    await note_page(cluster)
    began = time.monotonic()
    sessions = await sessions_of(am, 2)
    note(
        back_s=time.monotonic() - began,
        running={name: len(s.register.running) for name, s in sessions.items()},
        hosts={name: s.register.host for name, s in sessions.items()},
        log_dirs={name: s.register.log_dir for name, s in sessions.items()},
    )
    killed, released = sorted(sessions)
    os.kill(sessions[killed].register.pid, signal.SIGKILL)
    killed_s = await until(cluster, lambda c: c[killed].state == "ended")
    await cluster.release(released)
    await cluster.release(released)
    exited = await asyncio.to_thread(sessions[released].exited)
    ended = await asyncio.to_thread(sessions[released].ended.wait, LIMIT_S)
    note(
        killed_s=killed_s,
        released_exit=[exited.exit_code, exited.output_tail, ended],
        last={c.id: asdict(c) for c in await cluster.containers()},
        killed=killed,
        released=released,
    )
    await cluster.finish("SUCCEEDED", "well done: \u00e4ll of it")


async def note_page(cluster: YarnCluster) -> None:
    """Serve a page and fetch it through the ResourceManager's proxy."""
    folder = Path("page") / "secret"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("hello from the page")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="page")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = await cluster.add_page(server.server_port, "secret")

    def fetch() -> str:
        with urllib.request.urlopen(address, timeout=20) as reply:
            return str(reply.read().decode())

    note(page_address=address, page=await asyncio.to_thread(fetch))


async def main() -> None:
    ticker = Ticker.from_environment()

    async def tick() -> None:
        while True:
            ticker.tick()
            await asyncio.sleep(0.5)

    ticking = asyncio.create_task(tick())
    cluster = YarnCluster()
    await cluster.open()
    life: Callable[[YarnCluster, FakeAM], Awaitable[None]]
    life = second_life if int(os.environ[START]) else first_life
    await life(cluster, fake_am())
    ticking.cancel()
    await cluster.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["supervised"]:
        limits = Limits(tick_s=20)
        sys.exit(Supervisor([sys.executable, __file__], Path.cwd(), limits=limits).run())
    asyncio.run(main())
