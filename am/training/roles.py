"""The training side of a job: the processes that live, what they are told and what they say.

Composes routes, clocks and leases over the job's course (`yarnps.am.training.course`). No I/O:
what the roles say goes in, with the time; what is to be done comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yarnps.am.actions import Action
from yarnps.am.config import Config
from yarnps.am.resources.outcome import Failure
from yarnps.am.training.clocks import Clocks
from yarnps.am.training.course import Course
from yarnps.am.training.crew import Crew, RoleProcess
from yarnps.am.training.dataset import BadSample
from yarnps.am.training.greeting import begin_message
from yarnps.am.training.job_input import JobInput
from yarnps.am.training.routes import Routes
from yarnps.causes import Cause
from yarnps.protocol import control_pb2 as pb


class Training:
    """See the module's text."""

    def __init__(self, config: Config, now: float) -> None:
        block = config.block
        self.config = config
        self.crew = Crew()
        # A runtime without servers has no use for routes.
        shards, servers = block.server.shards, config.server_processes or 1
        self.routes = Routes(shards, servers, generation=config.attempt)
        self.clocks = Clocks(block.sync.staleness if block.sync.mode == "ssp" else None)
        self.course = Course(config, self.crew, self.routes, now)
        self._wants: dict[int, int] = {}
        self._resumes = 0

    # ------------------------------------------------------------ who lives

    def listed(self, found: JobInput, resume: dict[str, Any] | None, now: float) -> list[Action]:
        """The input is known; see `Course.listed`."""
        out = self.course.listed(found, resume, now)
        # Servers that said hello before have waited for what to load.
        for member in self.crew.of("server"):
            if not member.began:
                out += self._begin(member)
        return out + self._advance(now)

    def up(self, member: RoleProcess) -> None:
        """A process has started."""
        self.crew.add(member)

    def died(self, incarnations: Sequence[int], now: float) -> list[Action]:
        """Processes are gone."""
        out: list[Action] = []
        for incarnation in incarnations:
            member = self.crew.remove(incarnation)
            if member is None:
                continue
            if member.role == "worker":
                out += self._worker_gone(member, now)
            else:
                out += self._server_gone(member, now)
        return out

    def _worker_gone(self, member: RoleProcess, now: float) -> list[Action]:
        self._wants.pop(member.id, None)
        self.clocks.gone(member.id)
        out = self._tell_members()
        if self.course.ledger is not None:
            revoked = self.course.ledger.lost(member.id)
            out += self.crew.tell_revoked(revoked, to_workers=False)
        return out + self._serve(now)

    def _server_gone(self, member: RoleProcess, now: float) -> list[Action]:
        if self.routes.incarnations().get(member.server_rank) != member.id:
            return []  # it has never served: nothing of the model was in it
        out = self._tell_routes(self.routes.down(member.server_rank, member.id))
        self.clocks.interrupted(now)
        generation = self.routes.generation
        out += self.course.server_lost(member)
        if self.routes.generation > generation:
            # A beginning in a newer generation is the order to load the shards anew.
            for server in self.crew.of("server"):
                if server.began:
                    out += self._begin(server)
            out += self._tell_routes(self.routes.routes())
        return out

    def expected_to_speak(self, silence: float, start: float) -> list[tuple[RoleProcess, float]]:
        """The processes that send figures every second, and how long they may be silent.

        All that have been told their job, as long as their program is not through. A server that
        does not serve yet gets `start` on top: imports and compilers let no thread speak.
        """
        serving = set(self.routes.incarnations().values())
        out = []
        for member in [*self.crew.of("server"), *self.crew.of("worker")]:
            if member.began and not member.through:
                early = member.role == "server" and member.id not in serving
                out.append((member, silence + start if early else silence))
        return out

    # ------------------------------------------------------------ what the roles say

    def said(self, member: RoleProcess, message: pb.FromRole, now: float) -> list[Action]:
        """A message of a live process."""
        kind = message.WhichOneof("kind")
        if kind == "hello":
            return self._hello(member, message.hello, now)
        if kind == "server_ready":
            return self._server_ready(member, message.server_ready, now)
        if kind == "want":
            return self._want(member, message.want, now)
        if kind == "progress":
            return self._progress(member, message.progress, now)
        if kind == "split_failed":
            return self._split_failed(member, message.split_failed, now)
        if kind in ("save_done", "export_done"):
            return self.course.saved(member, message) + self._advance(now)
        if kind == "step_held":
            return self.course.held(member, message.step_held)
        if kind == "report":
            return self.course.results.report(message.report, now)
        if kind == "stats" and member.role == "worker":
            stats = message.stats
            self.clocks.stats(member.id, stats.clock, stats.idle_s, now)
        if kind == "first_push" and not member.pushed:  # said again to a restarted AM
            member.pushed = True
            return [member.log("first_push", f"{member.name}: first push acknowledged")]
        if kind == "event":
            return [member.log(message.event.name, message.event.text)]
        return []

    def _hello(self, member: RoleProcess, hello: pb.RoleHello, now: float) -> list[Action]:
        out: list[Action] = []
        if hello.resync and member.role == "worker":
            out += self._resync(member, hello, now)
        if member.role == "worker" and not member.ended:
            self.clocks.joined(member.id, now)
            out += self._tell_members()
        if member.role == "worker" or self.course.ledger is not None:
            out += self._begin(member)
        if hello.resync and member.role == "server" and self.course.saver is not None:
            out += self.course.saver.repeat_orders(member)
        if self.course.over and member.role == "worker":
            out += self._end_of_data(member)
        return out

    def _begin(self, member: RoleProcess) -> list[Action]:
        member.began = True
        saver = self.course.saver
        newest = saver.cuts.newest if saver is not None else None
        routes, members = self.routes.routes(), self._members()
        begin = begin_message(self.config, member, routes, members, newest)
        return [member.tell(pb.ToRole(begin=begin))]

    def _resync(self, member: RoleProcess, hello: pb.RoleHello, now: float) -> list[Action]:
        """After a restart of the AM: the worker says what it holds, the rest is free again."""
        if self.course.ledger is None:
            return []
        out: list[Action] = []
        for held in hello.held:
            out += self._progress(member, held, now)
        revoked = self.course.ledger.revoke(member.id, keep=[held.token for held in hello.held])
        return out + self.crew.tell_revoked(revoked, to_workers=False)

    def _server_ready(self, member: RoleProcess, ready: pb.ServerReady, now: float) -> list[Action]:
        known = self.routes.incarnations().get(member.server_rank) == member.id
        out = self._tell_routes(self.routes.ready(member.server_rank, ready.address, member.id))
        out.append(member.tell(pb.ToRole(members=self._members())))
        if not known:
            where = f", with checkpoint {ready.loaded_cut}" if ready.loaded_cut >= 0 else ""
            out.append(member.log("ready", f"{member.name} serves its shards{where}"))
        if self.routes.complete:
            self.clocks.interrupted(now)
        return out + self._advance(now)

    def _tell_routes(self, routes: pb.Routes) -> list[Action]:
        message = pb.ToRole(routes=routes)
        return [*self.crew.tell_all("worker", message), *self.crew.tell_all("server", message)]

    def _members(self) -> pb.Members:
        message = self.clocks.members()
        # What a restarted AM has forgotten (who was slow) must not look older than what it said.
        message.version += self._resumes << 20
        return message

    def _tell_members(self) -> list[Action]:
        return list(self.crew.tell_all("server", pb.ToRole(members=self._members())))

    # ------------------------------------------------------------ leases

    def _want(self, member: RoleProcess, want: pb.WantLeases, now: float) -> list[Action]:
        member.asked = True
        if self.course.over:
            return self._end_of_data(member)
        self._wants[member.id] = want.count
        if want.idle:
            self.clocks.idle(member.id, now)
        return self._serve(now)

    def _serve(self, now: float) -> list[Action]:
        """Give out leases to those who wait for some."""
        ledger = self.course.ledger
        if ledger is None or not self.course.serving:
            return []
        out: list[Action] = []
        for worker, count in list(self._wants.items()):
            member = self.crew.get(worker)
            if member is None or count <= 0:
                del self._wants[worker]
                continue
            grants = ledger.grants(worker, member.node, count, now)
            while not grants and (taken := ledger.spread(worker)) is not None:
                out += self.crew.tell_revoked([taken])
                grants = ledger.grants(worker, member.node, count, now)
            if not grants:
                continue
            del self._wants[worker]
            if count > len(grants):
                self._wants[worker] = count - len(grants)  # the last in the queue now
            for lease in grants:
                lease.generation = self.routes.generation
            out.append(member.tell(pb.ToRole(grant=pb.Grant(leases=grants))))
        return out

    def _progress(self, member: RoleProcess, p: pb.Progress, now: float) -> list[Action]:
        ledger = self.course.ledger
        if ledger is None:
            return []
        before = ledger.rows
        if not ledger.progress(member.id, p, now).accepted:
            void = pb.Revoke(epoch=p.epoch, phase=p.phase, split=p.split, token=p.token)
            if p.HasField("part"):
                void.part = p.part.part
            return [member.tell(pb.ToRole(revoke=void))]
        member.rows += max(0, ledger.rows - before)
        self._check_bad_records()
        return self._advance(now) if ledger.phase_done else []

    def _split_failed(self, member: RoleProcess, f: pb.SplitFailed, now: float) -> list[Action]:
        if self.course.ledger is None:
            return []
        failed = self.course.ledger.failed(member.id, f, member.node, now)
        if not failed.accepted:
            return []
        again = "it is tried again" if failed.again else "it is given up"
        text = f"{member.name} could not read split {f.split} ({f.phase}): {f.error}; {again}"
        if failed.dead_letter and self.config.block.data.on_failed_split == "fail":
            self.course.failures.append(Failure(Cause.DATA, f"split {f.split}: {f.error}"))
        self._check_bad_records()
        return [member.log("split_failed", text), *self._advance(now)]

    def _check_bad_records(self) -> None:
        ledger, limit = self.course.ledger, self.config.block.data.max_bad_records
        if ledger is None or not ledger.bad_records or not ledger.over_limit(limit):
            return
        first = "; ".join(_sentence(sample) for sample in ledger.bad_samples)
        text = (
            f"{ledger.bad_records} records cannot be read as {self.config.block.data.format} "
            f"(data.format), and data.max_bad_records allows {limit}. The first: {first}. Correct "
            "data.format or the files; `yarnps validate --data` shows records as they are read"
        )
        self.course.failures.append(Failure(Cause.DATA, text))

    def _advance(self, now: float) -> list[Action]:
        """Go on with the job's course, then give out what there is to do."""
        was_over = self.course.over
        out = self.course.advance(now)
        if self.course.over and not was_over:
            self._wants.clear()
            for member in self.crew.of("worker"):
                if member.began:
                    out += self._end_of_data(member)
        return out + self._serve(now)

    def _end_of_data(self, member: RoleProcess) -> list[Action]:
        member.ended = True
        self.clocks.gone(member.id)
        return [member.tell(pb.ToRole(end_of_data=pb.EndOfData()))]

    # ------------------------------------------------------------ answers of the shell, and time

    def manifest_written(self, cut: int, error: str, now: float) -> list[Action]:
        """A cut's manifest is in place, or not."""
        return self.course.manifest_written(cut, error, now) + self._advance(now)

    def published(self, kind: str, path: str, error: str, now: float) -> list[Action]:
        """A model is in its place, or could not be put there."""
        return self.course.published(kind, path, error) + self._advance(now)

    def ticked(self, now: float) -> list[Action]:
        """Time has passed: slow workers, cuts that are due or take too long, leases."""
        if self.course.ledger is None or self.course.over:
            return []
        out = self._judge_clocks(now) if self.routes.complete else []
        return out + self.course.cut_if_due(now) + self._advance(now)

    def _judge_clocks(self, now: float) -> list[Action]:
        changes = self.clocks.tick(now)
        out: list[Action] = []
        for change in changes:
            member = self.crew.get(change.worker)
            if member is None:
                continue
            verb = "leaves" if change.outside else "comes back to"
            text = f"{member.name} {verb} the clock: {change.reason}"
            out.append(member.log("clock", text))
            if change.outside:
                leave = pb.LeavesClock(reason=change.reason)
                out.append(member.tell(pb.ToRole(leaves_clock=leave)))
        return out + self._tell_members() if changes else out

    def returned(self, now: float) -> list[Action]:
        """The AM's process is back; see `Course.returned`."""
        self._resumes += 1
        self.clocks.interrupted(now)
        return self.course.returned()

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """Plain data for `restore`."""
        return {
            "crew": self.crew.snapshot(),
            "routes": self.routes.snapshot(),
            "clocks": self.clocks.snapshot(),
            "course": self.course.snapshot(),
            "wants": list(self._wants.items()),
            "resumes": self._resumes,
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self.crew.restore(data["crew"])
        self.routes.restore(data["routes"])
        self.clocks.restore(data["clocks"])
        self.course.restore(data["course"])
        self._wants = dict(data["wants"])
        self._resumes = data["resumes"]


def _sentence(bad: BadSample) -> str:
    """A record that does not parse: where, why, and its beginning."""
    text = "" if bad.text in bad.error else f": {bad.text!r}"
    return f"{bad.path}:{bad.line}: {bad.error}{text}"
