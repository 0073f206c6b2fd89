"""The actions that take time: requests to the cluster, and files. Each is told about when done.

Every errand runs as a task of its own; blocking work goes to threads. How it ended is fed back to
the state machine as an input.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from yarnps._errors import YarnpsError
from yarnps.am import inputs as i
from yarnps.am.actions import Action, Ask, DeleteCuts, GiveBack, Publish, WriteManifest
from yarnps.am.clusters.base import Cluster
from yarnps.am.config import Config
from yarnps.am.shell import chores
from yarnps.am.shell.agents import Agents
from yarnps.jobdir import JobDir
from yarnps.protocol import control_pb2 as pb
from yarnps.spec import FINISHING_APPS

logger = logging.getLogger(__name__)

# Agents get this long to end their roles before their containers are taken.
POLITE_S = 5.0
# A container that nobody takes back uses the cluster up to the job's end.
RELEASE_TRIES = 5
RELEASE_AGAIN_S = 5.0


class Errands:
    """Runs errands; `feed` takes what comes of them, `env` is what every container is given."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        job_dir: JobDir,
        agents: Agents,
        *,
        feed: Callable[[i.Input], object],
        env: Callable[[], dict[str, str]],
        metrics: Callable[[], Mapping[str, float]],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._job_dir = job_dir
        self._agents = agents
        self._feed = feed
        self._env = env
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()
        # A manifest that is late must not appear in a folder that has been removed meanwhile.
        self._cut_files = asyncio.Lock()

    def run(self, action: Action) -> bool:
        """Begin the errand that an action means; False: the action is none."""
        if isinstance(action, Ask):
            self.spawn(self._ask(action))
        elif isinstance(action, GiveBack):
            self.spawn(self._give_back(action))
        elif isinstance(action, WriteManifest):
            self.spawn(self._write_manifest(action))
        elif isinstance(action, DeleteCuts):
            self.spawn(self._delete_cuts(action))
        elif isinstance(action, Publish):
            self.spawn(self._publish(action))
        else:
            return False
        return True

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; what it did not foresee ends the job, by name."""
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Leave undone what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.exception("background work failed")
            self._feed(i.Broken("am", f"the ApplicationMaster failed: {error!r}"))

    # ------------------------------------------------------------ containers

    async def _ask(self, ask: Ask) -> None:
        env = {**ask.env, **self._env()}
        try:
            container = await self._cluster.request(ask.role, env, retry_memory=ask.retry_memory)
        except YarnpsError as error:
            self._feed(i.NotPlaced(ask.nonce, error.what))
            return
        self._feed(i.Placed(ask.nonce, container))

    async def _give_back(self, back: GiveBack) -> None:
        if back.polite:
            self._agents.tell(back.container, pb.ToAgent(exit=pb.Exit(reason=back.reason)))
            deadline = time.monotonic() + POLITE_S
            while back.container in self._agents and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        for tries_left in reversed(range(RELEASE_TRIES)):
            try:
                await self._cluster.release(back.container)
                return
            except YarnpsError as error:
                logger.warning("%s could not be released: %s", back.container, error.what)
            if tries_left:
                await asyncio.sleep(RELEASE_AGAIN_S)

    # ------------------------------------------------------------ files

    async def _write_manifest(self, write: WriteManifest) -> None:
        async with self._cut_files:
            error = await attempt(chores.write_manifest, self._job_dir, write.cut, write.manifest)
        self._feed(i.ManifestWritten(write.cut, error))

    async def _delete_cuts(self, delete: DeleteCuts) -> None:
        async with self._cut_files:
            error = await attempt(chores.delete_cuts, self._job_dir, delete.numbers)
        if error:
            logger.warning("checkpoints that are not needed stay: %s", error)

    async def _publish(self, publish: Publish) -> None:
        """Finish a model, and move it to its place unless it is only kept as the best so far."""
        error = ""
        if publish.manifest and self._config.block.app in FINISHING_APPS:
            error = await attempt(chores.finish_app, self._config, publish.source)
        if publish.manifest and not error:
            metrics = dict(self._metrics())
            error = await attempt(chores.finish_model, publish.source, publish.manifest, metrics)
        if publish.kind != "best" and not error:
            error = await attempt(chores.place_model, self._config, publish.source)
        path = publish.source if publish.kind == "best" else self._config.model
        self._feed(i.Published(publish.kind, path, error))


async def attempt(chore: Callable[..., None], *args: Any, **named: Any) -> str:
    """Do a blocking chore in a thread; returns what went wrong, or nothing."""
    try:
        await asyncio.to_thread(chore, *args, **named)
    except (YarnpsError, OSError) as error:
        logger.exception("%s failed", getattr(chore, "__name__", chore))
        return getattr(error, "what", str(error))
    return ""
