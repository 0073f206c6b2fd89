"""The agent: one thread that reacts to the ApplicationMaster, to its role processes and to time."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import selectors
import signal
import socket
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import DecodeError

from yarnps.agent._backlog import Backlog
from yarnps.agent._guard import Guard
from yarnps.agent._heartbeats import Heartbeats
from yarnps.agent._link import Ends, Link, Lost, Said
from yarnps.agent._role import RoleProcess
from yarnps.agent._settings import Settings, own_python, without
from yarnps.agent._understudy import Understudy
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import ChannelBroken
from yarnps.protocol.identity import incarnation

log = logging.getLogger(__name__)

# Exit statuses of an agent that ends by itself.
EXIT_REFUSED = 70
EXIT_SILENCE = 71
EXIT_TERMINATED = 128 + signal.SIGTERM
# A role that could not be started at all, as a shell says it.
EXIT_NOT_STARTED = 127

RESTARTS_PER_MINUTE = 3
ORDERED_GRACE_S = 5.0
# YARN kills 0.25 s after its SIGTERM: the roles must be gone, and reported, before that.
TERMINATED_GRACE_S = 0.1
FAREWELL_S = 2.0


class Agent:
    """Holds a container's session with the ApplicationMaster and runs its role processes."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        version: str,
        understudy: Understudy | None = None,
    ) -> None:
        self._settings = settings
        self._understudy = understudy
        self._folder = folder
        self._version = version
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._inbox: queue.SimpleQueue[Said | Lost] = queue.SimpleQueue()
        self._link = Link(settings, self._register, self._tell)
        self._backlog = Backlog()
        self._heartbeats = Heartbeats()
        self._guard = Guard()
        # The link's thread reads these two; each is replaced, never changed.
        self._running: tuple[pb.Incarnation, ...] = ()
        self._roles: dict[int, RoleProcess] = {}
        self._starts: defaultdict[int, int] = defaultdict(int)
        self._restarts: defaultdict[int, deque[float]] = defaultdict(deque)
        self._plan: pb.StartRole | None = None
        self._connection = 0  # the stream on which the ApplicationMaster is there; 0: it is not
        self._attempt: int | None = None
        self._away_said = False
        self._heard = time.monotonic()
        self._silence_s = settings.am_silence_s
        self._restarts_per_minute = RESTARTS_PER_MINUTE
        self._terminated = False
        self._exit: int | None = None

    def run(self) -> int:
        """Until the ApplicationMaster, a signal or silence ends it; the exit status."""
        self._listen_to_signals()
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._link.start()
        while self._exit is None or self._roles:
            for key, _ in self._selector.select(self._pause()):
                if key.fileobj is self._wake_in:
                    self._drain_wake()
                else:
                    self._serve(key.data)
            self._handle_inbox()
            self._reap()
            self._keep_time(time.monotonic())
        if self._understudy is not None:
            self._understudy.dismiss()
        log.info("the agent ends with status %d", self._exit)
        self._link.close(FAREWELL_S if self._exit != EXIT_TERMINATED else TERMINATED_GRACE_S)
        return self._exit

    # ------------------------------------------------------------------ waking up

    def _listen_to_signals(self) -> None:
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # for the wake-up only
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_terminated", True))

    def _tell(self, event: Said | Lost) -> None:
        self._inbox.put(event)
        with contextlib.suppress(BlockingIOError):  # full: it wakes up anyway
            self._wake_out.send(b"\0")

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_in.recv(4096)

    def _pause(self) -> float:
        """Seconds until something is due."""
        due = [self._heard + self._silence_s]
        if self._connection:
            due.append(self._heartbeats.due)
        due += [r.kill_at for r in self._roles.values() if r.kill_at is not None]
        return min(5.0, max(0.0, min(due) - time.monotonic()))

    def _keep_time(self, now: float) -> None:
        if self._terminated and self._exit is None:
            log.warning("SIGTERM: the container is ended by its node")
            self._leave(EXIT_TERMINATED, TERMINATED_GRACE_S)
        if self._exit is None and now - self._heard > self._silence_s:
            log.error(
                "nothing heard of the ApplicationMaster for %.0f s: this container ends itself",
                now - self._heard,
            )
            self._leave(EXIT_SILENCE, ORDERED_GRACE_S)
        for role in self._roles.values():
            role.kill_if_due(now)
        if self._connection and now >= self._heartbeats.due:
            self._link.send(self._heartbeats.make(self._roles.values(), now))
            if self._heartbeats.in_vain(now):
                self._link.drop(self._connection)

    # ------------------------------------------------------------------ to the ApplicationMaster

    def _register(self, ends: Ends) -> pb.Register:
        s = self._settings
        return pb.Register(
            container=s.container,
            role=s.role,
            rank=s.rank,
            nonce=s.nonce,
            host=s.node,
            address=ends.ours,
            am_host=ends.theirs,
            version=self._version,
            pid=os.getpid(),
            running=self._running,
            log_dir=str(s.log_dir),
        )

    def _say(self, message: pb.FromAgent) -> None:
        there = self._connection != 0
        self._backlog.add(message, sent=there, now=time.monotonic())
        if there:
            self._link.send(message)

    # ------------------------------------------------------------------ from the ApplicationMaster

    def _handle_inbox(self) -> None:
        while not self._inbox.empty():
            event = self._inbox.get()
            if isinstance(event, Said):
                self._heard = time.monotonic()
                self._heartbeats.heard()
                self._obey(event.message, event.connection)
            else:
                self._connection = 0
                if not self._away_said and self._exit is None:
                    self._away_said = True
                    log.warning("the ApplicationMaster is not reachable: %s", event.reason)

    def _obey(self, message: pb.ToAgent, connection: int) -> None:
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self._welcome(message.welcome, connection)
        elif kind == "refused":
            log.error("the ApplicationMaster refused this container: %s", message.refused.reason)
            self._leave(EXIT_REFUSED, ORDERED_GRACE_S)
        elif kind == "period":
            self._heartbeats.answer(message.period)
        elif kind == "start":
            self._plan = message.start
            self._start_missing()
        elif kind == "stop":
            log.info("ordered to stop the role: %s", message.stop.reason)
            self._stop_roles(message.stop.grace_s)
        elif kind == "exit":
            log.info("ordered to end: %s", message.exit.reason)
            self._stop_roles(ORDERED_GRACE_S)
            self._leave(message.exit.exit_code, ORDERED_GRACE_S)
        elif kind == "role":
            self._pass_on(message.role)

    def _welcome(self, welcome: pb.Welcome, connection: int) -> None:
        if self._away_said:
            log.info("the ApplicationMaster is back")
        self._away_said = False
        self._connection = connection
        self._heartbeats.begin(welcome.heartbeat_s, time.monotonic())
        self._silence_s = welcome.am_silence_s or self._settings.am_silence_s
        self._restarts_per_minute = welcome.restarts_per_minute or RESTARTS_PER_MINUTE
        for message in self._backlog.take(time.monotonic()):
            self._link.send(message)
        back = pb.ToRole(am_back=pb.AmBack(same_attempt=welcome.attempt == self._attempt))
        for role in list(self._roles.values()):
            if role.begun:
                self._send_to_role(role, back)
            elif role.hello is not None:
                self._say_hello(role, role.hello)
        self._attempt = welcome.attempt

    def _pass_on(self, order: pb.ToRoleOf) -> None:
        role = self._roles.get(order.process)
        if role is None:
            return  # it has ended: the ApplicationMaster is about to learn it
        if not role.begun:
            # What the ApplicationMaster sent before it knew of this incarnation was for another.
            begin = order.message.begin
            meant = begin.incarnation.id in (0, role.incarnation.id)
            if order.message.WhichOneof("kind") != "begin" or not meant:
                return
            role.begun = True
        self._send_to_role(role, order.message)

    def _send_to_role(self, role: RoleProcess, message: pb.ToRole) -> None:
        try:
            role.send(message)
        except ChannelBroken as e:
            self._give_up(role, e)
        self._watch(role)

    # ------------------------------------------------------------------ role processes

    def _start_missing(self) -> None:
        assert self._plan is not None
        for process in range(max(1, self._plan.processes)):
            if process not in self._roles:
                self._start(process)

    def _start(self, process: int) -> None:
        if self._plan is None or self._exit is not None:
            return
        s = self._settings
        start = self._starts[process]
        self._starts[process] = start + 1
        who = incarnation(s.application, s.container, process, start)
        env = {
            **without(s.env, self._plan.unset),
            **(_hadoop(s.env) if self._plan.hadoop else {}),
            **self._plan.env,
            "YARNPS_PROCESS": str(process),
            "YARNPS_INCARNATION": str(who.id),
        }
        log_file = s.log_dir / f"{s.role}-{process}-{start}.log"
        try:
            command, understudy = own_python(self._plan.command), self._understudy
            self._understudy = None
            role = RoleProcess(who, command, env, log_file, self._folder, understudy)
        except (OSError, IndexError) as e:
            text = f"the role could not be started: {' '.join(self._plan.command)}: {e}"
            log.error(text)
            self._say(
                pb.FromAgent(
                    role_exited=pb.RoleExited(
                        incarnation=who, exit_code=EXIT_NOT_STARTED, output_tail=text
                    )
                )
            )
            return
        how = "forked" if role.process is understudy else "started"
        log.info("%s %s (pid %d)", how, log_file.name, role.pid)
        self._guard.watch(role.pid)
        self._roles[process] = role
        self._roles_changed()
        self._watch(role)
        self._say(pb.FromAgent(role_started=pb.RoleStarted(incarnation=who, pid=role.pid)))

    def _roles_changed(self) -> None:
        self._running = tuple(role.incarnation for role in self._roles.values())

    def _serve(self, role: RoleProcess) -> None:
        """Read from and write to a role whose socket is ready."""
        try:
            for message in role.receive():
                self._heed(role, message)
            role.flush()
        except (ChannelBroken, DecodeError) as e:
            self._give_up(role, e)
        self._watch(role)

    def _heed(self, role: RoleProcess, message: pb.FromRole) -> None:
        kind = message.WhichOneof("kind")
        if kind == "hello" and not role.begun:
            role.hello = message
            self._say_hello(role, message)
            return
        if kind == "failed":
            role.hopeless = message.failed.user_error
        self._say(pb.FromAgent(role=pb.RoleSays(incarnation=role.incarnation, message=message)))

    def _say_hello(self, role: RoleProcess, hello: pb.FromRole) -> None:
        """A first hello is said again after each registration, until it has been answered."""
        if self._connection:
            says = pb.RoleSays(incarnation=role.incarnation, message=hello)
            self._link.send(pb.FromAgent(role=says))

    def _give_up(self, role: RoleProcess, why: Exception) -> None:
        log.error("killing %s, its channel is broken: %s", role.log_file.name, why)
        role.kill()

    def _watch(self, role: RoleProcess) -> None:
        """Have the selector follow the state of a role's socket."""
        known = next((k for k in self._selector.get_map().values() if k.data is role), None)
        if role.channel is None:
            if known is not None:
                self._selector.unregister(known.fileobj)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if role.wants_to_write else 0)
        if known is None:
            self._selector.register(role.channel, events, role)
        elif known.events != events:
            self._selector.modify(role.channel, events, role)

    def _reap(self) -> None:
        for process, role in list(self._roles.items()):
            code = role.exit_code()
            if code is None:
                continue
            self._serve(role)  # its last words
            if role.channel is not None:
                self._selector.unregister(role.channel)
                role.close()
            self._guard.forget(role.pid)
            del self._roles[process]
            self._roles_changed()
            again = self._may_restart(process, role, code)
            log.info("%s ended with status %d", role.log_file.name, code)
            self._say(
                pb.FromAgent(
                    role_exited=pb.RoleExited(
                        incarnation=role.incarnation,
                        exit_code=code,
                        output_tail=role.output_tail(),
                        restarting=again,
                        ordered=role.ordered,
                        leaving=self._terminated,
                    )
                )
            )
            if again:
                self._start(process)

    def _may_restart(self, process: int, role: RoleProcess, code: int) -> bool:
        if self._plan is None or not self._plan.restart or self._exit is not None:
            return False
        if code == 0 or role.ordered or role.hopeless:
            return False
        now = time.monotonic()
        recent = self._restarts[process]
        while recent and now - recent[0] > 60:
            recent.popleft()
        if len(recent) >= self._restarts_per_minute:
            return False
        recent.append(now)
        return True

    def _stop_roles(self, grace_s: float) -> None:
        self._plan = None
        for role in self._roles.values():
            role.ordered = True
            role.end(grace_s)

    def _leave(self, code: int, grace_s: float) -> None:
        """End the roles, then the agent."""
        if self._exit is None or code == EXIT_TERMINATED:
            self._exit = code
        for role in self._roles.values():
            role.end(grace_s)


def _hadoop(env: Mapping[str, str]) -> dict[str, str]:
    """What few roles need is imported for them only."""
    from yarnps.agent._hadoop import hadoop_environment

    return hadoop_environment(env)
