"""Real server and worker processes under an agent and an ApplicationMaster that are played here.

Both ends of the data plane and of the agent's channel are the real ones; only who is behind the
channel is not. The player has a small ledger, leases, routes, members and cuts, so that deaths,
zombies, lost and repeated messages can be brought about at will.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from yarnps.data import DataSettings, Split, list_input
from yarnps.protocol import control_pb2 as pb
from yarnps.protocol.channel import CHANNEL_FD, Decoder, frame
from yarnps.spec import load
from yarnps.worker.client import Client

LIMIT_S = 60.0
TOKEN = "the token of this job"
JOB = 0x0123456789ABCDEF


@dataclass
class Process:
    """A role process and this end of its channel."""

    role: str
    rank: int
    incarnation: pb.Incarnation
    popen: subprocess.Popen[bytes]
    channel: socket.socket
    log: Path
    hellos: int = 0
    held: list[pb.Progress] = field(default_factory=list)
    said: list[pb.FromRole] = field(default_factory=list)
    want: int = 0
    mute: bool = False  # what it says is not heard: a zombie

    def tell(self, **message: Any) -> None:
        self.channel.sendall(frame(pb.ToRole(**message)))

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(LIMIT_S)


@dataclass
class SplitState:
    """Where one split of one epoch is."""

    split: Split
    committed: int = 0
    rows: int = 0
    token: int = 0
    worker: int = 0  # incarnation; 0: free
    done: bool = False


class Player:
    """The ApplicationMaster of a test.

    Parameters
    ----------
    folder
        The test's own.
    block
        The `yarnps:` block of the job file; `data.train` is filled in when it is missing.
    program
        Text of the workers' program; it begins with `job` connected.
    """

    def __init__(
        self,
        folder: Path,
        block: dict[str, Any],
        program: str,
        *,
        servers: int = 2,
        workers: int = 2,
        env: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.servers = servers
        self.workers = workers
        self.env = env or {}
        self.program = folder / "train.py"
        self.program.write_text("import yarnps\njob = yarnps.connect()\n" + program)
        document = {
            "name": "engine-test",
            "services": {
                "server": {
                    "instances": servers,
                    "resources": {"memory": "1 GiB", "vcores": 1},
                },
                "worker": {
                    "instances": workers,
                    "resources": {"memory": "1 GiB", "vcores": 1},
                    "script": "python train.py",
                },
            },
            "yarnps": block,
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(document))
        job = load(folder / "job.yaml", site=[])
        assert job.block is not None
        self.job_json = job.to_json()
        self.block = job.block
        listing = list_input(
            job.block.data.train, DataSettings.from_block(job.block), workers=workers
        )
        self.splits = list(listing.splits)
        self.tests: list[Split] = []
        if job.block.data.test:
            tests = list_input(
                job.block.data.test, DataSettings.from_block(job.block), workers=workers
            )
            self.tests = list(tests.splits)
        self.changed = threading.Condition(threading.RLock())
        self.processes: dict[int, Process] = {}
        self.shards = job.block.server.shards
        self._routes = pb.Routes(
            version=1,
            generation=1,
            servers=[pb.ServerRoute(server_rank=rank) for rank in range(servers)],
            owner=[shard * servers // self.shards for shard in range(self.shards)],
        )
        self._members_version = 0
        self._starts = 0
        self._token = 0
        self.phases = [
            (epoch, phase)
            for epoch in range(job.block.train.epochs)
            for phase in ("train", "test")
            if phase == "train" or self.tests
        ]
        self.states: dict[tuple[int, str, int], SplitState] = {}
        for epoch, phase in self.phases:
            for split in self.splits if phase == "train" else self.tests:
                self.states[epoch, phase, split.id] = SplitState(split)
        self.cut = -1
        self.cut_files: list[pb.SavedFile] = []
        self._cut_states: dict[tuple[int, str, int], tuple[int, int, bool]] = {}
        self._cut_number = -1
        self.sums: dict[str, list[float]] = {}
        self.failures: list[pb.RoleFailed] = []
        self.errors: list[str] = []
        self.grant_allowed = True
        self.closing = False

    # ------------------------------------------------------------------ processes

    def start(self) -> None:
        """Servers first, workers when these are ready."""
        for rank in range(self.servers):
            self.start_server(rank)
        self.wait(lambda: all(s.address for s in self._routes.servers), "servers are ready")
        for rank in range(self.workers):
            self.start_worker(rank)

    def start_server(self, rank: int, **extra: Any) -> Process:
        return self._start("server", rank, [sys.executable, "-m", "yarnps.server"], **extra)

    def start_worker(self, rank: int) -> Process:
        return self._start("worker", rank, [sys.executable, str(self.program)])

    def _start(self, role: str, rank: int, command: list[str], **extra: Any) -> Process:
        ours, theirs = socket.socketpair()
        self._starts += 1
        incarnation = pb.Incarnation(
            container=f"{role}_{rank}",
            start=sum(p.role == role and p.rank == rank for p in self.processes.values()),
            id=0xABC0_0000_0000_0000 + self._starts,
        )
        log = self.folder / f"{role}-{rank}-{incarnation.start}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.env, CHANNEL_FD: str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        theirs.close()
        process = Process(role, rank, incarnation, popen, ours, log)
        with self.changed:
            self.processes[incarnation.id] = process
            if role == "worker":
                self._publish_members()
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: Process) -> None:
        decoder = Decoder(pb.FromRole)
        while True:
            try:
                data = process.channel.recv(65536)
            except OSError:
                data = b""
            with self.changed:
                if not data:
                    self.changed.notify_all()
                    return
                for message in decoder.feed(data):
                    process.said.append(message)
                    if not process.mute:
                        try:
                            self._heard(process, message)
                        except OSError:
                            pass_closed = process.popen.poll() is not None
                            assert pass_closed or self.closing
                self.changed.notify_all()

    def close(self) -> None:
        self.closing = True
        for process in self.processes.values():
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
            process.channel.shutdown(socket.SHUT_RDWR)
            process.channel.close()
        for process in self.processes.values():
            try:
                process.popen.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def of(self, role: str, rank: int) -> Process:
        """The newest process of a rank."""
        return [p for p in self.processes.values() if (p.role, p.rank) == (role, rank)][-1]

    def alive(self, role: str) -> list[Process]:
        return [p for p in self.processes.values() if p.role == role and p.popen.poll() is None]

    def wait(self, condition: Callable[[], Any], what: str, limit: float = LIMIT_S) -> None:
        """Until something is so; a process that failed ends the wait."""
        deadline = time.monotonic() + limit
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, f"not within {limit} s: {what}\n{self.logs()}"
                assert not self.failures, f"{self.failures[0].traceback}\n{self.logs()}"
                self.changed.wait(min(left, 0.5))

    def logs(self) -> str:
        return "\n".join(
            f"--- {p.log.name} (exit {p.popen.poll()})\n{p.log.read_text()[-3000:]}"
            for p in self.processes.values()
        )

    # ------------------------------------------------------------------ what roles say

    def _heard(self, process: Process, message: pb.FromRole) -> None:
        kind = message.WhichOneof("kind")
        if kind == "hello":
            process.hellos += 1
            process.held = list(message.hello.held)
            if not message.hello.resync:
                process.tell(begin=self._begin(process))
                if process.role == "worker" and self.all_done:
                    process.tell(end_of_data=pb.EndOfData())
        elif kind == "server_ready":
            self._set_route(process, message.server_ready.address)
        elif kind == "want":
            process.want = message.want.count
            self._grant()
        elif kind == "progress":
            self._progress(process, message.progress)
        elif kind == "save_done":
            self._save_done(message.save_done)
        elif kind == "failed":
            self.failures.append(message.failed)
        elif kind == "split_failed":
            self.errors.append(message.split_failed.error)

    def _begin(self, process: Process) -> pb.Begin:
        load = pb.Load(cut=-1, init_from=self.block.model.init_from or "")
        if process.role == "server" and self.cut >= 0:
            load = pb.Load(cut=self.cut, path=self._cut_path(self.cut), files=self.cut_files)
        return pb.Begin(
            application="application_1_0001",
            job=JOB,
            attempt=1,
            generation=1,
            rank=process.rank,
            workers=self.workers,
            servers=self.servers,
            incarnation=process.incarnation,
            job_json=self.job_json,
            job_dir=str(self.folder),
            data_token=TOKEN,
            bind_address="127.0.0.1",
            routes=self._routes,
            members=self._members(),
            load=load,
            server_rank=process.rank,
            threads=1,
        )

    # ------------------------------------------------------------------ routes and members

    def _set_route(self, process: Process, address: str) -> None:
        route = self._routes.servers[process.rank]
        route.address = address
        route.incarnation = process.incarnation.id if address else 0
        self._routes.version += 1
        self._tell_all(routes=self._routes)

    def _members(self) -> pb.Members:
        return pb.Members(
            version=self._members_version,
            incarnations=[p.incarnation.id for p in self.alive("worker")],
        )

    def _publish_members(self) -> None:
        self._members_version += 1
        members = self._members()
        for server in self.alive("server"):
            server.tell(members=members)

    def _tell_all(self, **message: Any) -> None:
        for process in self.processes.values():
            if process.popen.poll() is None and process.hellos:
                try:
                    process.tell(**message)
                except OSError:
                    continue  # it ends just now

    # ------------------------------------------------------------------ the ledger

    @property
    def all_done(self) -> bool:
        return all(state.done for state in self.states.values())

    @property
    def rows_committed(self) -> int:
        return sum(s.rows for (_, phase, _), s in self.states.items() if phase == "train")

    def _phase(self) -> tuple[int, str] | None:
        for epoch, phase in self.phases:
            if any(not s.done for (e, p, _), s in self.states.items() if (e, p) == (epoch, phase)):
                return epoch, phase
        return None

    def _grant(self) -> None:
        now = self._phase()
        if now is None or not self.grant_allowed:
            return
        for key, state in self.states.items():
            if key[:2] != now or state.done or state.worker:
                continue
            wanting = [p for p in self.alive("worker") if p.want > 0 and not p.mute]
            if not wanting:
                return
            worker = max(wanting, key=lambda p: p.want)
            worker.want -= 1
            self._token += 1
            state.worker, state.token = worker.incarnation.id, self._token
            lease = pb.Lease(
                epoch=key[0],
                phase=key[1],
                split=state.split.to_pb(),
                token=state.token,
                from_batch=state.committed,
                from_rows=state.rows,
            )
            worker.tell(grant=pb.Grant(leases=[lease]))

    def _progress(self, process: Process, progress: pb.Progress) -> None:
        key = (progress.epoch, progress.phase, progress.split)
        state = self.states[key]
        if state.token != progress.token or state.worker != process.incarnation.id:
            return
        if progress.batches < state.committed:
            raise AssertionError(f"progress went back: {progress}")
        state.committed, state.rows = progress.batches, progress.rows
        if progress.done:
            state.done, state.worker = True, 0
            for total in progress.sums:
                before = self.sums.setdefault(
                    f"{progress.epoch}/{total.name}", [0.0] * len(total.values)
                )
                for index, value in enumerate(total.values):
                    before[index] += value
            if self.all_done:
                self._tell_all_workers(end_of_data=pb.EndOfData())
        self._grant()

    def _tell_all_workers(self, **message: Any) -> None:
        for worker in self.alive("worker"):
            worker.tell(**message)

    def free(self, worker: int) -> None:
        """The leases of a worker are void."""
        for key, state in self.states.items():
            if state.worker == worker:
                self._revoke(key, state)

    def _revoke(self, key: tuple[int, str, int], state: SplitState) -> None:
        process = self.processes[state.worker]
        if process.popen.poll() is None and not process.mute:
            process.tell(
                revoke=pb.Revoke(epoch=key[0], phase=key[1], split=key[2], token=state.token)
            )
        state.worker = 0

    # ------------------------------------------------------------------ deaths

    def kill_worker(self, rank: int) -> None:
        """kill -9; its leases are free, and the next incarnation starts."""
        process = self.of("worker", rank)
        process.kill()
        with self.changed:
            self._publish_members()
            self.free(process.incarnation.id)
            self._grant()
        self.start_worker(rank)

    def kill_server(self, rank: int) -> None:
        """kill -9; its shards come back from the last cut, and what followed is done again."""
        process = self.of("server", rank)
        process.kill()
        with self.changed:
            self._set_route(process, "")
            for key, state in self.states.items():
                if state.worker:
                    self._revoke(key, state)
                state.committed, state.rows, state.done = self._cut_states.get(key, (0, 0, False))
        self.start_server(rank)
        self.wait(lambda: all(s.address for s in self._routes.servers), "the server is back")
        with self.changed:
            self._grant()

    def freeze_worker(self, rank: int) -> Process:
        """Stop it (SIGSTOP); the AM gives it up and takes its leases, which it does not hear of."""
        process = self.of("worker", rank)
        process.popen.send_signal(signal.SIGSTOP)
        with self.changed:
            process.mute, process.want = True, 0
            self.free(process.incarnation.id)
            self._grant()
        return process

    def thaw_worker(self, process: Process) -> None:
        """It goes on where it was, a zombie: the AM does not hear it."""
        process.popen.send_signal(signal.SIGCONT)

    # ------------------------------------------------------------------ cuts and the model

    def _cut_path(self, number: int) -> str:
        return str(self.folder / "cuts" / str(number))

    def save_cut(self) -> None:
        """Take a cut and wait until it is complete; splits that it counts as done are closed."""
        with self.changed:
            self._cut_number += 1
            number = self._cut_number
            states = {k: (s.committed, s.rows, s.done) for k, s in self.states.items()}
            self._saved: list[pb.SaveDone] = []
            for server in self.alive("server"):
                server.tell(save=pb.Save(cut=number, path=self._cut_path(number)))
        self.wait(lambda: len(self._saved) == self.servers, "the cut is written")
        with self.changed:
            errors = [saved.error for saved in self._saved if saved.error]
            assert not errors, errors
            self.cut, self._cut_states = number, states
            self.cut_files = [file for saved in self._saved for file in saved.files]
            done: dict[int, list[int]] = {}
            for (epoch, phase, split), (_, _, is_done) in states.items():
                if is_done and phase == "train":
                    done.setdefault(epoch, []).append(split)
            durable = pb.CutDurable(
                cut=number,
                done=[pb.DoneSplits(epoch=e, splits=splits) for e, splits in done.items()],
            )
            for server in self.alive("server"):
                server.tell(cut_durable=durable)

    def _save_done(self, done: pb.SaveDone) -> None:
        if done.cut == self._cut_number:
            self._saved.append(done)

    def export(self, folder: Path, *, tables: list[str] | None = None, text: bool = False) -> None:
        """Have the servers write their parts of the model."""

        def reports() -> list[pb.ExportDone]:
            return [
                m.export_done
                for p in self.alive("server")
                for m in p.said
                if m.HasField("export_done") and m.export_done.path == str(folder)
            ]

        with self.changed:
            for server in self.alive("server"):
                server.tell(export=pb.Export(path=str(folder), tables=tables or [], text=text))
        self.wait(lambda: len(reports()) == self.servers, "the model is written")
        assert [done.error for done in reports()] == [""] * self.servers

    def finish(self, limit: float = LIMIT_S) -> None:
        """Wait until all input is done and all workers have ended well."""
        self.wait(lambda: self.all_done, "all input is done", limit)
        self.wait(lambda: not self.alive("worker"), "the workers have ended", limit)
        for rank in range(self.workers):
            process = self.of("worker", rank)
            assert process.popen.returncode == 0, self.logs()


@contextmanager
def playing(
    folder: Path, block: dict[str, Any], program: str, *, start: bool = True, **settings: Any
) -> Iterator[Player]:
    """A player whose processes are ended with the block."""
    player = Player(folder, block, program, **settings)
    try:
        if start:
            player.start()
        yield player
    finally:
        player.close()


@contextmanager
def client_of_servers(folder: Path, servers: int) -> Iterator[Client]:
    """Servers without workers, and a client of them in this process."""
    block = {"data": {"train": write_input(folder / "in", 1, 1)}}
    with playing(folder, block, "", servers=servers, start=False) as player:
        for rank in range(servers):
            player.start_server(rank)
        player.wait(lambda: all(s.address for s in player._routes.servers), "ready")
        begin = player._begin(player.of("server", 0))
        begin.incarnation.id = 4711
        client = Client(begin, request_limit=30.0)
        try:
            yield client
        finally:
            client.close()


def write_input(folder: Path, files: int, rows: int, *, keys: int = 50) -> str:
    """libsvm files of `rows` rows each; returns the address of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        with (folder / f"part-{number:02d}.libsvm").open("w") as file:
            for row in range(rows):
                first = (row * 7 + number) % keys
                second = (row * 13 + number + 1) % keys + keys
                file.write(f"{row % 2} {first}:1 {second}:{row % 5 + 1}\n")
    return f"{folder}/*.libsvm"
