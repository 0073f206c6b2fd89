"""What the launchers have in common: processes started under a wrapper, and what is heard of them.

A place starts tasks, passes on their lines and says how each has ended. What it has started ends
when `end` is called, and also when the launcher itself is killed: everything runs under `WRAPPER`,
whose standard input ends then.
"""

from __future__ import annotations

import asyncio
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from yarnps.client.launch.plan import UNSET, Task
from yarnps.pslite.wire import Seat

GRACE_S: Final = 5
# The wrapper needs its grace, then something to be killed and waited for.
END_LIMIT_S: Final = GRACE_S + 10.0
RUN: Final = "#yarnps: run"

# Reads what to run from its standard input, up to the line `RUN`: so no secret of the environment
# is seen in a list of processes. An end of the input before that line means that nobody wants the
# program any more; an end after it ends the program, politely first. Sessions of their own give
# both a process group to be ended by.
WRAPPER: Final = f"""\
script=
while IFS= read -r line && [ "$line" != "{RUN}" ]; do
  script="$script$line
"
done
[ "$line" = "{RUN}" ] || exit 1
exec 3<&0
setsid sh -c "$script" </dev/null 3<&- & child=$!
setsid sh -c 'cat; kill -s TERM -- -$0; sleep {GRACE_S}; kill -s KILL -- -$0' $child \\
  <&3 3<&- >/dev/null 2>&1 & watch=$!
wait $child 2>/dev/null; code=$?
kill -s KILL -- -$watch -$child 2>/dev/null
exit $code
"""

# ps-lite advertises the address in DMLC_NODE_HOST, and takes numbers only: the address of the
# interface that reaches the scheduler. Without `ip`, ps-lite chooses an interface by itself.
NODE_HOST_BY_ROUTE: Final = (
    'DMLC_NODE_HOST=$(ip -4 route get "$DMLC_PS_ROOT_URI" 2>/dev/null |'
    " sed -n 's/.* src \\([0-9.]*\\).*/\\1/p')"
)


class Line(NamedTuple):
    """A line of output; `seat` is None for one of the launcher's own tool."""

    seat: Seat | None
    is_error: bool
    text: str


class Ended(NamedTuple):
    """A process has ended; `code` as a shell says it, 128 + n after signal n."""

    seat: Seat
    code: int


class Broken(NamedTuple):
    """The place cannot run the processes, or lost sight of them."""

    text: str


Hear = Callable[["Line | Ended | Broken"], None]


class Place(Protocol):
    """Where the processes run."""

    @property
    def first_host(self) -> str:
        """A host that will run some of them; empty where that is not known before."""
        ...

    async def start(self, tasks: Sequence[Task], hear: Hear) -> None:
        """Start all; `hear` is called with what is heard of them from now on."""
        ...

    async def end(self) -> None:
        """End what still runs. Returns when nothing does, or after `END_LIMIT_S`."""
        ...


def script(task: Task, *, folder: str = "", node_host: str = "") -> list[str]:
    """The lines of shell that become a task's process.

    Parameters
    ----------
    folder
        Where it runs; empty: where the wrapper does.
    node_host
        A line of shell that sets DMLC_NODE_HOST.
    """
    lines = [f"unset {' '.join(UNSET)}"]
    lines += exports(task.env)
    if not {"DMLC_NODE_HOST", "DMLC_INTERFACE"} & task.env.keys() and node_host:
        lines += [node_host, 'if [ -n "$DMLC_NODE_HOST" ]; then export DMLC_NODE_HOST; fi']
    if folder:
        lines.append(f"cd {shlex.quote(folder)} || exit 1")
    return [*lines, task.command]


def exports(env: Mapping[str, str]) -> list[str]:
    """Lines of shell that set variables."""
    return [f"export {name}={shlex.quote(value)}" for name, value in env.items()]


class Piped:
    """A process under `WRAPPER`, here or at the other end of `argv`.

    Parameters
    ----------
    on_line
        Called with each line of its output, and whether that was standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, on_line: Callable[[bool, str], None]):
        self._process = process
        assert process.stdout is not None and process.stderr is not None
        self._pumps = [
            asyncio.ensure_future(_pump(process.stdout, lambda text: on_line(False, text))),
            asyncio.ensure_future(_pump(process.stderr, lambda text: on_line(True, text))),
        ]

    @classmethod
    async def start(
        cls, argv: Sequence[str], lines: Sequence[str], on_line: Callable[[bool, str], None]
    ) -> Piped:
        """Start `argv`, which is to run `WRAPPER`, and hand it the lines to run."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the launcher, which ends everything in order
        )
        piped = cls(process, on_line)
        assert process.stdin is not None
        process.stdin.write("\n".join([*lines, RUN, ""]).encode())
        with suppress(ConnectionError):  # it has ended already: its exit status tells
            await process.stdin.drain()
        return piped

    async def wait(self) -> int:
        """Its exit status, when all of its output has been passed on."""
        code = await self._process.wait()
        done, late = await asyncio.wait(self._pumps, timeout=GRACE_S)
        for pump in late:  # something that it left behind holds its output open
            pump.cancel()
        for pump in done:
            pump.result()
        self.let_go()
        return 128 - code if code < 0 else code

    def let_go(self) -> None:
        """Let the wrapper end what it runs."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """End the process at this end without asking."""
        with suppress(ProcessLookupError):
            self._process.kill()


LOCAL_SHELL: Final = ("sh", "-c", WRAPPER)


class PipedPlace(ABC):
    """A place in which each task is one `Piped` of this process; subclasses say which."""

    first_host = ""

    def __init__(self) -> None:
        self._piped: dict[Seat, Piped] = {}
        self._waits: list[asyncio.Task[None]] = []

    @abstractmethod
    def argv(self, task: Task) -> Sequence[str]:
        """What runs the wrapper for a task."""

    @abstractmethod
    def lines(self, task: Task) -> list[str]:
        """What the wrapper is to run."""

    async def start(self, tasks: Sequence[Task], hear: Hear) -> None:
        for task in tasks:
            piped = await Piped.start(self.argv(task), self.lines(task), line_of(task.seat, hear))
            self._piped[task.seat] = piped
            self._waits.append(watch(_wait(piped, task.seat, hear), hear))

    async def end(self) -> None:
        await end_all(list(self._piped.values()), self._waits)


async def end_all(piped: Sequence[Piped], waits: Sequence[asyncio.Task[None]]) -> None:
    """End the processes that still run, and wait until they have."""
    for one in piped:
        one.let_go()
    if not waits:
        return
    _, late = await asyncio.wait(waits, timeout=END_LIMIT_S)
    if late:
        for one in piped:
            one.kill()
        await asyncio.wait(waits, timeout=GRACE_S)


def line_of(seat: Seat, hear: Hear) -> Callable[[bool, str], None]:
    """Hears a seat's lines."""
    return lambda is_error, text: hear(Line(seat, is_error, text))


def watch(work: Coroutine[Any, Any, None], hear: Hear) -> asyncio.Task[None]:
    """`work` as a task; should it fail, that is heard, and not waited for in vain."""

    async def guarded() -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the launch
            hear(Broken(f"{type(error).__name__}: {error}"))

    return asyncio.ensure_future(guarded())


async def _wait(piped: Piped, seat: Seat, hear: Hear) -> None:
    hear(Ended(seat, await piped.wait()))


async def _pump(stream: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    """Pass on lines of any length; what is not UTF-8 is shown as well as can be."""
    rest = b""
    while chunk := await stream.read(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))
    if rest:
        on_line(rest.decode(errors="replace"))
