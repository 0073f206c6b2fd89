"""What a sandbox is made of and where: settings, ports, folders, and the file that records them."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from yarnps.client.home import home as client_home
from yarnps.client.sandbox._errors import AlreadyRunning, SandboxError, SandboxInputError
from yarnps.client.sandbox._processes import ProcessId

MASTER = "127.0.0.1"
NAMENODE, RESOURCEMANAGER = "namenode", "resourcemanager"
DATANODE, NODEMANAGER = "datanode", "nodemanager"
MAX_NODES = 200  # loopback addresses 127.0.0.11 and on; memory ends it long before

FORMAT = 1
LOCK_LIMIT_S = 5.0
LOWEST_PORT = 10000
# Folders and files of a run: `stop` removes these and nothing else.
OWN_ENTRIES = ("bin", "conf", "hdfs", "logs", "nodes", "tmp", "sandbox.json", "sandbox.json.new")
LOCK = "lock"


@dataclass(frozen=True)
class Settings:
    """What the caller chose.

    Attributes
    ----------
    nodes : int
        Number of nodes; each has a data node and a node manager.
    node_memory_mb, node_vcores : int
        What each node manager offers.
    am_expiry_s : int
        An ApplicationMaster that is silent this long, or has not registered this long after its
        launch, is lost.
    hide : tuple of str
        Paths that node managers and their containers see as empty folders (root only).
    node_env : dict
        More environment for node managers; containers get it too.
    """

    nodes: int = 2
    node_memory_mb: int = 6144
    node_vcores: int = 8
    am_expiry_s: int = 20
    hide: tuple[str, ...] = ()
    node_env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodePorts:
    """The ports of one node: three of its data node, three of its node manager."""

    data: int
    data_ipc: int
    data_http: int
    manager: int
    localizer: int
    manager_http: int


@dataclass(frozen=True)
class Ports:
    """The ports of one sandbox."""

    name: int
    name_http: int
    rm: int
    rm_scheduler: int
    rm_tracker: int
    rm_admin: int
    rm_http: int
    nodes: tuple[NodePorts, ...]


@dataclass(frozen=True)
class State:
    """A sandbox as recorded in its home."""

    settings: Settings
    ports: Ports
    hadoop: str  # folder of the jars and classes
    java_home: str
    ready: bool = False
    daemons: dict[str, ProcessId] = field(default_factory=dict)


class Layout:
    """The paths of a sandbox in its home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "sandbox.json"
        self.scripts = home / "bin"
        self.hdfs = home / "hdfs"
        self.logs = home / "logs"

    def conf(self, role: str) -> Path:
        """Configuration folder of "client", "master" or "node-<n>"."""
        return self.home / "conf" / role

    def node(self, index: int) -> Path:
        """Where the node manager of node `index` (from 1) keeps its containers."""
        return self.home / "nodes" / str(index)

    def log(self, daemon: str) -> Path:
        return self.logs / f"{daemon}.log"

    def tmp(self, daemon: str) -> Path:
        return self.home / "tmp" / daemon


def resolve_home(home: Path | None) -> Path:
    """Return the home meant: the argument, $YARNPS_SANDBOX_HOME, or ~/.yarnps/sandbox."""
    named = home or os.environ.get("YARNPS_SANDBOX_HOME") or client_home() / "sandbox"
    # Hadoop's class paths and comma lists have no quoting.
    resolved = Path(named).expanduser().resolve()
    if any(character in str(resolved) for character in ":,*'\"$` \n"):
        raise SandboxInputError(
            f"Hadoop cannot live in a folder of this name: {str(resolved)!r}",
            "Choose one without spaces, quotes, and the characters : , * $ `.",
        )
    return resolved


def node_address(index: int) -> str:
    """Return the loopback address of node `index`, counted from 1."""
    return f"127.0.0.{10 + index}"


def daemon_names(nodes: int) -> list[str]:
    """Return the names of all daemons, the slowest starters first."""
    workers = [f"{role}-{n}" for role in (NODEMANAGER, DATANODE) for n in range(1, nodes + 1)]
    return [RESOURCEMANAGER, NAMENODE, *workers]


def choose_ports(nodes: int) -> Ports:
    """Choose ports that are free now, each number once.

    They lie below the range that the kernel hands to outgoing connections, so that only another
    server could take one between now and the daemon's own bind.
    """
    with ExitStack() as held:
        masters = _free_ports(held, [MASTER] * 7, taken=set())
        taken = set(masters)
        rows = []
        for index in range(1, nodes + 1):
            row = _free_ports(held, [node_address(index)] * 6, taken)
            taken.update(row)
            rows.append(NodePorts(*row))
        name, name_http, *rm = masters
        return Ports(name, name_http, rm[0], rm[1], rm[2], rm[3], rm[4], nodes=tuple(rows))


def _free_ports(held: ExitStack, addresses: Sequence[str], taken: set[int]) -> list[int]:
    highest = _first_outgoing_port() - 1
    ports: list[int] = []
    for _ in range(1000):
        if len(ports) == len(addresses):
            return ports
        port = random.SystemRandom().randint(LOWEST_PORT, highest)
        if port in taken or port in ports:
            continue
        candidate = held.enter_context(socket.socket())
        try:
            candidate.bind((addresses[len(ports)], port))
        except OSError:
            continue
        ports.append(port)
    raise SandboxError(
        f"no free ports on {addresses[0]} between {LOWEST_PORT} and {highest}",
        "Look at what listens there with: ss -ltn",
    )


def _first_outgoing_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return first if first > LOWEST_PORT + 2000 else 65536


def write_state(layout: Layout, state: State) -> None:
    """Record a sandbox; a reader sees the old record or the new one, never half of one."""
    fresh = layout.state.with_suffix(".json.new")
    fresh.write_text(json.dumps({"format": FORMAT, **asdict(state)}, indent=1) + "\n")
    fresh.replace(layout.state)


def read_state(layout: Layout) -> State | None:
    """Return the record in this home, None if there is none that can be read."""
    try:
        content: dict[str, Any] = json.loads(layout.state.read_text())
        if content["format"] != FORMAT:
            return None
        settings, ports = content["settings"], content["ports"]
        nodes = tuple(NodePorts(**row) for row in ports.pop("nodes"))
        return State(
            settings=Settings(**{**settings, "hide": tuple(settings["hide"])}),
            ports=Ports(**ports, nodes=nodes),
            hadoop=content["hadoop"],
            java_home=content["java_home"],
            ready=content["ready"],
            daemons={name: ProcessId(*process) for name, process in content["daemons"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def claim_home(layout: Layout) -> None:
    """Refuse a folder that holds something else: a mistyped home must not be emptied later."""
    if not layout.home.exists():
        return
    if not layout.home.is_dir():
        raise SandboxInputError(f"not a folder: {layout.home}", "Name an empty or a new folder.")
    strangers = sorted(
        entry.name for entry in layout.home.iterdir() if entry.name not in (*OWN_ENTRIES, LOCK)
    )
    if strangers:
        raise SandboxInputError(
            f"the folder is not empty, and not a sandbox's: {layout.home} holds {strangers[0]}",
            "Name an empty or a new folder.",
        )


def remove_run(layout: Layout) -> None:
    """Remove every folder of this run from the home."""
    for name in OWN_ENTRIES:
        entry = layout.home / name
        if entry.is_dir() and not entry.is_symlink():
            _remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)


def _remove_tree(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except PermissionError:
        # A container may have left folders that even their owner cannot empty.
        os.chmod(folder, 0o700)
        for parent, names, _files in os.walk(folder):
            for name in names:
                inner = os.path.join(parent, name)
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
        shutil.rmtree(folder)


@contextmanager
def locked_home(layout: Layout) -> Iterator[None]:
    """Hold the home's lock: one start or stop at a time.

    Raises
    ------
    AlreadyRunning
        Another start or stop is under way in this home.
    """
    path = layout.home / LOCK
    deadline = time.monotonic() + LOCK_LIMIT_S
    while True:
        _make_home(layout.home)
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise AlreadyRunning(
                        f"another start or stop of this sandbox is under way: {layout.home}",
                        "Wait for it, or name another home with --home.",
                    ) from None
                time.sleep(0.1)
                continue
            # Whoever held it before may have removed the file together with the home.
            if _same_file(lock.fileno(), path):
                yield
                return
        if time.monotonic() > deadline:
            raise SandboxError(f"could not lock the sandbox's home: {layout.home}")


def _make_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        writable = os.access(home, os.W_OK)
    except OSError as error:
        raise SandboxInputError(
            f"the sandbox's folder cannot be made: {home}: {error.strerror}",
            "Name one that you can write to, with --home.",
        ) from None
    if not writable:
        raise SandboxInputError(
            f"the sandbox's folder is not yours to write to: {home}", "Name another with --home."
        )


def remove_home(layout: Layout) -> None:
    """Remove the home itself where nothing but our lock is left in it."""
    (layout.home / LOCK).unlink(missing_ok=True)
    if not any(layout.home.iterdir()):
        layout.home.rmdir()


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
