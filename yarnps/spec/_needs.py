"""What a job asks of a cluster, and whether that can work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from yarnps._errors import Problem
from yarnps.protocol.settings import BATCH_ROWS, GROWING_APPS, MOST_ROWS

from ._checks import AM_MIN_BYTES
from ._job import Job, Role
from ._params import FmParams, FtrlParams, Word2vecParams
from ._render import DEFAULT_MASTER, retry_mib
from ._units import MIB, format_size, parse_size

# Per container: its stream, membership, metrics and page row in Python, its record in Java.
AM_BYTES_PER_CONTAINER: Final = 256 * 1024
# Of a sparse table, measured (`python -m bench.tables`): memory over the rows' own bytes, which are
# an int64 key, and the weight and what the optimizer keeps beside it, all float32.
TABLE_SLACK: Final = 1.4
# A server process without tables, and what it keeps free for messages and checkpoints.
SERVER_PROCESS_BYTES: Final = (150 + 64) * MIB
# What a batch's rows are taken to have, each, where pushes have to be estimated: sparse data has 10
# to 100, and rows that share features have fewer different ones.
FEATURES_OF_A_ROW: Final = 100
# While the parts of a BSP step are added up: for each of their keys a copy, its place and the order
# (`numpy.unique`), and the sums in float64.
SUMMED_KEY_BYTES: Final = 32


@dataclass(frozen=True)
class Limits:
    """What the resource manager hands out; see `yarn.scheduler.*-allocation-*`.

    Parameters
    ----------
    min_memory, max_memory, memory_step : int
        Bytes; requests are rounded up to `min_memory` and then to whole steps.
    max_vcores : int
        Most virtual cores of one container.
    """

    min_memory: int
    max_memory: int
    memory_step: int
    max_vcores: int
    min_vcores: int = 1

    def rounded(self, memory: int) -> int:
        """What a container gets that asks for `memory` bytes."""
        step = max(1, self.memory_step)
        return -(-max(memory, self.min_memory) // step) * step


@dataclass(frozen=True)
class Ask:
    """One group of equal containers: what is asked for, and what YARN makes of it."""

    name: str
    containers: int
    memory: int
    vcores: int
    granted_memory: int


@dataclass(frozen=True)
class Needs:
    """What a job needs.

    Parameters
    ----------
    asks : tuple of Ask
        The AM ("master"), the roles, and the other services.
    memory, vcores : int
        Of all of them together, as granted.
    am_memory : int
        Bytes that the AM's container needs for so many containers.
    table_memory : int
        Bytes that tables may take on one server container.
    table_need : int or None
        Bytes that the tables take on one server container at most, where that is known.
    held : int
        Bsp: bytes of pushes that one server container holds beside its tables until a step is
        closed, about; for built-in programs.
    problems : tuple of Problem
        What makes the job impossible on this cluster.
    warnings : tuple of str
        What may go wrong, or is wasted.
    """

    asks: tuple[Ask, ...]
    memory: int
    vcores: int
    am_memory: int
    table_memory: int
    table_need: int | None
    held: int
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def needs(job: Job, limits: Limits | None = None) -> Needs:
    """Compute what a job needs, and judge it against the cluster's limits.

    Parameters
    ----------
    limits : Limits, optional
        Without: nothing is rounded, nothing refused.
    """
    asks = tuple(_asks(job, limits))
    containers = sum(ask.containers for ask in asks if ask.name != "master")
    am_memory = AM_MIN_BYTES + containers * AM_BYTES_PER_CONTAINER
    problems = _refusals(job, asks, limits)
    warnings = [*_rounding(asks), *_am_warning(asks, am_memory, containers)]
    table_memory, table_need = _tables(job)
    if table_need is not None and table_need > table_memory:
        warnings.append(
            f"tables: up to {format_size(table_need)} on each server, where only "
            f"{format_size(table_memory)} may be used (server.table_memory of "
            "services.server.resources.memory): give servers more memory, or ask for more of them"
        )
    held = _held(job)
    warnings += _held_warning(job, held, min(table_need or 0, table_memory))
    return Needs(
        asks=asks,
        memory=sum(ask.containers * ask.granted_memory for ask in asks),
        vcores=sum(ask.containers * ask.vcores for ask in asks),
        am_memory=am_memory,
        table_memory=table_memory,
        table_need=table_need,
        held=held,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _asks(job: Job, limits: Limits | None) -> list[Ask]:
    def ask(name: str, containers: int, resources: Mapping[str, Any]) -> Ask:
        memory = -(-parse_size(resources["memory"], unit=MIB) // MIB) * MIB
        granted = limits.rounded(memory) if limits else memory
        return Ask(name, containers, memory, resources["vcores"], granted)

    master = (job.skein.get("master") or {}).get("resources")
    default = DEFAULT_MASTER if job.block is not None else {"memory": "512 MiB", "vcores": 1}
    asks = [ask("master", 1, master or default)]
    for name, service in (job.skein.get("services") or {}).items():
        instances = service.get("instances")
        asks.append(ask(name, 1 if instances is None else instances, service["resources"]))
    return asks


def _refusals(job: Job, asks: tuple[Ask, ...], limits: Limits | None) -> list[Problem]:
    if limits is None:
        return []
    problems = []

    def refuse(path: str, found: str, most: str) -> None:
        message = f"{found} is more than this cluster gives one container: at most {most}"
        problems.append(Problem(_line(job, path), path, message, source=job.path))

    for ask in asks:
        at = "master" if ask.name == "master" else f"services.{ask.name}"
        if ask.granted_memory > limits.max_memory:
            most = format_size(limits.max_memory)
            refuse(f"{at}.resources.memory", format_size(ask.memory), most)
        if ask.vcores > limits.max_vcores:
            refuse(f"{at}.resources.vcores", f"{ask.vcores}", f"{limits.max_vcores}")
    factor = job.block.retry_memory if job.block is not None else None
    for role in job.roles.values() if factor is not None else ():
        memory = retry_mib(role, factor or 1) * MIB
        if limits.rounded(memory) > limits.max_memory and role.memory <= limits.max_memory:
            found = f"{factor:g} times the {role.name}s' memory, {format_size(memory)},"
            refuse("yarnps.retry_memory", found, format_size(limits.max_memory))
    return problems


def _line(job: Job, path: str) -> int:
    """The key's line in the job file, 0 where it came from elsewhere."""
    for source in job.origins:
        if source.path == path:
            line = source.origin.rpartition(":")[2]
            return int(line) if line.isdigit() else 0
    return 0


def _rounding(asks: tuple[Ask, ...]) -> list[str]:
    return [
        f"{ask.name}: YARN rounds {format_size(ask.memory)} up to {format_size(ask.granted_memory)}"
        for ask in asks
        if ask.granted_memory != ask.memory
    ]


def _am_warning(asks: tuple[Ask, ...], am_memory: int, containers: int) -> list[str]:
    master = asks[0]
    if master.granted_memory >= am_memory:
        return []
    return [
        f"master.resources.memory: {format_size(master.granted_memory)} is little for "
        f"{containers} containers: about {format_size(am_memory)} is needed"
    ]


def _tables(job: Job) -> tuple[int, int | None]:
    """What tables may take on one server container, and what they take there at most."""
    server: Role | None = job.roles.get("server")
    if job.block is None or server is None or job.block.runtime != "native":
        return 0, None
    beside = server.memory - server.vcores * SERVER_PROCESS_BYTES
    allowed = max(0, min(int(server.memory * job.block.server.table_memory), beside))
    rows, tables = _largest(job)
    if rows is None:
        return allowed, None
    own = sum(8 + 4 * table.dim * table.states for table in tables)
    return allowed, -(-int(rows * own * TABLE_SLACK) // server.instances)


def _held(job: Job) -> int:
    """What one server container holds of a BSP step's pushes, about."""
    block, server, worker = job.block, job.roles.get("server"), job.roles.get("worker")
    if block is None or server is None or worker is None:
        return 0
    rows, tables = _largest(job)
    parts = block.sync.parts_of(worker.instances)
    if parts is None or not tables:
        return 0
    most = MOST_ROWS if block.app in GROWING_APPS else BATCH_ROWS
    keys = (block.train.batch_rows or most) * FEATURES_OF_A_ROW
    if rows is not None:
        keys = min(keys, rows)
    pushed = sum(8 + 4 * table.dim for table in tables)
    summed = max(SUMMED_KEY_BYTES + 8 * table.dim for table in tables)  # one after another
    return parts * keys * (pushed + summed) // server.instances


def _held_warning(job: Job, held: int, tables: int) -> list[str]:
    server = job.roles.get("server")
    if server is None or held + tables + server.vcores * SERVER_PROCESS_BYTES <= server.memory:
        return []
    if not held:
        return []
    beside = f" beside tables of {format_size(tables)}" if tables else ""
    return [
        f"bsp: about {format_size(held)} of pushes on each server until a step is closed{beside}, "
        f"which is much for services.server.resources.memory {format_size(server.memory)}: give "
        "servers more memory, ask for more of them, or set a smaller train.batch_rows"
    ]


class _Table(NamedTuple):
    """A table of a built-in program; `states`: numbers kept for each weight, itself included."""

    dim: int
    states: int


def _largest(job: Job) -> tuple[int | None, tuple[_Table, ...]]:
    """How many rows a built-in program's tables may come to have, and which tables there are."""
    block = job.block
    if block is not None and block.app == "ftrl":
        return FtrlParams.model_validate(block.params).hash_buckets, (_Table(1, 2),)
    if block is not None and block.app == "fm":
        params = FmParams.model_validate(block.params)
        states = 1 if params.optimizer == "sgd" else 2
        return params.hash_buckets, (_Table(1, states), _Table(params.dim, states))
    if block is not None and block.app == "word2vec":
        vectors = Word2vecParams.model_validate(block.params)
        return vectors.max_words, (_Table(vectors.dim, 1),) * 2
    return None, ()
