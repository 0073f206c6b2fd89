"""Start, find, watch and stop a sandbox."""

from __future__ import annotations

import getpass
import os
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yarnps.client.sandbox._conf import CLIENT
from yarnps.client.sandbox._daemons import start_daemon
from yarnps.client.sandbox._errors import SandboxError, SandboxInputError
from yarnps.client.sandbox._java import Java, read_java
from yarnps.client.sandbox._processes import (
    ProcessId,
    alive,
    containers_of,
    daemons_of,
    end,
    in_sessions_of,
)
from yarnps.client.sandbox._ready import YarnNode, is_ready, yarn_nodes
from yarnps.client.sandbox._state import (
    DATANODE,
    MASTER,
    NODEMANAGER,
    Layout,
    State,
    daemon_names,
    node_address,
    read_state,
    resolve_home,
    write_state,
)

READY_LIMIT_S = 180.0  # 10 s on a quiet machine, 40 s on a crowded one
POLL_S = 0.1
LOG_TAIL_LINES = 20


@dataclass(frozen=True)
class DaemonStatus:
    """One daemon: its process, its log, and whether it runs."""

    name: str
    pid: int
    log: Path
    alive: bool


@dataclass(frozen=True)
class SandboxStatus:
    """What `yarnps sandbox status` says.

    Attributes
    ----------
    running : bool
        A start was completed and at least one daemon runs.
    nodes : tuple of YarnNode
        The nodes that the resource manager knows; none while it does not answer.
    rm_page, fs_default : str
        Address of the resource manager's page, and of HDFS. Empty when nothing runs.
    """

    running: bool
    home: Path
    nodes: tuple[YarnNode, ...] = ()
    rm_page: str = ""
    fs_default: str = ""
    conf_dir: Path | None = None
    daemons: tuple[DaemonStatus, ...] = ()


class Sandbox:
    """A running sandbox, as `start` and `find_running` return it.

    Examples
    --------
    >>> sandbox = start(Path("/tmp/mine"), nodes=2)  # doctest: +SKIP
    >>> subprocess.run(["hdfs", "dfs", "-ls", "/"], env=sandbox.environ())  # doctest: +SKIP
    >>> stop(sandbox.home)  # doctest: +SKIP
    """

    def __init__(self, home: Path, state: State) -> None:
        self._layout = Layout(home)
        self._state = state
        self.home = home

    @property
    def nodes(self) -> tuple[str, ...]:
        """Addresses of the nodes, as YARN and block locations name them."""
        return tuple(node_address(n) for n in range(1, self._state.settings.nodes + 1))

    @property
    def rm_page(self) -> str:
        """Address of the resource manager's page and REST service."""
        return f"http://{MASTER}:{self._state.ports.rm_http}"

    @property
    def name_node_page(self) -> str:
        """Address of the name node's web service; WebHDFS is below /webhdfs/v1."""
        return f"http://{MASTER}:{self._state.ports.name_http}"

    @property
    def fs_default(self) -> str:
        """Address of the sandbox's HDFS."""
        return f"hdfs://{MASTER}:{self._state.ports.name}"

    @property
    def conf_dir(self) -> Path:
        """The clients' HADOOP_CONF_DIR."""
        return self._layout.conf(CLIENT)

    def environ(self) -> dict[str, str]:
        """Return the variables that make other programs use this sandbox."""
        before = os.environ.get("PATH", os.defpath).split(os.pathsep)
        # Entered twice (an environment inside an environment), it still stands there once.
        rest = [entry for entry in before if entry != str(self._layout.scripts)]
        return {
            "HADOOP_CONF_DIR": str(self.conf_dir),
            "PATH": os.pathsep.join([str(self._layout.scripts), *rest]),
            "JAVA_HOME": self._state.java_home,
            "YARNPS_SANDBOX_HOME": str(self.home),
        }

    def shell_exports(self) -> str:
        """Return `export` lines for `eval "$(yarnps sandbox env)"`."""
        fixed = self.environ()
        path = fixed.pop("PATH").split(os.pathsep)[0]
        lines = [f"export {name}={shlex.quote(value)}" for name, value in fixed.items()]
        return "\n".join([*lines, f'export PATH={shlex.quote(path)}:"$PATH"'])

    def yarn_nodes(self) -> list[YarnNode]:
        """Return the nodes as the resource manager sees them now."""
        return yarn_nodes(self._state.ports)

    def daemons(self) -> dict[str, ProcessId]:
        """Return the daemons that run, by name."""
        known = daemon_names(self._state.settings.nodes)
        return {name: p for name, p in daemons_of(self.home).items() if name in known}

    def log(self, daemon: str) -> Path:
        """Return the log file of a daemon."""
        self._known(daemon)
        return self._layout.log(daemon)

    def container_logs(self) -> list[Path]:
        """Return the log files of containers that are not aggregated yet."""
        return sorted((self.home / "nodes").glob("*/logs/application_*/container_*/*"))

    def kill(self, daemon: str) -> None:
        """Kill a daemon with -9. The containers of a killed node manager run on."""
        self._known(daemon)
        process = self.daemons().get(daemon)
        if process is None:
            raise SandboxInputError(f"this daemon does not run: {daemon}")
        if end([process]):
            raise SandboxError(f"this daemon does not die: {daemon} (pid {process.pid})")

    def kill_node(self, index: int) -> None:
        """Kill node `index` (from 1) as a power cut does: both daemons and every container."""
        names = (f"{NODEMANAGER}-{index}", f"{DATANODE}-{index}")
        self._known(names[0])
        running = self.daemons()
        end_with_children(
            [running[name] for name in names if name in running],
            lambda: containers_of(self._layout.node(index)),
        )

    def start_daemon(self, daemon: str, *, limit_s: float = READY_LIMIT_S) -> None:
        """Start a daemon that does not run, and wait until it works.

        Raises
        ------
        SandboxError
            It died or did not become ready; the message holds its last log lines.
        """
        self._known(daemon)
        if daemon in self.daemons():
            raise SandboxInputError(f"this daemon runs: {daemon}")
        since_ms = int(time.time() * 1000)
        process = start_daemon(self._layout, self._state, self._java(), daemon)
        recorded = {**self._state.daemons, daemon: process}
        self._state = replace(self._state, daemons=recorded)
        write_state(self._layout, self._state)
        wait_ready(self._layout, self._state, [daemon], limit_s=limit_s, since_ms=since_ms)

    def restart(self, daemon: str, *, limit_s: float = READY_LIMIT_S) -> None:
        """Kill a daemon if it runs, start it again, and wait until it works."""
        if daemon in self.daemons():
            self.kill(daemon)
        self.start_daemon(daemon, limit_s=limit_s)

    def tails(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last lines of every daemon's log, for a failed test's report."""
        names = daemon_names(self._state.settings.nodes)
        return "\n".join(f"--- {name}\n{tail(self._layout.log(name), lines)}" for name in names)

    def _known(self, daemon: str) -> None:
        names = daemon_names(self._state.settings.nodes)
        if daemon not in names:
            raise SandboxInputError(
                f"no such daemon: {daemon}", f"This sandbox has {', '.join(names)}."
            )

    def _java(self) -> Java:
        java = read_java(Path(self._state.java_home))
        if java is None:
            raise SandboxError(
                f"the Java that this sandbox runs on is gone: {self._state.java_home}"
            )
        return java


def find_running(home: Path | None = None) -> Sandbox | None:
    """Return the sandbox that runs in this home (default: the user's), None if none does."""
    resolved = resolve_home(home)
    state = read_state(Layout(resolved))
    if state is None or not state.ready or not any(map(alive, state.daemons.values())):
        return None
    return Sandbox(resolved, state)


def status(home: Path | None = None) -> SandboxStatus:
    """Return what runs in this home (default: the user's)."""
    layout = Layout(resolve_home(home))
    state = read_state(layout)
    if state is None:
        return SandboxStatus(running=False, home=layout.home)
    daemons = tuple(
        DaemonStatus(name, process.pid, layout.log(name), alive(process))
        for name, process in state.daemons.items()
    )
    sandbox = find_running(layout.home)
    if sandbox is None:
        return SandboxStatus(running=False, home=layout.home, daemons=daemons)
    return SandboxStatus(
        running=True,
        home=layout.home,
        nodes=tuple(sandbox.yarn_nodes()),
        rm_page=sandbox.rm_page,
        fs_default=sandbox.fs_default,
        conf_dir=sandbox.conf_dir,
        daemons=daemons,
    )


class DaemonDied(SandboxError):
    """Daemons ended, or were not ready in time; the message holds their last log lines."""

    def __init__(self, what: str, daemons: Sequence[str], layout: Layout) -> None:
        # What all others wait for stands first; two logs are as much as anyone reads.
        tails = [(name, tail(layout.log(name), LOG_TAIL_LINES)) for name in daemons[:2]]
        self.log_tail = "\n".join(text for _, text in tails)
        logs = "\n".join(f"The last lines of {name}'s log:\n{text}" for name, text in tails)
        super().__init__(f"{what}: {', '.join(daemons)}\n{logs}")


def wait_ready(
    layout: Layout,
    state: State,
    names: Iterable[str],
    *,
    limit_s: float = READY_LIMIT_S,
    since_ms: int = 0,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Wait until these daemons work.

    Raises
    ------
    DaemonDied
        One ended, or was not ready within the limit.
    """
    deadline = time.monotonic() + limit_s
    waiting = list(names)
    while waiting:
        dead = [name for name in waiting if not alive(state.daemons[name])]
        if dead:
            raise DaemonDied("a daemon of the sandbox ended", dead, layout)
        for name in list(waiting):
            if is_ready(state.ports, name, since_ms=since_ms):
                waiting.remove(name)
                if on_ready is not None:
                    on_ready(name)
        if waiting and time.monotonic() > deadline:
            raise DaemonDied(f"not ready after {limit_s:.0f} s", waiting, layout)
        if waiting:
            time.sleep(POLL_S)


def end_with_children(
    daemons: Collection[ProcessId], others: Callable[[], list[ProcessId]]
) -> None:
    """Kill daemons, what they started, and all that `others` finds; see that none is left.

    Daemons first: a node manager that lives could still start a container.
    """
    leaders = [daemon for daemon in daemons if alive(daemon)]
    left = end(leaders)
    for _ in range(20):
        # Again until none is found: what is killed may have just started a child.
        found = [*in_sessions_of(leaders), *others()]
        if not found:
            break
        left = end(found)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise SandboxError(f"some processes of the sandbox do not die: pid {pids}")


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log file."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 200 * lines))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])


def current_user() -> str:
    """Return the user that the daemons run as."""
    return getpass.getuser()
