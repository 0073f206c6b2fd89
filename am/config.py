"""What the ApplicationMaster's state machine has to know from the start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from yarnps.spec import Block, Job, Role

HEARTBEAT_LEAST_S = 1.0
CONTAINERS_PER_HEARTBEAT_S = 1000

NO_SERVERS = Role("server", instances=0, memory=0, vcores=1, native=False)


@dataclass(frozen=True)
class Config:
    """A job with its place in the world.

    `secret` is known to the application's own processes only; tokens and nonces come from it.
    """

    job: Job
    application: str
    attempt: int
    job_dir: str
    model: str  # address of the model's folder
    secret: bytes
    version: str
    cluster: str = "local"

    @property
    def block(self) -> Block:
        """The job file's `yarnps:` block."""
        if self.job.block is None:
            raise ValueError("a job without a yarnps block has no ApplicationMaster of ours")
        return self.job.block

    @property
    def worker(self) -> Role:
        """The worker role."""
        return self.job.roles["worker"]

    @property
    def server(self) -> Role:
        """The server role; of no instances where the runtime has none."""
        return self.job.roles.get("server", NO_SERVERS)

    @property
    def server_processes(self) -> int:
        """Server processes of the whole job."""
        return self.server.instances * self.server.processes

    @property
    def heartbeat_s(self) -> float:
        """Period of an agent's heartbeats: what all of them together allow."""
        count = self.server.instances + self.worker.instances
        return max(HEARTBEAT_LEAST_S, count / CONTAINERS_PER_HEARTBEAT_S)

    @property
    def job_number(self) -> int:
        """The job on the data plane: 64 bits."""
        digest = hashlib.sha256(self.application.encode()).digest()
        return int.from_bytes(digest[:8], "little")

    def derived(self, purpose: str) -> bytes:
        """A secret for one purpose."""
        return hashlib.sha256(self.secret + b"\0" + purpose.encode()).digest()

    @property
    def data_token(self) -> str:
        """What a peer on the data plane has to know; changes with the attempt."""
        return self.derived(f"data/{self.attempt}").hex()[:32]

    def threads(self, role: str) -> int:
        """Threads that a process of the role may use: a server process is single-threaded."""
        return 1 if role == "server" else self.worker.vcores
