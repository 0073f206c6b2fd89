"""The shell around the job's state machine: sockets, clocks, and the cluster.

Everything that happens is fed to `JobMachine`, one event at a time, journalled if it matters, and
the actions that follow are carried out (`yarnps.am.shell.errands`). Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yarnps.am import inputs as i
from yarnps.am.actions import Action, End, Log, Refuse, Tell
from yarnps.am.clusters.base import Cluster
from yarnps.am.config import Config
from yarnps.am.durable import durable
from yarnps.am.job import JobMachine
from yarnps.am.resources.outcome import diagnostics
from yarnps.am.shell import chores, view
from yarnps.am.shell.addresses import Addresses
from yarnps.am.shell.agents import Agents
from yarnps.am.shell.errands import POLITE_S, Errands
from yarnps.am.shell.events import EventLog
from yarnps.am.shell.journal import Journal, replay
from yarnps.am.shell.lookout import Lookout
from yarnps.am.shell.opening import Opening
from yarnps.am.shell.records import Records
from yarnps.am.shell.service import Service
from yarnps.am.shell.telemetry import Telemetry
from yarnps.am.shell.trackers import Trackers
from yarnps.am.shell.view import Surroundings
from yarnps.am.supervisor import START, TICK_S, Ticker
from yarnps.jobdir import JobDir
from yarnps.status import Event, Outcome, Status, to_json

if TYPE_CHECKING:
    from yarnps.am.shell.node_ports import NodePorts
    from yarnps.pslite.scheduler import Round

logger = logging.getLogger(__name__)

TICK_EVERY_S = 0.25
UPLOAD_EVERY_S = 2.0
STATUS_EVERY_S = 5.0
ATTEMPT_EVERY_S = 10.0
REASON_EVERY_S = 5.0
PROGRESS_EVERY_S = 1.0
# A loop that lags by more than this cannot judge the silence of others.
RESPONSIVE_S = 2.0


class Shell:
    """Runs one job to its end; see the module's text."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        job_dir: JobDir,
        folder: Path,
        certificate: bytes,
        key: bytes,
    ) -> None:
        self.config = config
        self.cluster = cluster
        self.job_dir = job_dir
        self.machine = JobMachine(config, time.time())
        self.telemetry = Telemetry()
        self.events = EventLog(folder / "events.jsonl", config.attempt)
        self.agents = Agents(
            self.telemetry, config.heartbeat_s, feed=self.feed, members=lambda: self.machine.members
        )
        self.service = Service(self.agents, self, certificate, key)
        self._journal_path = folder / "journal.jsonl"
        self._returning = False
        self._journal: Journal | None = None
        self._over = asyncio.Event()
        self._opening = Opening()
        self._ticker = Ticker.from_environment()
        self._am_restarts = int(os.environ.get(START, "0"))
        self._lag_s = 0.0
        self._last_tick = time.time()
        self._superseded = False
        self._failure: Exception | None = None
        self._records = Records(config, job_dir, self.events, self.status, folder)
        self._addresses = Addresses(config, cluster, job_dir, folder)
        self._lookout = Lookout(cluster, feed=self.feed, members=lambda: self.machine.members)
        self._nodes = _node_ports(self) if config.block.runtime == "dmlc" else None
        self._trackers = Trackers(self.feed, folder)
        self._errands = Errands(
            config,
            cluster,
            job_dir,
            self.agents,
            feed=self.feed,
            env=self._container_env,
            metrics=lambda: self.machine.training.course.results.newest,
        )

    # ------------------------------------------------------------ life

    async def run(self) -> Outcome | None:
        """Until the job has ended; None: a newer attempt has taken over.

        Raises
        ------
        Exception
            An event could not be taken in or kept. The process that is started next goes on from
            the journal, where this event is not.
        """
        # To the very end, and whatever else takes long: the supervisor ends who does not tick.
        alive = asyncio.create_task(self._repeat(TICK_S, self._alive))
        try:
            await self._until_over()
            if self._failure is not None:
                raise self._failure
            return None if self._superseded else await self._finish()
        finally:
            alive.cancel()

    async def _until_over(self) -> None:
        self._begin()
        # Awake while containers come: a restarted AM must not take them for silent.
        loops = [
            self._repeat(TICK_EVERY_S, self._tick),
            self._repeat(PROGRESS_EVERY_S, self._show_progress),
            self._repeat(self.cluster.poll_s, self._lookout.look),
            self._repeat(UPLOAD_EVERY_S, self._records.send_events),
            self._repeat(STATUS_EVERY_S, self._records.write_status),
            self._repeat(ATTEMPT_EVERY_S, self._check_attempt),
            self._repeat(REASON_EVERY_S, self._lookout.ask_reason),
        ]
        tasks = [asyncio.create_task(loop) for loop in loops]
        over = asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in [over, *tasks]:
                task.cancel()

    def _begin(self) -> None:
        """Start, or go on where the process before this one was ended."""
        if self.machine.outcome is not None:
            self._over.set()  # which that process did not live to write down
            return
        if self._returning:
            self._errands.spawn(self._return())
        else:
            self._errands.spawn(self._start())
            self._errands.spawn(self._list_input())
        self._errands.spawn(self._open_page())

    def recall(self) -> None:
        """Learn from the journal what an earlier process knew; before anyone can call."""
        count = 0
        for count, record in enumerate(replay(self._journal_path), 1):
            if "snapshot" in record:
                self.machine.restore(record["snapshot"])
                self._returning = True
                continue
            if count == 1:
                self.machine = JobMachine(self.config, record["now"])
            event = i.decode(record["event"])
            self._returning = self._returning or isinstance(event, i.Started)
            self.machine.handle(event, record["now"])
        # Nobody has been heard yet: what that process waited for may have come while it was dead.
        self.machine.members.forget_heard()
        self._journal = Journal(self._journal_path)
        logger.info("journal: %d records replayed", count)

    async def listen(self) -> None:
        """Open the control service; agents and clients can call from now on."""
        await self._addresses.listen(self.service)
        programs = self.machine.programs
        if programs is None:
            return
        # Only where there are such programs: a start waits for every import.
        from yarnps.am.programs.dmlc import Dmlc
        from yarnps.am.programs.xgboost import Xgboost

        if self._nodes is not None and isinstance(programs, Dmlc):
            self._nodes.reopen(programs.open_ports())
        if isinstance(programs, Xgboost) and programs.tracker is not None:
            self._trackers.adopt(programs.tracker)

    async def _open_page(self) -> None:
        await self._opening.is_due(now=self._returning)
        url = await self._addresses.open_page(self.status)
        where = f"the page is at {url}" if url else "there is no page: see `yarnps status`"
        self._log(Log("page", where), time.time())

    async def _start(self) -> None:
        self.feed(i.Started(nodes=len(await self._lookout.nodes())))

    async def _return(self) -> None:
        self.feed(i.Reconciled(await self._lookout.look_again()))
        await self._list_input()

    async def _list_input(self) -> None:
        """Find the input, for the ledger or (xgboost) for the workers to share it."""
        if self.machine.training.course.ledger is not None:
            self._opening.imported()
            return  # an earlier process has
        if self.config.block.data.train:
            await asyncio.to_thread(chores.import_readers, self.config)
        self._opening.imported()
        found = await asyncio.to_thread(chores.find_input, self.config, self.job_dir)
        if isinstance(found, i.Listed):
            self.feed(dataclasses.replace(found, racks=await self._lookout.racks()))
        elif isinstance(found, i.Broken):
            self.feed(found)
        elif found:
            self._log(Log("input", found), time.time())

    async def _finish(self) -> Outcome:
        """Write everything down, then end the application."""
        outcome = self.machine.outcome
        assert outcome is not None
        await self._records.leave_word(outcome)
        await self._agents_gone()
        await self.close()
        # On YARN this process is ended together with the application: nothing comes after.
        state: Any = outcome.state
        await self.cluster.finish(state, diagnostics(outcome))
        return outcome

    async def close(self) -> None:
        """Let go of everything; nothing is heard, done or written any more."""
        await self.service.stop()
        await self._addresses.close_page()
        if self._nodes is not None:
            self._nodes.stop()
        self._trackers.stop()
        await self._errands.stop()
        if self._journal is not None:
            self._journal.close()
        self.events.close()

    async def _agents_gone(self) -> None:
        """Agents that were told to exit get a moment to do so by themselves."""
        deadline = time.monotonic() + POLITE_S
        while len(self.agents) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)

    # ------------------------------------------------------------ events in, actions out

    def feed(self, event: i.Input) -> list[Action]:
        """Hand an event to the machine, keep it, and do what follows.

        Whoever feeds it may be a stream or a socket, and errors would end nothing but that. What
        the machine knows after an error is half an event, so this process takes in no more.
        """
        if self._failure is not None:
            return []
        try:
            return self._take_in(event)
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """This process cannot go on; see `run`."""
        self._failure = self._failure or error
        self._over.set()

    def _take_in(self, event: i.Input) -> list[Action]:
        now = time.time()
        actions = self.machine.handle(event, now)
        if self._journal is not None and durable(event, actions):
            # Nodes that come to a barrier come all at once: one write for all of them.
            soon = isinstance(event, i.NodeSaid) and not actions
            self._journal.append(i.record(event, now), soon=soon)
            if self._journal.wants_compaction:
                self._journal.compact(self.machine.snapshot())
        for action in actions:
            self._do(action, now)
        return actions

    def flush(self) -> None:
        """Nothing more has come for now: what waits for the journal's next write is written."""
        try:
            if self._journal is not None:
                self._journal.flush()
        except Exception as error:
            self.fail(error)
            raise

    def _do(self, action: Action, now: float) -> None:
        if isinstance(action, Tell):
            self.agents.tell(action.container, action.message)
        elif isinstance(action, Log):
            self._log(action, now)
        elif isinstance(action, End):
            self._over.set()
        elif self._for_programs(action) or isinstance(action, Refuse):
            return  # a refusal is read by `agents`, which have the stream
        else:
            self._errands.run(action)

    def _for_programs(self, action: Action) -> bool:
        """Carry out what the programs of another runtime need; False: it is none of that."""
        of_nodes = self._nodes is not None and self._nodes.run(action)
        return of_nodes or self._trackers.run(action)

    def _log(self, log: Log, now: float) -> None:
        fields = {f.name: getattr(log, f.name) for f in dataclasses.fields(log)}
        self.events.add(Event(seq=0, time=now, **fields))
        self._opening.heard(log.kind)

    # ------------------------------------------------------------ the cluster

    def _container_env(self) -> dict[str, str]:
        """What every container of this job is given."""
        return {
            "YARNPS_AM": self._addresses.am,
            "YARNPS_APPLICATION": self.config.application,
            "YARNPS_JOB_DIR": self.config.job_dir,
        }

    async def _check_attempt(self) -> None:
        """A newer attempt's marker: this one stops at once, and touches nothing more."""
        newest = await self._records.newest_attempt()
        if newest > self.config.attempt:
            self.leave(f"attempt {newest} has taken over")

    # ------------------------------------------------------------ time

    async def _repeat(self, period: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(period)
            await work()

    async def _alive(self) -> None:
        self._ticker.tick()

    async def _show_progress(self) -> None:
        progress = self.machine.training.course.ledger
        if progress is not None:
            now = time.time()
            self.telemetry.rate(progress.rate(now), now)
            await self._lookout.show_progress(progress.fraction)

    async def _tick(self) -> None:
        now = time.time()
        last, self._last_tick = self._last_tick, now
        self._lag_s = max(0.0, now - last - TICK_EVERY_S)
        responsive = self._lag_s < RESPONSIVE_S
        if not responsive:
            self.telemetry.forgive(now)
        due = self.machine.members.due(now, responsive=responsive)
        for expiry in due + self.machine.overdue(now, self.telemetry.last_words()):
            self.feed(i.Expired(expiry, self._lookout.waiting_reason))
        self.feed(i.Ticked())

    # ------------------------------------------------------------ what clients ask

    def status(self, events_after: int = 0) -> Status:
        """The job as it is now."""
        around = Surroundings(
            user=self.cluster.user,
            cluster=self.cluster.name,
            queue=self.cluster.queue,
            am_restarts=self._am_restarts,
            loop_lag_s=self._lag_s,
            waiting_reason=self._lookout.waiting_reason,
        )
        return view.build(
            self.machine,
            self.telemetry,
            self.events,
            around,
            time.time(),
            events_after=events_after,
        )

    def status_json(self, events_after: int) -> str:
        """The status document as JSON."""
        return to_json(self.status(events_after))

    def kill(self, user: str, reason: str) -> None:
        """A client orders the end."""
        self.feed(i.KillOrdered(user, reason))

    def leave(self, why: str) -> None:
        """End this attempt and write nothing: the next one goes on from the last checkpoint."""
        logger.error("%s: this attempt stops here", why)
        self._superseded = True
        self._over.set()


def _node_ports(shell: Shell) -> NodePorts:
    from yarnps.am.shell.node_ports import NodePorts

    def usual(group: int) -> Round | None:
        programs = shell.machine.programs
        return programs.round(group) if programs is not None else None

    return NodePorts(shell.feed, shell.flush, usual, shell.fail)
