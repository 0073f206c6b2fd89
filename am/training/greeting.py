"""What agents are told first, and new role processes: their job, the routes, what to load."""

from __future__ import annotations

from yarnps._threads import THREAD_COUNTS
from yarnps.am.config import Config
from yarnps.am.training.crew import RoleProcess
from yarnps.am.training.cuts import NO_CUT, Manifest
from yarnps.protocol import control_pb2 as pb

# glibc gives memory of this size and below back to the system only when this much of it lies idle.
# By default a batch's arrays would be given back and asked for again with every batch, and the
# system clears each page anew: up to half of a worker's time.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 64 << 20}

# How often an agent starts a process again by itself.
RESTARTS_PER_MINUTE = 3


def welcome_message(config: Config) -> pb.Welcome:
    """The answer to an agent's registration."""
    return pb.Welcome(
        heartbeat_s=config.heartbeat_s,
        am_silence_s=config.block.am_silence,
        restarts_per_minute=RESTARTS_PER_MINUTE,
        attempt=config.attempt,
    )


def begin_message(
    config: Config,
    member: RoleProcess,
    routes: pb.Routes,
    members: pb.Members,
    newest: Manifest | None,
) -> pb.Begin:
    """The first message to `member`. `newest` is the cut that a server loads its shards from."""
    begin = pb.Begin(
        application=config.application,
        job=config.job_number,
        attempt=config.attempt,
        generation=routes.generation,
        rank=member.rank,
        workers=config.worker.instances,
        servers=config.server_processes,
        incarnation=member.incarnation(),
        job_json=config.job.to_json(),
        job_dir=config.job_dir,
        data_token=config.data_token,
        bind_address=member.address,
        routes=routes,
        members=members,
        server_rank=member.server_rank,
        threads=config.threads(member.role),
    )
    if member.role == "server":
        begin.load.CopyFrom(load_message(config, newest))
    return begin


def load_message(config: Config, newest: Manifest | None) -> pb.Load:
    """Where a server's shards come from."""
    if newest is None:
        return pb.Load(cut=NO_CUT, init_from=config.block.model.init_from or "")
    return pb.Load(
        cut=newest.number,
        path=f"{config.job_dir}/{newest.folder}",
        files=[file.to_pb() for file in newest.files],
    )


def start_message(config: Config, role: str, processes: int) -> pb.StartRole:
    """What an agent is to run: a built-in program, or the script of the job file."""
    spec = config.job.roles[role]
    if role == "server":
        command = ["@python", "-m", "yarnps.server"]
    elif spec.script:
        command = ["bash", "-c", spec.script]
    else:
        command = ["@python", "-m", "yarnps.worker"]
    threads = str(config.threads(role))
    env = {name: threads for name in THREAD_COUNTS if name not in spec.env}
    if role == "worker":
        env |= {name: str(size) for name, size in _KEPT_MEMORY.items() if name not in spec.env}
    env["YARNPS_MEMORY"] = str(spec.memory // max(1, processes))
    return pb.StartRole(command=command, env=env, processes=processes, restart=True)
