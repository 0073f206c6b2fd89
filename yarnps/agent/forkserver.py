"""``python -m yarnps.agent.forkserver FD PACKAGE…``: starts the containers of a local job.

Five processes that import numpy and numba take five times half a second of processor; forks of
one that has imported them take none. This process imports them, then forks a container for each
request that comes in on the socket FD, until its other end is closed:

- the container's leader, which stands for the shell of a new container: it waits for the agent
  and writes down its exit status,
- its child, the agent,
- its child, the `Understudy` of the container's first role process.

What they do is what new processes do, and each has the command, environment, folder, session,
output and parent that it would have there. Where something cannot be the same, it is refused, and
a new process is started.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from yarnps._threads import THREAD_COUNTS
from yarnps.agent.__main__ import prepare_grpc, run
from yarnps.agent._appearance import ROOM, Room
from yarnps.agent._sameness import missed
from yarnps.agent._settings import EXIT_CODE, kernel_cache
from yarnps.agent._understudy import Imported, Understudy, Waiting, settle

# What these programs import once they run.
_IMPORTED_LATER = {
    "yarnps.server": ("yarnps.server.process",),
    "yarnps.worker": ("yarnps.worker.connecting", "yarnps.data"),
}

# More than any environment; a longer request is refused by the sender's socket.
_REQUEST_BYTES = 1 << 20
_ORDERS_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Request(NamedTuple):
    """A container to start: its folder, which gets its output, and its whole environment."""

    container: str
    folder: str
    env: dict[str, str]


class Answer(NamedTuple):
    """The pid of its leader, or why there is none."""

    container: str
    pid: int
    error: str = ""


def main(words: Sequence[str]) -> None:
    """Serve. Returns in the end; in a role process it ends as the program does that it runs."""
    control = socket.socket(fileno=int(words[0]))
    control.set_inheritable(False)
    begun = {name: value for name, value in os.environ.items() if name != ROOM}
    imported = _import(words[1:], begun)
    request = _serve(control, begun, imported.room)
    if request is None:
        return
    _become_container(request, control, imported.room)
    _fork_agent(request)
    imported.room.take_on(_agent_command(), request.env)
    understudy = Understudy.fork(imported) if imported.programs else None
    if isinstance(understudy, Waiting):
        understudy.play()
    else:
        run(understudy)


def _import(packages: Sequence[str], begun: Mapping[str, str]) -> Imported:
    """Import what agents and role processes need, under the environment of the latter."""
    env = {
        "NUMBA_CACHE_DIR": kernel_cache(begun, Path.cwd()),
        **begun,
        **dict.fromkeys(THREAD_COUNTS, "1"),
    }
    os.environ.update(env)
    prepare_grpc()
    for package in packages:
        for module in (package, *_IMPORTED_LATER.get(package, ())):
            importlib.import_module(module)
    importlib.import_module("yarnps.agent._agent")
    if kernels := sys.modules.get("yarnps._kernels"):
        kernels.warm_up()
    gc.freeze()  # the forks' collections pass it by, and its memory stays shared
    programs = frozenset(filter(_is_program, packages))
    return Imported(programs, env, Room.of_this_process())


def _is_program(package: str) -> bool:
    folders = getattr(sys.modules[package], "__path__", ())
    return any(Path(folder, "__main__.py").exists() for folder in folders)


def _serve(control: socket.socket, begun: Mapping[str, str], room: Room) -> Request | None:
    """Fork for each request; the answer is one in a fork, and None when there will be no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the leaders
    while data := control.recv(_REQUEST_BYTES):
        request = Request(*json.loads(data))
        error = _why_not(request, begun, room)
        if not error:
            try:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    return request
            except OSError as e:
                error = f"it cannot be forked: {e.strerror}"
        if error:
            _reply(control, Answer(request.container, 0, error))
    return None


def _why_not(request: Request, begun: Mapping[str, str], room: Room) -> str:
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"an import has started {threads - 1} threads"
    if names := missed(begun, request.env):
        return f"its environment differs in {', '.join(sorted(names))}"
    return "" if room.holds(_agent_command(), request.env) else "its environment is too large"


def _reply(control: socket.socket, answer: Answer) -> None:
    with contextlib.suppress(OSError):  # the ApplicationMaster has just died
        control.send(json.dumps(answer).encode())


def _agent_command() -> list[str]:
    return [sys.executable, "-m", "yarnps.agent"]


def _become_container(request: Request, control: socket.socket, room: Room) -> None:
    """In a fork: what a new process would find, and the answer that it is there."""
    with control:
        os.setsid()
        try:
            settle(request.folder)
            for number, name in ((1, "stdout"), (2, "stderr")):
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                os.dup2(file, number)
                os.close(file)
        except OSError as e:
            _reply(control, Answer(request.container, 0, f"{e.strerror}: {e.filename}"))
            raise
        room.take_on(["container", request.container], request.env)
        # The leader must outlive what is sent to its group, to write down how the agent ended.
        for number in _ORDERS_TO_END:
            signal.signal(number, lambda *_: None)
        _reply(control, Answer(request.container, os.getpid()))


def _fork_agent(request: Request) -> None:
    """Fork the agent; returns in it only."""
    pid = os.fork()
    if pid == 0:
        for number in _ORDERS_TO_END:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as in every Python
        return
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    code = code if code >= 0 else 128 - code  # as a shell counts
    new = Path(f"{EXIT_CODE}.new")
    new.write_text(f"{code}\n")
    new.rename(EXIT_CODE)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
