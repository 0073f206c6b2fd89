"""What the resource side of the ApplicationMaster decides; the shell carries it out.

`Members` turns inputs into these records, in the order in which they are to be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from yarnps.am.resources.decode import Ending
from yarnps.causes import Cause


class Incarnation(NamedTuple):
    """One start of one process: `id` is its identity on the data plane."""

    container: str
    process: int
    start: int
    id: int


@dataclass(frozen=True)
class Request:
    """Ask the cluster for a container; the answer is `Members.request_placed` or `…_failed`.

    `env` holds what only `Members` knows (role, rank, nonce); the shell adds its own address.
    """

    role: str
    rank: int
    nonce: str
    env: dict[str, str]
    retry_memory: bool = False


@dataclass(frozen=True)
class Release:
    """End a container, or take its request back.

    `polite`: its agent may be told to exit first, nothing of it runs any more.
    """

    container: str
    cause: Cause
    text: str = ""
    polite: bool = False


@dataclass(frozen=True)
class StartProcess:
    """Tell the agent of `container` to start the role's processes (again: no harm)."""

    container: str
    role: str
    rank: int
    processes: int


@dataclass(frozen=True)
class StopProcess:
    """Tell the agent of `container` to end the role's processes; they are started again then."""

    container: str
    role: str
    rank: int
    text: str


@dataclass(frozen=True)
class Up:
    """A process runs. It has not said hello yet."""

    role: str
    rank: int
    incarnation: Incarnation
    node: str
    address: str  # IP address that its container is reached by
    nth: int  # start of the rank, over all its containers, from 1


@dataclass(frozen=True)
class Died:
    """Processes of a rank are gone, or its container is (`incarnations` may then be empty)."""

    role: str
    rank: int
    container: str
    incarnations: tuple[Incarnation, ...]
    cause: Cause
    text: str
    node: str
    restarting_in_place: bool
    charged: bool  # it has cost one of the rank's restarts
    deaths: int  # of this rank so far
    traceback: str = ""
    exit_code: int | None = None  # of the process, where it has failed


@dataclass(frozen=True)
class GaveUp:
    """A rank will not be started again."""

    role: str
    rank: int
    cause: Cause
    text: str
    traceback: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class Note:
    """Something a person may want to read in the event log."""

    text: str
    role: str = ""
    rank: int | None = None
    container: str = ""


Decision = Request | Release | StartProcess | StopProcess | Up | Died | GaveUp | Note


@dataclass(frozen=True)
class Registration:
    """The answer to an agent. Refused: `reason` is the sentence for its `Refused` message."""

    accepted: bool
    reason: str = ""
    decisions: tuple[Decision, ...] = ()


class Expiry(NamedTuple):
    """A limit that has run out; an input of its own, so that a journal can hold it."""

    # ask, silence, node, register, process, hello, up; from the shell: frozen, stuck, barrier,
    # tracker
    kind: str
    role: str
    rank: int
    container: str


@dataclass(frozen=True)
class Work:
    """What the training side knows of a program that ends."""

    asked: bool = True  # it has asked for input at least once
    rows: int = 0  # it has committed so many
    input_left: bool = False  # training is not at its end
    # Of runtimes whose programs know of no input and end by themselves, servers too:
    by_itself: bool = False  # exit status 0 is a good end, unless there is …
    complaint: Ending | None = None
    needless: bool = False  # nobody needs it any more: any end is a good one


@dataclass(frozen=True)
class RolePlan:
    """What is wanted of one role. Sizes in bytes; `max_restarts` -1: no limit.

    `own_program`: its processes are ours and say hello as soon as they run. A user's script may do
    other things first, for as long as it likes.
    """

    instances: int
    processes: int = 1
    max_restarts: int = 3
    allow_failures: bool = False
    memory: int | None = None
    retry_memory: int | None = None  # size of the role's second service, if it has one
    own_program: bool = False
    by_order: bool = False  # its agents start nothing again by themselves
    needed: bool = False  # no rank of it can be done without, however long it is away
    joins: str = "has not called yarnps.connect()"  # of one that runs and is not up, for people


@dataclass(frozen=True)
class Limits:
    """Limits in seconds; all but the first two count only while the AM was responsive."""

    start_timeout: float = 600.0
    process_start: float = 60.0  # from the order to start a process until it runs
    hello: float = 120.0  # from then until it says hello, where its program is ours
    silence: float = 60.0  # an agent that is not heard of
    batch: float = 600.0  # a worker that holds work and commits nothing
    register: float = 60.0  # from the grant until the agent registers …
    localise: float = 300.0  # … on a node where none of this job has: files are fetched first


@dataclass(frozen=True)
class Settings:
    """What `Members` needs to know of the job. `seed` makes the nonces and is a secret."""

    version: str
    seed: bytes
    limits: Limits = field(default_factory=Limits)
